//! The whole way of one delivery: log, claim, StepStarted, handler, end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use engine_core::decider::{AttemptRef, Dispatched, Report, StepReport, Stimulus};
use engine_core::event::step::{StepError, StepStarted};
use engine_core::event::{Body, Event, EventType};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepStatus, StepSubstatus};
use engine_core::port::StepObserver;
use engine_core::port::store::{AppendAs, AppendRequest, Appended, ClaimRequest};
use engine_core::{Code, Error, Result, RunId, StepId, TenantId, Timestamp};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::claim::Claim;
use crate::execute::Call;
use crate::history::History;
use crate::prepare::{Prepared, ReadyStep};
use crate::worker::Worker;

/// How long a handler has after it was asked to stop (CANCEL-3).
const GRACE_MS: u64 = 5000;

/// The longest pause between two tries to record an end.
const LONGEST_PAUSE_MS: u64 = 5000;

/// An attempt that an engine hands to a worker. Ids, never payloads (DATA-5).
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// The engine's own counter, if it has one.
    pub engine_attempt: Option<u32>,
    /// The run's driver itself handed the attempt out; its word counts (WORKER-19).
    pub released_by_driver: bool,
    /// Fires when the attempt must stop: the run is cancelled, or this worker shuts down.
    pub cancellation: CancellationToken,
    /// Takes log lines and progress; review requests go into the log.
    pub observer: Option<Arc<dyn StepObserver>>,
}

impl Delivery {
    /// A delivery that nobody stops or listens to.
    #[must_use]
    pub fn new(tenant_id: TenantId, run_id: RunId, step_id: StepId, attempt: u32) -> Self {
        Self {
            tenant_id,
            run_id,
            step_id,
            attempt,
            engine_attempt: None,
            released_by_driver: false,
            cancellation: CancellationToken::new(),
            observer: None,
        }
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Where the attempt stands.
    pub standing: Standing,
    /// Every event of the log about the attempt, in order: for a driver that folds what its workers return.
    pub events: Vec<Event>,
}

/// Where an attempt stands after a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has ended, now or before; its end is the last of the events that ends an attempt.
    Ended,
    /// Its handler is done, and a person must complete it.
    Waiting,
    /// A try failed; deliver it again after at least so many milliseconds.
    TryAgain {
        /// The delay.
        delay_ms: u64,
    },
    /// Another worker has it, or took it over, or this worker is shutting down: deliver it again later. The handler of
    /// this delivery does not run any more.
    GivenBack,
    /// The log does not tell of its release; deliver it again once it does.
    NotReleased,
    /// The run has ended without it.
    RunEnded,
}

impl Worker {
    /// Does a delivered attempt from the first look into the log to the record of its end.
    ///
    /// An attempt that has ended is not done again; one that another worker holds is given back. A `StepStarted` that
    /// cannot be written in time does not stop the handler; an end that cannot is written again until it is (BUDGET-2 to
    /// BUDGET-6).
    ///
    /// # Errors
    /// What keeps the log from being read or written: deliver it again.
    pub async fn attempt(&self, delivery: Delivery) -> Result<Outcome> {
        let mut visit = Visit::open(self, delivery).await?;
        if let Some(standing) = visit.settled() {
            return Ok(visit.outcome(standing));
        }
        let stop = visit.delivery.cancellation.child_token();
        let claim = match Claim::take(&self.shared.store, &self.shared.time, visit.claim(), stop.clone())
            .await
        {
            Ok(claim) => claim,
            // WORKER-7.
            Err(error) if error.code() == Code::LeaseHeld => return Ok(visit.outcome(Standing::GivenBack)),
            Err(error) => return Err(error),
        };
        let standing = visit.work(&claim, &stop).await;
        claim.give_back().await;
        Ok(visit.outcome(standing?))
    }
}

/// One delivery on its way.
struct Visit {
    worker: Worker,
    delivery: Delivery,
    history: History,
    /// Events about the attempt, by their place in the log.
    events: BTreeMap<u64, Event>,
    /// A StepStarted that could not be written yet, and since when it is true.
    unwritten: Option<(StepStarted, Timestamp)>,
}

impl Visit {
    /// WORKER-3.
    async fn open(worker: &Worker, delivery: Delivery) -> Result<Self> {
        let shared = &worker.shared;
        let mut events = BTreeMap::new();
        let see = |event: &Event| note(&mut events, &delivery, event);
        let history =
            History::read(&*shared.store, &shared.plans, &delivery.tenant_id, &delivery.run_id, see).await?;
        history.code().find(&delivery.step_id)?;
        Ok(Self { worker: worker.clone(), delivery, history, events, unwritten: None })
    }

    fn outcome(self, standing: Standing) -> Outcome {
        Outcome { standing, events: self.events.into_values().collect() }
    }

    /// A name of its own for each delivery: the same worker may be handed the same attempt twice.
    fn claim(&self) -> ClaimRequest {
        ClaimRequest {
            run_id: self.delivery.run_id.clone(),
            step_id: self.delivery.step_id.clone(),
            attempt: self.delivery.attempt,
            worker: format!("{}/{}", self.worker.name(), uuid::Uuid::new_v4().simple()),
            duration_ms: self.worker.shared.claim_ms,
        }
    }

    /// Where the attempt stands if there is nothing to do for it (WORKER-4).
    fn settled(&self) -> Option<Standing> {
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

    async fn work(&mut self, claim: &Claim, stop: &CancellationToken) -> Result<Standing> {
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
        let reviews = Arc::new(Reviews { listener: self.delivery.observer.clone(), ..Reviews::default() });
        let call = Call {
            engine_attempt: self.delivery.engine_attempt.unwrap_or(task.try_number),
            cancellation: stop.clone(),
            observer: reviews.clone(),
        };
        let worker = self.worker.clone();
        let time = worker.time().clone();
        let forced = async {
            stop.cancelled().await;
            time.sleep_until(time.now().plus_millis(GRACE_MS)).await;
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
            Some(Report::Cancelled) | None if stop.is_cancelled() => self.stopped().await,
            Some(report) => self.record(report).await,
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

    /// Whether the last that the log tells of the attempt is that somebody runs it. We hold the claim, so nobody does.
    fn is_lost(&self) -> bool {
        match self.events.values().next_back().map(|event| &event.body) {
            Some(Body::StepStarted(_) | Body::HumanReviewRequested(_)) => true,
            // Whoever wrote that went on with the attempt.
            Some(Body::StepRetried(retried)) => retried.worker_lost,
            _ => false,
        }
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

    /// Records an end or a failed try, however long the store needs (BUDGET-5, BUDGET-6).
    async fn record(&mut self, mut report: Report) -> Result<Standing> {
        let mut pause_ms = 100;
        loop {
            let error = match self.tell(report.clone()).await {
                Ok(()) => return Ok(self.standing()),
                Err(error) => error,
            };
            if is_late(&error) {
                late(&self.delivery, "the end of the attempt", &error);
                if self.delivery.cancellation.is_cancelled() && pause_ms >= LONGEST_PAUSE_MS {
                    return Err(error);
                }
                let time = self.worker.time().clone();
                time.sleep_until(time.now().plus_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
                continue;
            }
            // An output that no log takes is the step's failure, or it would be done for ever.
            let unstorable = matches!(error.code(), Code::SchemaValidationFailed | Code::PayloadTooLarge);
            if unstorable && matches!(report, Report::Completed(_) | Report::Waiting(_)) {
                let message = format!(
                    "the output of step {} cannot be stored: {}",
                    self.delivery.step_id,
                    error.message()
                );
                let error = StepError::new(FailureClass::Permanent, error.code().as_str(), message);
                report = Report::Failed { error, started_at: None, ended_at: None };
                continue;
            }
            return self.refused(error).await;
        }
    }

    /// The decider or the store refused a report: the log may tell why.
    async fn refused(&mut self, error: Error) -> Result<Standing> {
        self.catch_up().await?;
        match (self.settled(), error.code()) {
            (Some(standing), _) => Ok(standing),
            (None, Code::RunTerminal) => Ok(Standing::RunEnded),
            (None, Code::StepTerminal | Code::OrphanedTask) => Ok(Standing::Ended),
            (None, Code::RunEnding) => Ok(Standing::GivenBack),
            (None, _) => Err(error),
        }
    }

    fn standing(&self) -> Standing {
        let retried = |event: &Event| match &event.body {
            Body::StepRetried(retried) => Some(Standing::TryAgain { delay_ms: retried.delay_ms }),
            _ => None,
        };
        let last = || self.events.values().next_back().and_then(retried);
        self.settled().or_else(last).unwrap_or(Standing::GivenBack)
    }

    fn stimulus(&self, report: Report) -> Stimulus {
        Stimulus::Step(Box::new(StepReport {
            step: self.delivery.step_id.clone(),
            attempt: self.delivery.attempt,
            engine_attempt: self.delivery.engine_attempt,
            released_by_driver: self.delivery.released_by_driver,
            start: self.unwritten.as_ref().map(|(started, _)| started.clone()),
            report,
        }))
    }

    /// Decides about a report, appends what follows and folds what the store has.
    async fn tell(&mut self, report: Report) -> Result<()> {
        loop {
            let mut drafts = self.history.run().decide(self.stimulus(report.clone()))?;
            if drafts.is_empty() {
                return Ok(());
            }
            // BUDGET-4: it goes before the next event, and says since when it is true.
            if let Some((_, since)) = &self.unwritten {
                let start = drafts.iter_mut().find(|draft| matches!(draft.body, Body::StepStarted(_)));
                if let Some(start) = start {
                    start.occurred_at = Some(*since);
                }
            }
            let request = AppendRequest {
                tenant_id: self.delivery.tenant_id.clone(),
                run_id: self.delivery.run_id.clone(),
                append_as: AppendAs::of(self.history.run(), &drafts),
                drafts,
                emitted_by: self.worker.shared.name.clone(),
                fence: None,
            };
            let appended = self.worker.shared.store.append(request).await?;
            match appended {
                Appended::Stored(stored) => {
                    for stored in stored {
                        self.fold(&stored.event);
                    }
                    self.unwritten = None;
                    return Ok(());
                }
                Appended::Conflict(events) => events.iter().for_each(|event| self.fold(event)),
            }
        }
    }

    fn fold(&mut self, event: &Event) {
        self.history.evolve(event);
        note(&mut self.events, &self.delivery, event);
    }

    async fn catch_up(&mut self) -> Result<()> {
        let (events, delivery) = (&mut self.events, &self.delivery);
        let see = |event: &Event| note(events, delivery, event);
        self.history.catch_up(&*self.worker.shared.store, see).await
    }

    /// Writes review requests into the log while the handler runs.
    async fn tell_reviews_for_ever(&mut self, reviews: &Reviews) {
        loop {
            reviews.news.notified().await;
            self.tell_reviews(reviews).await;
        }
    }

    /// A request stays in the queue until it is written; writing one again changes nothing, for it has a number.
    async fn tell_reviews(&mut self, reviews: &Reviews) {
        while let Some((reason, context)) = reviews.first() {
            if let Err(error) = self.tell(Report::ReviewRequested { reason, context }).await {
                tracing::warn!(run_id = %self.delivery.run_id, step_id = %self.delivery.step_id, %error,
                    "a request for review was not recorded");
            }
            reviews.done();
        }
    }

    fn now(&self) -> Timestamp {
        self.worker.time().now()
    }
}

fn note(events: &mut BTreeMap<u64, Event>, delivery: &Delivery, event: &Event) {
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

fn is_late(error: &Error) -> bool {
    matches!(error.code(), Code::WriteBudgetExceeded | Code::StoreUnavailable)
}

fn late(delivery: &Delivery, what: &str, error: &Error) {
    tracing::warn!(alert = Code::WriteBudgetExceeded.as_str(), run_id = %delivery.run_id,
        step_id = %delivery.step_id, %error, "{what} is not written yet");
}

/// Review requests on their way into the log; everything else goes to who listens.
#[derive(Debug, Default)]
struct Reviews {
    listener: Option<Arc<dyn StepObserver>>,
    waiting: Mutex<VecDeque<(String, BTreeMap<String, Value>)>>,
    news: Notify,
}

impl Reviews {
    fn first(&self) -> Option<(String, BTreeMap<String, Value>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).front().cloned()
    }

    fn done(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    }
}

impl StepObserver for Reviews {
    fn progress(&self, done: f64) {
        if let Some(listener) = &self.listener {
            listener.progress(done);
        }
    }

    fn review(&self, reason: &str, context: BTreeMap<String, Value>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back((reason.to_owned(), context));
        self.news.notify_one();
    }

    fn log(&self, line: &str) {
        if let Some(listener) = &self.listener {
            listener.log(line);
        }
    }
}
