//! Handlers that run for one run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use engine_core::decider::{AttemptRef, Report};
use engine_core::event::step::StepError;
use engine_core::port::StepObserver;
use engine_core::{RunId, TenantId};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use worker::{Call, Delivery, ReadyStep};

use crate::claimed;
use crate::engine::Shared;
use crate::faults::{Fault, Moment};

/// What a driver is told.
#[derive(Debug)]
pub(crate) enum Input {
    /// An attempt has something to tell.
    Attempt(AttemptRef, Box<Report>),
    /// A try at undoing a step has ended.
    Undone(AttemptRef, Result<BTreeMap<String, String>, StepError>),
    /// An attempt was handed out, and whether something came of it.
    Delivered(AttemptRef, bool),
    /// The log has an event at this place; only told to drivers that do not write everything themselves.
    Grown(u64),
    /// Signals may have come, or it is time to look.
    Look,
    /// As if the process had been killed.
    Crash,
}

/// Handlers that run.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    running: HashMap<AttemptRef, Flight>,
    undoing: Option<((AttemptRef, u32), Flight)>,
}

#[derive(Debug)]
struct Flight {
    cancellation: CancellationToken,
    task: AbortHandle,
}

impl Flight {
    /// Calls a handler of an attempt; how that ends is told to `mailbox`.
    fn begin<F>(
        shared: &Arc<Shared>,
        mailbox: &UnboundedSender<Input>,
        attempt: &AttemptRef,
        try_number: u32,
        handler: impl FnOnce(Arc<Shared>, Call) -> F,
    ) -> Self
    where
        F: Future<Output = Input> + Send + 'static,
    {
        let cancellation = CancellationToken::new();
        let observer = Arc::new(Observer { mailbox: mailbox.clone(), attempt: attempt.clone() });
        let call = Call { engine_attempt: try_number, cancellation: cancellation.clone(), observer };
        let (engine, mailbox) = (Arc::clone(shared), mailbox.clone());
        let ending = handler(Arc::clone(shared), call);
        let task = shared.spawn(async move {
            let busy = engine.busy();
            // A driver that is gone has left the attempt to whoever comes next.
            let _ = mailbox.send(ending.await);
            drop(busy);
        });
        Self { cancellation, task }
    }

    fn cut_off(&self) {
        self.cancellation.cancel();
        self.task.abort();
    }
}

impl Flights {
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.undoing.is_none()
    }

    pub(crate) fn has(&self, attempt: &AttemptRef) -> bool {
        self.running.contains_key(attempt)
    }

    pub(crate) fn undoes(&self, attempt: &AttemptRef, try_number: u32) -> bool {
        self.undoing.as_ref().is_some_and(|((other, number), _)| other == attempt && *number == try_number)
    }

    /// Calls the handler of an attempt; what it reports goes to `mailbox`.
    pub(crate) fn launch(
        &mut self,
        shared: &Arc<Shared>,
        mailbox: &UnboundedSender<Input>,
        attempt: AttemptRef,
        try_number: u32,
        ready: ReadyStep,
    ) {
        let who = attempt.clone();
        let flight = Flight::begin(shared, mailbox, &attempt, try_number, |engine, call| async move {
            let run_id = ready.run_id().clone();
            let report = engine.worker.execute(ready, call).await;
            match engine.fault(&run_id, Moment::HandlerEnded(&who)) {
                Fault::Crash => Input::Crash,
                Fault::None | Fault::Forget => Input::Attempt(who, Box::new(report)),
            }
        });
        self.running.insert(attempt, flight);
    }

    /// Hands an attempt out with a claim, so many times; whether something came of it goes to `mailbox`.
    pub(crate) fn deliver(
        &mut self,
        shared: &Arc<Shared>,
        mailbox: &UnboundedSender<Input>,
        (tenant_id, run_id): (TenantId, RunId),
        attempt: AttemptRef,
        copies: usize,
    ) {
        let who = attempt.clone();
        let flight = Flight::begin(shared, mailbox, &attempt, 1, |engine, call| async move {
            let delivery = Delivery {
                released_by_driver: true,
                cancellation: call.cancellation,
                ..Delivery::new(tenant_id, run_id, who.step.clone(), who.attempt)
            };
            let done = claimed::deliver(&engine, &delivery, copies).await;
            match engine.fault(&delivery.run_id, Moment::HandlerEnded(&who)) {
                Fault::Crash => Input::Crash,
                Fault::None | Fault::Forget => Input::Delivered(who, done),
            }
        });
        self.running.insert(attempt, flight);
    }

    /// Calls the handler that undoes an attempt.
    pub(crate) fn undo(
        &mut self,
        shared: &Arc<Shared>,
        mailbox: &UnboundedSender<Input>,
        attempt: AttemptRef,
        try_number: u32,
        ready: ReadyStep,
    ) {
        let who = attempt.clone();
        let flight = Flight::begin(shared, mailbox, &attempt, try_number, |engine, call| async move {
            Input::Undone(who, engine.worker.execute_compensation(ready, call).await)
        });
        self.undoing = Some(((attempt, try_number), flight));
    }

    /// An attempt's handler has ended.
    pub(crate) fn landed(&mut self, attempt: &AttemptRef) {
        self.running.remove(attempt);
    }

    /// The handler that undoes a step has ended.
    pub(crate) fn undone(&mut self) {
        self.undoing = None;
    }

    /// Asks a handler to stop; `false` when none runs.
    pub(crate) fn cancel(&self, attempt: &AttemptRef) -> bool {
        let flight = self.running.get(attempt);
        if let Some(flight) = flight {
            flight.cancellation.cancel();
        }
        flight.is_some()
    }

    /// Cuts off the handler of an attempt that has ended without it, if one runs.
    pub(crate) fn cut_off(&mut self, attempt: &AttemptRef) {
        if let Some(flight) = self.running.remove(attempt) {
            flight.cut_off();
        }
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.running.drain().for_each(|(_, flight)| flight.cut_off());
        if let Some((_, flight)) = self.undoing.take() {
            flight.cut_off();
        }
    }
}

/// Hears what a handler tells while it runs. The worker has written the progress down.
struct Observer {
    mailbox: UnboundedSender<Input>,
    attempt: AttemptRef,
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Observer").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl StepObserver for Observer {
    fn progress(&self, _: f64) {}

    fn review(&self, reason: &str, context: BTreeMap<String, Value>) {
        let report = Report::ReviewRequested { reason: reason.to_owned(), context };
        let _ = self.mailbox.send(Input::Attempt(self.attempt.clone(), Box::new(report)));
    }

    fn log(&self, line: &str) {
        tracing::info!(target: "drivetrain::step", step = %self.attempt.step, attempt = self.attempt.attempt, "{line}");
    }
}
