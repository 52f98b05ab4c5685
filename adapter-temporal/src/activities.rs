//! Activities: an attempt of a step, the undoing of one, and the turns that the workflow asks for.
//!
//! A step's activity has the handler's name as its type. Temporal's SDK knows no catch-all, so one Rust type is registered
//! once for each name; which name it stands for is told aside while it is registered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine_core::decider::{AttemptRef, Stimulus};
use engine_core::event::step::StepError;
use engine_core::event::{Body, Event};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepSubstatus};
use engine_core::port::StepObserver;
use engine_core::port::store::{AppendAs, AppendRequest, Appended};
use engine_core::{Code, Error, Result, StepId};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use temporalio_client::{Client, WorkflowHandle, WorkflowSignalOptions};
use temporalio_common::ActivityDefinition;
use temporalio_sdk::ApplicationFailure;
use temporalio_sdk::activities::{
    ActivityContext, ActivityDefinitions, ActivityError, ActivityImplementer, ExecutableActivity,
};
use tokio_util::sync::CancellationToken;
use worker::{Call, Delivery, Worker};

use crate::carried::{Ask, Carried, Done, Errand, Standing, Told};
use crate::driver::{Interpreter, Ring};
use crate::stops::Stops;
use crate::turn;

/// The type of the local activity that decides and writes. No handler can have it: it would belong to an engine.
const TURN: &str = "drivetrain:turn";

/// How long until an attempt is looked at again that another worker holds, and how often one looks into the log that
/// Temporal has let go of.
const AGAIN: Duration = Duration::from_millis(500);

/// The longest message of an error that goes into Temporal's history.
const LONGEST_MESSAGE: usize = 500;

/// What the activities of one process share.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) worker: Worker,
    pub(crate) stops: Stops,
    /// Fires when this process lets go of its attempts.
    pub(crate) stopping: CancellationToken,
}

thread_local! {
    static NAME: RefCell<String> = const { RefCell::new(String::new()) };
}

/// An attempt of a step, by the name of its handler.
pub(crate) struct StepActivity {
    name: String,
}

impl StepActivity {
    pub(crate) fn named(handler: &str) -> Self {
        Self { name: handler.to_owned() }
    }
}

impl ActivityDefinition for StepActivity {
    type Input = Errand;
    type Output = Done;

    fn name(&self) -> &str {
        &self.name
    }
}

impl ExecutableActivity for StepActivity {
    type Implementer = Desk;
    const REQUIRES_INSTANCE: bool = true;

    fn definition() -> Self {
        Self { name: NAME.with(|name| name.borrow().clone()) }
    }

    fn execute(
        desk: Option<Arc<Desk>>,
        context: ActivityContext,
        errand: Errand,
    ) -> BoxFuture<'static, Result<Done, ActivityError>> {
        async move {
            let Some(desk) = desk else { return Err(unregistered()) };
            desk.attend(&context, errand).await
        }
        .boxed()
    }
}

/// A turn of a run's driver.
pub(crate) struct TurnActivity;

impl ActivityDefinition for TurnActivity {
    type Input = Ask;
    type Output = Told;

    fn name(&self) -> &str {
        TURN
    }
}

impl ExecutableActivity for TurnActivity {
    type Implementer = Desk;
    const REQUIRES_INSTANCE: bool = true;

    fn definition() -> Self {
        Self
    }

    fn execute(
        desk: Option<Arc<Desk>>,
        context: ActivityContext,
        ask: Ask,
    ) -> BoxFuture<'static, Result<Told, ActivityError>> {
        async move {
            let Some(desk) = desk else { return Err(unregistered()) };
            tokio::select! {
                told = turn::take(&desk.worker, &desk.stops, ask) => told.map_err(|error| again(&error)),
                () = context.cancelled() => Err(let_go()),
            }
        }
        .boxed()
    }
}

impl ActivityImplementer for Desk {
    fn register_all(self: Arc<Self>, definitions: &mut ActivityDefinitions) {
        for handler in self.worker.handlers().names() {
            NAME.with(|name| handler.as_str().clone_into(&mut name.borrow_mut()));
            definitions.register_activity::<StepActivity>(Arc::clone(&self));
        }
        definitions.register_activity::<TurnActivity>(self);
    }
}

impl Desk {
    /// Does an errand.
    ///
    /// When Temporal takes a run out of memory, it lets go of its local activities and does nothing more for the run until
    /// they return. The attempt goes on without them: it holds the claim, and whoever is handed it next gets its end from
    /// the log.
    async fn attend(&self, context: &ActivityContext, errand: Errand) -> Result<Done, ActivityError> {
        if !context.info().is_local {
            return self.work(context, errand).await;
        }
        let mut working = {
            let (desk, context, errand) = (self.clone(), context.clone(), errand.clone());
            tokio::spawn(async move { desk.work(&context, errand).await })
        };
        let done = tokio::select! {
            done = &mut working => done,
            () = context.cancelled() => {
                if !self.must_stop(&errand).await {
                    return Err(let_go());
                }
                working.await
            }
        };
        done.unwrap_or_else(|cause| Err(again(&Error::new(Code::Internal, cause.to_string()))))
    }

    /// Does an errand and shows signs of life meanwhile.
    async fn work(&self, context: &ActivityContext, errand: Errand) -> Result<Done, ActivityError> {
        let attempt = AttemptRef { step: errand.step_id.clone(), attempt: errand.attempt };
        let stop = CancellationToken::new();
        let _running = self.stops.enter(&errand.run_id, attempt, stop.clone());
        let work = async {
            match errand.undo {
                Some(try_number) => self.undo(&errand, try_number, &stop).await,
                None => self.attempt(context, &errand, &stop).await,
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            never = self.watch(context, &errand, &stop) => never,
        }
    }

    /// Shows signs of life, and stops the handler when the log says so. Temporal's word alone does not count: it also
    /// lets go of an attempt when a history is cut off, and then the handler goes on under its claim.
    async fn watch<T>(&self, context: &ActivityContext, errand: &Errand, stop: &CancellationToken) -> T {
        let heartbeat = context.info().heartbeat_timeout.unwrap_or(Duration::from_secs(30)) / 2;
        let mut beats = tokio::time::interval_at(tokio::time::Instant::now() + heartbeat, heartbeat);
        let mut let_go = false;
        loop {
            let looking = tokio::time::sleep(if let_go { AGAIN } else { Duration::MAX });
            tokio::select! {
                _ = beats.tick() => {
                    if let Err(error) = context.record_heartbeat(()).await {
                        tracing::warn!(%error, "a heartbeat cannot be written");
                    }
                }
                () = context.cancelled(), if !let_go => let_go = true,
                () = looking, if let_go && !stop.is_cancelled() => {}
                () = self.stopping.cancelled(), if !stop.is_cancelled() => stop.cancel(),
            }
            if let_go && !stop.is_cancelled() && self.must_stop(errand).await {
                stop.cancel();
            }
        }
    }

    /// Whether the log says that an attempt must stop.
    async fn must_stop(&self, errand: &Errand) -> bool {
        let Ok(Some(history)) = turn::load(&self.worker, &errand.tenant_id, &errand.run_id).await else {
            return false;
        };
        if history.run().state().status().is_some_and(RunStatus::is_terminal) {
            return true;
        }
        errand.undo.is_none()
            && history.run().attempt(errand.step_id.as_str()).is_some_and(|view| {
                view.attempt > errand.attempt
                    || view.status.is_terminal()
                    || view.substatus == Some(StepSubstatus::Cancelling)
            })
    }

    /// Does an attempt. What its worker cannot do now is tried again here; what failed and is tried again later goes back
    /// to Temporal, which waits.
    async fn attempt(
        &self,
        context: &ActivityContext,
        errand: &Errand,
        stop: &CancellationToken,
    ) -> Result<Done, ActivityError> {
        let local = context.info().is_local;
        loop {
            // DISPATCH-7.
            if local {
                let waiting =
                    self.worker.store().undecided(&errand.run_id).await.map_err(|error| again(&error))?;
                if !waiting.is_empty() {
                    return Ok(Done { standing: Standing::SignalsFirst, events: Vec::new() });
                }
            }
            let delivery = Delivery {
                engine_attempt: (!local).then_some(context.info().attempt),
                cancellation: stop.clone(),
                observer: Some(Arc::new(Listener::of(context, &errand.step_id))),
                ..Delivery::new(
                    errand.tenant_id.clone(),
                    errand.run_id.clone(),
                    errand.step_id.clone(),
                    errand.attempt,
                )
            };
            match self.worker.attempt(delivery).await {
                Ok(outcome) => match outcome.standing {
                    worker::Standing::Ended | worker::Standing::Waiting => return told(&outcome.events),
                    worker::Standing::TryAgain { delay_ms } if !local => {
                        return Err(try_again(&outcome.events, delay_ms));
                    }
                    worker::Standing::TryAgain { .. } => return told(&outcome.events),
                    worker::Standing::NotReleased => {
                        return Ok(Done { standing: Standing::NotReleased, events: Vec::new() });
                    }
                    worker::Standing::RunEnded => {
                        return Ok(Done { standing: Standing::Over, events: Vec::new() });
                    }
                    worker::Standing::GivenBack if self.stopping.is_cancelled() => {
                        return Err(again(&Error::new(Code::WorkerLost, "the worker is shutting down")));
                    }
                    worker::Standing::GivenBack => {}
                },
                Err(error) if error.is_retryable() => {
                    tracing::warn!(run_id = %errand.run_id, step_id = %errand.step_id, %error,
                        "an attempt cannot be done for now");
                }
                Err(error) => return Err(again(&error)),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Undoes an attempt outside of any workflow.
    pub(crate) async fn undo_here(&self, errand: &Errand, try_number: u32) {
        if self.undo(errand, try_number, &self.stopping).await.is_err() {
            tracing::warn!(run_id = %errand.run_id, step_id = %errand.step_id, "a step cannot be undone for now");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Undoes an attempt and writes down how that went. Only the driver decides meanwhile, and it waits for this.
    async fn undo(
        &self,
        errand: &Errand,
        try_number: u32,
        stop: &CancellationToken,
    ) -> Result<Done, ActivityError> {
        let over = Done { standing: Standing::Over, events: Vec::new() };
        let worker = &self.worker;
        let mut outcome = None;
        loop {
            let loaded = turn::load(worker, &errand.tenant_id, &errand.run_id).await;
            let Some(history) = loaded.map_err(|error| again(&error))? else { return Ok(over) };
            let task = history.run().actions().compensate.filter(|task| {
                task.attempt.step == errand.step_id
                    && task.attempt.attempt == errand.attempt
                    && task.try_number == try_number
            });
            // Whoever was handed this before has written down how it went.
            let Some(task) = task else { return Ok(over) };
            if outcome.is_none() {
                let ready = worker.prepare_compensation(&history, &task).await;
                outcome = Some(match ready.map_err(|error| again(&error))? {
                    Ok(ready) => {
                        let observer = Arc::new(Listener { step_id: errand.step_id.clone(), driver: None });
                        let cancellation = stop.clone();
                        let call = Call { engine_attempt: try_number, cancellation, observer };
                        worker.execute_compensation(ready, call).await
                    }
                    Err(error) => Err(error),
                });
            }
            let Some(told) = outcome.clone() else { continue };
            let stimulus = Stimulus::Compensation { step: errand.step_id.clone(), outcome: told };
            let drafts = history.run().decide(stimulus).map_err(|error| again(&error))?;
            let request = AppendRequest {
                tenant_id: errand.tenant_id.clone(),
                run_id: errand.run_id.clone(),
                append_as: AppendAs::of(history.run(), &drafts),
                drafts,
                emitted_by: Arc::from(worker.name()),
                fence: None,
            };
            match worker.store().append(request).await {
                Ok(Appended::Stored(_)) => return Ok(over),
                Ok(Appended::Conflict(_)) => {}
                Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(again(&error)),
            }
        }
    }
}

/// What the log tells of an attempt that has ended. One that failed is shown as failed in Temporal, too.
fn told(events: &[Event]) -> Result<Done, ActivityError> {
    let done = Done { standing: Standing::Told, events: events.iter().map(Carried::of).collect() };
    let failed = events.iter().rev().find_map(|event| match &event.body {
        Body::StepFailed(failed) => Some(failed),
        _ => None,
    });
    match failed {
        None => Ok(done),
        Some(failed) => Err(ActivityError::application(
            ApplicationFailure::builder(described(&failed.error))
                .type_name(failed.error.code.clone())
                .non_retryable(true)
                .details(done)
                .build(),
        )),
    }
}

/// A try failed, and another follows after a while.
fn try_again(events: &[Event], delay_ms: u64) -> ActivityError {
    let error = events.iter().rev().find_map(|event| match &event.body {
        Body::StepRetried(retried) => Some(&retried.error),
        _ => None,
    });
    let unknown = StepError::new(FailureClass::Transient, "Unknown", "it is tried again");
    let error = error.unwrap_or(&unknown);
    ActivityError::application(
        ApplicationFailure::builder(described(error))
            .type_name(error.code.clone())
            .next_retry_delay(Duration::from_millis(delay_ms))
            .build(),
    )
}

/// Something keeps this process from doing it; another may.
fn again(error: &Error) -> ActivityError {
    let type_name = error.code().as_str().to_owned();
    ActivityError::application(ApplicationFailure::builder(error.to_string()).type_name(type_name).build())
}

fn let_go() -> ActivityError {
    again(&Error::new(Code::LeaseLost, "Temporal has let go of it"))
}

fn unregistered() -> ActivityError {
    again(&Error::new(Code::Internal, "an activity was registered without what it needs"))
}

fn described(error: &StepError) -> String {
    let message = &error.message;
    let end = (0..=LONGEST_MESSAGE.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message[..end.unwrap_or(0)].to_owned()
}

/// Hears what a handler tells.
struct Listener {
    step_id: StepId,
    /// Who decides about what it tells.
    driver: Option<Arc<WorkflowHandle<Client, Interpreter>>>,
}

impl Listener {
    fn of(context: &ActivityContext, step_id: &StepId) -> Self {
        Self { step_id: step_id.clone(), driver: context.workflow_handle::<Interpreter>().map(Arc::new) }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").field("step_id", &self.step_id).finish_non_exhaustive()
    }
}

impl StepObserver for Listener {
    fn progress(&self, _: f64) {}

    /// A request for review stands in the log; the run may have to pause for it, and its driver reads the log when it is
    /// rung. Should that be lost, it reads it at the end of the attempt.
    fn review(&self, _: &str, _: BTreeMap<String, Value>) {
        let Some(driver) = self.driver.clone() else { return };
        let ring = Ring::about_a_review(&self.step_id);
        tokio::spawn(async move {
            let rung = driver.signal(Interpreter::ring, ring, WorkflowSignalOptions::default()).await;
            if let Err(error) = rung {
                tracing::warn!(%error, "a run does not hear of a request for review for now");
            }
        });
    }

    fn log(&self, line: &str) {
        tracing::info!(target: "drivetrain::step", step = %self.step_id, "{line}");
    }
}
