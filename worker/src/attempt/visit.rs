//! One delivery, from the first look into the log to the record of its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::decider::{AttemptRef, Dispatched, Report};
use engine_core::event::step::StepStarted;
use engine_core::event::{Body, Event, EventType};
use engine_core::machine::{RunStatus, StepStatus, StepSubstatus};
use engine_core::port::store::{ClaimRequest, ReadRequest};
use engine_core::{Code, Result, Timestamp};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::reviews::Reviews;
use super::telling::{is_late, late};
use super::{Delivery, Outcome, Standing};
use crate::claim::Claim;
use crate::execute::Call;
use crate::history::History;
use crate::prepare::{Prepared, ReadyStep};
use crate::worker::Worker;

/// How long a delivery that came early waits for its time.
const MOMENT_MS: u64 = 1000;

/// How long a delivery whose handler was cut off waits for the driver to say so.
const CUT_OFF_MS: u64 = 5000;

/// One delivery on its way.
pub(super) struct Visit {
    pub(super) worker: Worker,
    pub(super) delivery: Delivery,
    pub(super) history: History,
    /// Events about the attempt, by their place in the log.
    pub(super) events: BTreeMap<u64, Event>,
    /// A StepStarted that could not be written yet, and since when it is true.
    pub(super) unwritten: Option<(StepStarted, Timestamp)>,
}

impl Visit {
    /// WORKER-3.
    pub(super) async fn open(worker: &Worker, delivery: Delivery) -> Result<Self> {
        let shared = &worker.shared;
        let mut events = BTreeMap::new();
        let see = |event: &Event| note(&mut events, &delivery, event);
        let history =
            History::read(&*shared.store, &shared.plans, &delivery.tenant_id, &delivery.run_id, see).await?;
        history.code().find(&delivery.step_id)?;
        Ok(Self { worker: worker.clone(), delivery, history, events, unwritten: None })
    }

    pub(super) fn outcome(self, standing: Standing) -> Outcome {
        Outcome { standing, events: self.events.into_values().collect() }
    }

    /// A name of its own for each delivery: the same worker may be handed the same attempt twice.
    pub(super) fn claim(&self) -> ClaimRequest {
        ClaimRequest {
            run_id: self.delivery.run_id.clone(),
            step_id: self.delivery.step_id.clone(),
            attempt: self.delivery.attempt,
            worker: format!("{}/{}", self.worker.name(), uuid::Uuid::new_v4().simple()),
            duration_ms: self.worker.shared.claim_ms,
        }
    }

    /// Where the attempt stands if there is nothing to do for it (WORKER-4).
    pub(super) fn settled(&self) -> Option<Standing> {
        let has = |wanted: fn(&Body) -> bool| self.events.values().any(|event| wanted(&event.body));
        if has(ends) {
            Some(Standing::Ended)
        } else if self.history.run().state().status().is_some_and(RunStatus::is_terminal) {
            Some(Standing::RunEnded)
        } else if has(|body| matches!(body, Body::StepWaiting(_))) {
            Some(Standing::Waiting)
        } else {
            None
        }
    }

    pub(super) async fn work(&mut self, claim: &Claim, stop: &CancellationToken) -> Result<Standing> {
        // Whoever had the claim before may have ended the attempt since the log was read.
        self.catch_up().await?;
        if let Some(standing) = self.settled() {
            return Ok(standing);
        }
        if self.is_lost() {
            let message =
                format!("worker {} found the attempt started and its claim expired", self.worker.name());
            self.tell(Report::WorkerLost { message }).await?;
            if let Some(standing) = self.settled() {
                return Ok(standing);
            }
        }
        if let Some(standing) = self.wait_for_backoff(stop).await? {
            return Ok(standing);
        }
        let Some(view) = self.history.run().attempt(self.delivery.step_id.as_str()) else {
            return Ok(Standing::NotReleased);
        };
        if view.attempt == self.delivery.attempt && view.substatus == Some(StepSubstatus::Cancelling) {
            return self.record(Report::Cancelled).await;
        }
        let index = self.history.code().find(&self.delivery.step_id)?;
        let task = Dispatched {
            attempt: AttemptRef { step: self.delivery.step_id.clone(), attempt: self.delivery.attempt },
            handler: self.history.code().plan.step(index).handler.clone(),
            agent: view.agent,
            started: view.status == StepStatus::Running,
            try_number: view.retries + view.losses + 1,
            not_before: None,
        };
        if let Some(standing) = self.not_to_start(&task)? {
            return Ok(standing);
        }
        match self.worker.prepare(&self.history, &task).await? {
            Prepared::Decided(report) => {
                if !task.started && matches!(report, Report::Failed { .. }) {
                    self.unwritten = Some((self.start_of(&task, claim), self.now()));
                }
                self.record(report).await
            }
            Prepared::Ready(ready) => self.run(ready, &task, claim, stop).await,
        }
    }

    async fn run(
        &mut self,
        ready: ReadyStep,
        task: &Dispatched,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> Result<Standing> {
        if !task.started {
            let started = StepStarted { claim_until: Some(claim.until()), ..ready.started().clone() };
            let since = self.now();
            match self.tell(Report::Started(started.clone())).await {
                Ok(()) => {}
                // BUDGET-2, BUDGET-3: this delivery has read the log.
                Err(error) if is_late(&error) => {
                    late(&self.delivery, "StepStarted", &error);
                    self.unwritten = Some((started, since));
                }
                Err(error) => return self.refused(error).await,
            }
            if let Some(standing) = self.settled() {
                return Ok(standing);
            }
        }
        let reviews = Arc::new(Reviews::new(self.delivery.observer.clone()));
        let call = Call {
            engine_attempt: self.delivery.engine_attempt.unwrap_or(task.try_number),
            cancellation: stop.clone(),
            observer: reviews.clone(),
        };
        let worker = self.worker.clone();
        let time = worker.time().clone();
        // CANCEL-3.
        let grace_ms = self.history.queued().map_or(0, |queued| queued.limits.cancel_grace_ms);
        let forced = async {
            stop.cancelled().await;
            time.alarm(time.now().plus_millis(grace_ms)).await;
        };
        let report = tokio::select! {
            biased;
            report = worker.execute(ready, call) => Some(report),
            () = forced => None,
            () = self.tell_reviews_for_ever(&reviews) => None,
        };
        self.tell_reviews(&reviews).await;
        match report {
            // What it did is done, whoever holds the claim now; the log takes one end.
            Some(report @ (Report::Completed(_) | Report::Waiting(_))) => self.record(report).await,
            _ if claim.is_lost() => Ok(Standing::GivenBack),
            Some(Report::Cancelled) if stop.is_cancelled() => self.stopped().await,
            Some(report) => self.record(report).await,
            None if stop.is_cancelled() => self.cut_off().await,
            None => Ok(Standing::GivenBack),
        }
    }

    /// The handler stopped because this delivery was asked to. Only the log tells whether the run wants that.
    async fn stopped(&mut self) -> Result<Standing> {
        self.catch_up().await?;
        if let Some(standing) = self.settled() {
            return Ok(standing);
        }
        let view = self.history.run().attempt(self.delivery.step_id.as_str());
        match view.and_then(|view| view.substatus) {
            Some(StepSubstatus::Cancelling) => self.record(Report::Cancelled).await,
            _ => Ok(Standing::GivenBack),
        }
    }

    /// The handler did not stop in time. That its time is over the run's driver says in the log (CANCEL-4); when nobody
    /// does, the attempt is as good as lost.
    async fn cut_off(&mut self) -> Result<Standing> {
        let time = self.worker.time().clone();
        let until = self.now().plus_millis(CUT_OFF_MS);
        loop {
            self.catch_up().await?;
            if let Some(standing) = self.settled() {
                return Ok(standing);
            }
            let view = self.history.run().attempt(self.delivery.step_id.as_str());
            if view.and_then(|view| view.substatus) != Some(StepSubstatus::Cancelling) {
                return Ok(Standing::GivenBack);
            }
            if self.now() >= until {
                break;
            }
            let mut news = self.worker.shared.store.tail(ReadRequest {
                tenant_id: self.delivery.tenant_id.clone(),
                run_id: self.delivery.run_id.clone(),
                after: self.history.run().state().watermark(),
                limit: 1,
            });
            tokio::select! {
                _ = news.next() => {}
                () = time.alarm(until) => {}
            }
        }
        let message = "its handler did not stop and was cut off".to_owned();
        self.record(Report::WorkerLost { message }).await
    }

    /// Whether the last that the log tells of the attempt is that somebody runs it. We hold the claim, so nobody does.
    fn is_lost(&self) -> bool {
        match self.events.values().next_back().map(|event| &event.body) {
            Some(Body::StepStarted(_) | Body::HumanReviewRequested(_)) => true,
            // Whoever wrote that went on with the attempt.
            Some(Body::StepRetried(retried)) => retried.worker_lost,
            _ => false,
        }
    }

    /// A delivery may come while a try backs off: one too many, or from a clock that is ahead. The next try does not begin
    /// early for it (RETRY-6): a moment is waited out, and more is given back.
    async fn wait_for_backoff(&mut self, stop: &CancellationToken) -> Result<Option<Standing>> {
        let ours = |task: &Dispatched| {
            task.attempt.step == self.delivery.step_id && task.attempt.attempt == self.delivery.attempt
        };
        let task = self.history.run().actions().dispatch.into_iter().find(ours);
        let now = self.now();
        let Some(at) = task.and_then(|task| task.not_before).filter(|at| *at > now) else { return Ok(None) };
        let delay_ms = at.millis_since(now);
        if delay_ms > MOMENT_MS {
            return Ok(Some(Standing::TryAgain { delay_ms }));
        }
        let time = self.worker.time().clone();
        tokio::select! {
            () = time.sleep_until(at) => {}
            () = stop.cancelled() => {}
        }
        self.catch_up().await?;
        Ok(self.settled())
    }

    /// Asks the decider whether the attempt may start, before anything of it is worked out.
    fn not_to_start(&self, task: &Dispatched) -> Result<Option<Standing>> {
        if task.started {
            return Ok(None);
        }
        let started = StepStarted {
            handler: task.handler.clone(),
            agent: None,
            worker: self.worker.name().to_owned(),
            claim_until: None,
            idempotency_token: None,
        };
        match self.history.run().decide(self.stimulus(Report::Started(started))) {
            Ok(_) => Ok(None),
            Err(error) => match error.code() {
                Code::RunNotStarted | Code::IllegalTransition => Ok(Some(Standing::NotReleased)),
                Code::RunTerminal => Ok(Some(Standing::RunEnded)),
                _ => Err(error),
            },
        }
    }

    fn start_of(&self, task: &Dispatched, claim: &Claim) -> StepStarted {
        StepStarted {
            handler: task.handler.clone(),
            agent: task.agent.clone(),
            worker: self.worker.name().to_owned(),
            claim_until: Some(claim.until()),
            idempotency_token: None,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.worker.time().now()
    }
}

pub(super) fn note(events: &mut BTreeMap<u64, Event>, delivery: &Delivery, event: &Event) {
    let ours = |subject: &engine_core::event::Subject| {
        subject.step == delivery.step_id && subject.attempt == delivery.attempt
    };
    if event.subject.as_ref().is_some_and(ours) {
        events.insert(event.run_seq, event.clone());
    }
}

fn ends(body: &Body) -> bool {
    matches!(
        body.event_type(),
        Some(
            EventType::StepCompleted
                | EventType::StepFailed
                | EventType::StepSkipped
                | EventType::StepCancelled
        )
    )
}
