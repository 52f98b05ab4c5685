//! One run, from lease to end: take the lease, fold the log, and then in turns: wait for something to happen, decide, append
//! once, act.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine_core::decider::{Actions, AttemptRef, Dispatched, Report, StepReport, Stimulus};
use engine_core::event::run::{RunFailed, RunStarted};
use engine_core::event::{Body, Draft, Event, Kind, Slot};
use engine_core::machine::RunStatus;
use engine_core::port::store::{AppendAs, AppendRequest, Appended, Fence, LeaseRequest};
use engine_core::{Code, Error, Result, RunId, TenantId, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use worker::{History, Prepared};

use crate::engine::{ENGINE, Shared};
use crate::faults::{Fault, Moment};
use crate::flights::{Flights, Input};
use crate::turn::Turn;

/// How long to wait when the store is away; it has waited itself before it said so.
const AWAY: Duration = Duration::from_millis(250);
/// How long until a step is prepared again when what it needs could not be read.
const AGAIN_MS: u64 = 1000;

/// How a driver is told something.
pub(crate) struct Post {
    pub(crate) mailbox: UnboundedSender<Input>,
    pub(crate) inputs: UnboundedReceiver<Input>,
}

/// Drives a run until it ends, has nothing to do before somebody calls, or belongs to another.
pub(crate) async fn drive(
    shared: Arc<Shared>,
    tenant_id: TenantId,
    run_id: RunId,
    mut post: Post,
    mut fresh: Option<Box<Event>>,
) {
    loop {
        let busy = shared.busy();
        let outcome = match Driver::new(&shared, &tenant_id, &run_id, &mut post, fresh.take()).await {
            Ok(driver) => {
                drop(busy);
                driver.run().await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Leave::Crashed) => break,
            Ok(Leave::Done) => {}
            Err(error) if error.code() == Code::LeaseHeld || error.code() == Code::LeaseLost => {
                tracing::debug!(%run_id, %error, "the run belongs to another process");
            }
            Err(error) => {
                tracing::error!(%run_id, %error, "the run cannot be driven by this process");
            }
        }
        // Whoever calls from here on finds no driver and makes one; whoever called before is heard now.
        let mut live = shared.live();
        if post.inputs.is_empty() || shared.stopping.is_cancelled() {
            live.remove(&run_id);
            return;
        }
        drop(live);
        while post.inputs.try_recv().is_ok() {}
    }
    shared.live().remove(&run_id);
}

/// Why a driver leaves its run.
enum Leave {
    /// It has ended, or waits for somebody to call; or the engine stops.
    Done,
    /// A fault.
    Crashed,
}

/// What became of a turn.
enum Next {
    /// Something may follow at once.
    Again,
    /// Wait for something to happen, at most until this time.
    Wait(Option<Timestamp>),
    /// The run has ended.
    Ended,
    /// A fault.
    Crash,
}

struct Driver<'a> {
    shared: &'a Arc<Shared>,
    post: &'a mut Post,
    history: History,
    fence: Fence,
    emitted_by: Arc<str>,
    flights: Flights,
    /// What was told and is not in the log yet.
    told: Vec<Input>,
    /// Attempts that this driver knows to be between two tries, or about to begin: nobody was lost with them.
    between_tries: HashSet<AttemptRef>,
    look_for_signals: bool,
    stopping: bool,
}

impl<'a> Driver<'a> {
    async fn new(
        shared: &'a Arc<Shared>,
        tenant_id: &TenantId,
        run_id: &RunId,
        post: &'a mut Post,
        fresh: Option<Box<Event>>,
    ) -> Result<Self> {
        let look_for_signals = fresh.is_none();
        let (fence, history) = match fresh {
            // It was made with this engine's lease, the first there is.
            Some(queued) => (Fence(1), begin(shared, tenant_id, run_id, &queued).await?),
            None => {
                let _permit = shared.reading.acquire().await;
                let fence = lease(shared, run_id).await?;
                (fence, load(shared, tenant_id, run_id, fence).await?)
            }
        };
        let emitted_by = Arc::from(shared.worker.name());
        let mut driver = Self {
            shared,
            post,
            history,
            fence,
            emitted_by,
            flights: Flights::default(),
            told: Vec::new(),
            between_tries: HashSet::new(),
            look_for_signals,
            stopping: false,
        };
        let now = driver.now();
        for task in driver.history.run().actions().dispatch {
            if task.not_before.is_some_and(|at| at > now) {
                driver.between_tries.insert(task.attempt);
            }
        }
        Ok(driver)
    }

    fn now(&self) -> Timestamp {
        self.shared.worker.time().now()
    }

    async fn run(mut self) -> Result<Leave> {
        loop {
            let busy = self.shared.busy();
            self.stopping = self.shared.stopping.is_cancelled();
            self.gather();
            let due = match self.turn().await? {
                Next::Again => continue,
                Next::Wait(due) => due,
                Next::Ended => return Ok(Leave::Done),
                Next::Crash => return Ok(Leave::Crashed),
            };
            let nothing_to_do = self.flights.is_empty() && self.told.is_empty();
            if nothing_to_do && (self.stopping || (due.is_none() && !self.look_for_signals)) {
                self.leave().await?;
                return Ok(Leave::Done);
            }
            drop(busy);
            let alarm = async {
                match due {
                    Some(due) => self.shared.worker.time().alarm(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = self.post.inputs.recv() => self.told.extend(input),
                () = self.shared.stopping.cancelled(), if !self.stopping => {}
                () = alarm => {}
            }
        }
    }

    /// Takes all that was told.
    fn gather(&mut self) {
        while let Ok(input) = self.post.inputs.try_recv() {
            self.told.push(input);
        }
    }

    /// Gives the run back: somebody calls when there is something to do, or, when the engine stops, another takes it.
    async fn leave(&mut self) -> Result<()> {
        let run_id = self.history.run_id();
        let store = self.shared.store();
        if !self.stopping {
            store.acted(run_id, self.history.run().state().watermark()).await?;
        }
        store.release(run_id, self.fence).await
    }

    async fn turn(&mut self) -> Result<Next> {
        let mut turn = Turn::new(&self.history, &self.emitted_by, self.now());
        for input in std::mem::take(&mut self.told) {
            match input {
                Input::Look => self.look_for_signals = true,
                Input::Crash => return Ok(Next::Crash),
                Input::Attempt(attempt, report) => self.hear(&mut turn, attempt, *report),
                Input::Undone(attempt, outcome) => {
                    self.flights.undone();
                    let stimulus = Stimulus::Compensation { step: attempt.step, outcome };
                    self.settle_with(&mut turn, stimulus);
                }
            }
        }
        if std::mem::take(&mut self.look_for_signals) {
            self.signals(&mut turn).await?;
        }
        let actions = loop {
            self.settle(&mut turn).await?;
            let actions = self.history.run().actions();
            if !self.act(&mut turn, &actions).await {
                break actions;
            }
        };
        self.commit(turn, &actions).await
    }

    /// An attempt has something to tell.
    fn hear(&mut self, turn: &mut Turn, attempt: AttemptRef, report: Report) {
        if !matches!(report, Report::ReviewRequested { .. }) {
            self.flights.landed(&attempt);
            self.between_tries.insert(attempt.clone());
        }
        let report = StepReport::new(attempt.step, attempt.attempt, report);
        self.settle_with(turn, Stimulus::Step(Box::new(report)));
    }

    /// Decides about something that may have come too late.
    fn settle_with(&mut self, turn: &mut Turn, stimulus: Stimulus) {
        if let Err(error) = turn.decide(&mut self.history, stimulus) {
            tracing::debug!(run_id = %self.history.run_id(), %error, "what was told came too late");
        }
    }

    async fn signals(&mut self, turn: &mut Turn) -> Result<()> {
        for signal in self.shared.store().undecided(self.history.run_id()).await? {
            turn.signals.push(signal.signal_id.clone());
            turn.decide(&mut self.history, Stimulus::Signal(Box::new(signal)))?;
        }
        Ok(())
    }

    /// Everything that follows from the state alone, and the start of the run.
    async fn settle(&mut self, turn: &mut Turn) -> Result<()> {
        loop {
            let mut drafts = self.history.run().settle();
            if let Some(started) = self.begin(turn).filter(|_| drafts.is_empty()) {
                drafts = self.history.run().decide(Stimulus::Started(Box::new(started)))?;
            }
            if drafts.is_empty() {
                return Ok(());
            }
            for draft in &mut drafts {
                if let Body::RunCompleted(completed) = &mut draft.body {
                    completed.output = self.output().await?;
                }
            }
            turn.fold(&mut self.history, drafts);
        }
    }

    /// RUN-23. A run whose result cannot be worked out has completed all the same.
    async fn output(&self) -> Result<Option<engine_core::event::step::StepOutput>> {
        match self.shared.worker.run_output(&self.history).await {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                tracing::warn!(run_id = %self.history.run_id(), %error, "the run's output cannot be worked out");
                Ok(None)
            }
        }
    }

    /// The start of the run, when it is time.
    fn begin(&self, turn: &mut Turn) -> Option<RunStarted> {
        if self.history.run().state().status() != Some(RunStatus::Approved) {
            return None;
        }
        let queued = self.history.queued()?;
        if let Some(at) = queued.not_before.filter(|at| *at > turn.now) {
            turn.wake_at(at);
            return None;
        }
        Some(RunStarted {
            engine_run_ref: self.history.run_id().to_string(),
            engine_type: ENGINE.to_owned(),
            interpreter_version: None,
            plan_ref: queued.plan_ref.clone(),
            context: queued.context.clone(),
            started_at: turn.now,
        })
    }

    /// Prepares what the run wants done; says whether anything follows from that.
    async fn act(&mut self, turn: &mut Turn, actions: &Actions) -> bool {
        let mut follows = false;
        for timer in &actions.timers {
            if timer.due_at > turn.now {
                turn.wake_at(timer.due_at);
                continue;
            }
            let stimulus = Stimulus::TimerDue { timer: timer.timer.clone(), now: turn.now };
            follows |= turn.decide(&mut self.history, stimulus).unwrap_or(false);
        }
        for attempt in &actions.cancel {
            if !self.flights.cancel(attempt) {
                let report = StepReport::new(attempt.step.clone(), attempt.attempt, Report::Cancelled);
                follows |= turn.decide(&mut self.history, Stimulus::Step(Box::new(report))).unwrap_or(false);
            }
        }
        if self.stopping {
            return follows;
        }
        for task in &actions.dispatch {
            if self.flights.has(&task.attempt) || turn.prepared.contains(&task.attempt) {
                continue;
            }
            follows |= self.dispatch(turn, task).await;
            if follows {
                // What was released may have changed.
                return true;
            }
        }
        if let Some(task) = &actions.compensate
            && turn.undo.is_none()
            && !self.flights.undoes(&task.attempt, task.try_number)
        {
            if let Some(at) = task.not_before.filter(|at| *at > turn.now) {
                turn.wake_at(at);
                return follows;
            }
            match self.shared.worker.prepare_compensation(&self.history, task).await {
                Ok(Ok(ready)) => turn.undo = Some((task.clone(), ready)),
                Ok(Err(error)) => {
                    let stimulus =
                        Stimulus::Compensation { step: task.attempt.step.clone(), outcome: Err(error) };
                    follows |= turn.decide(&mut self.history, stimulus).unwrap_or(false);
                }
                Err(error) => self.later(turn, &error),
            }
        }
        follows
    }

    /// Prepares one attempt; says whether anything follows from that.
    async fn dispatch(&mut self, turn: &mut Turn, task: &Dispatched) -> bool {
        if let Some(at) = task.not_before.filter(|at| *at > turn.now) {
            turn.wake_at(at);
            return false;
        }
        let told = |report| {
            let report = StepReport::new(task.attempt.step.clone(), task.attempt.attempt, report);
            Stimulus::Step(Box::new(report))
        };
        if task.started && !self.between_tries.contains(&task.attempt) {
            // WORKER-9: it was started by a process that is gone.
            self.between_tries.insert(task.attempt.clone());
            let message = "the process that ran it is gone".to_owned();
            return turn.decide(&mut self.history, told(Report::WorkerLost { message })).unwrap_or(false);
        }
        match self.shared.worker.prepare(&self.history, task).await {
            Ok(Prepared::Ready(ready)) => {
                if !task.started {
                    let started = Report::Started(ready.started().clone());
                    if let Err(error) = turn.decide(&mut self.history, told(started)) {
                        tracing::error!(run_id = %self.history.run_id(), %error, "a released attempt cannot start");
                        return false;
                    }
                }
                turn.prepared.insert(task.attempt.clone());
                turn.ready.push((task.attempt.clone(), task.try_number, ready));
                false
            }
            Ok(Prepared::Decided(report)) => turn.decide(&mut self.history, told(report)).unwrap_or(false),
            Err(error) => {
                self.later(turn, &error);
                false
            }
        }
    }

    /// Something could not be read; it is tried again soon.
    fn later(&self, turn: &mut Turn, error: &Error) {
        tracing::warn!(run_id = %self.history.run_id(), %error, "a step cannot be prepared for now");
        turn.wake_at(turn.now.plus_millis(AGAIN_MS));
    }

    /// Appends what the turn decided, once, and then acts on it.
    async fn commit(&mut self, mut turn: Turn, actions: &Actions) -> Result<Next> {
        let append_as = turn.append_as();
        let drafts = std::mem::take(&mut turn.drafts);
        let count = drafts.len();
        let ended: Vec<AttemptRef> = drafts.iter().filter_map(ended).collect();
        if count > 0 {
            if self.shared.fault(self.history.run_id(), Moment::BeforeAppend(&drafts)) == Fault::Crash {
                return Ok(Next::Crash);
            }
            if !self.append(drafts, append_as, turn.first_place()).await? {
                self.look_for_signals |= !turn.signals.is_empty();
                return Ok(Next::Again);
            }
            if self.shared.fault(self.history.run_id(), Moment::AfterAppend(count)) == Fault::Crash {
                return Ok(Next::Crash);
            }
        }
        for signal_id in &turn.signals {
            self.shared.store().decided(self.history.run_id(), signal_id).await?;
        }
        ended.iter().for_each(|attempt| self.flights.cut_off(attempt));
        for (attempt, try_number, ready) in turn.ready {
            self.between_tries.remove(&attempt);
            self.flights.launch(self.shared, &self.post.mailbox, attempt, try_number, ready);
        }
        if let Some((task, ready)) = turn.undo {
            let mailbox = &self.post.mailbox;
            self.flights.undo(self.shared, mailbox, task.attempt, task.try_number, ready);
        }
        Ok(if actions.finish.is_some() { Next::Ended } else { Next::Wait(turn.due) })
    }

    /// Appends until the store has it. `false` when it turned out otherwise: then the log was read again, and what workers
    /// told is in it.
    async fn append(&mut self, drafts: Vec<Draft>, append_as: AppendAs, first_place: u64) -> Result<bool> {
        let appended = self.insist(&drafts, append_as).await?;
        if let Some(Appended::Stored(stored)) = &appended {
            let as_thought = stored
                .iter()
                .zip(first_place..)
                .all(|(stored, place)| stored.fresh && stored.event.run_seq == place);
            if as_thought {
                return Ok(true);
            }
        } else if appended.is_some() {
            // Whatever was decided on an old view is decided anew; what happened has happened.
            let facts: Vec<Draft> = drafts
                .iter()
                .filter(|draft| {
                    draft.body.kind() != Kind::Decision && !matches!(draft.body, Body::StepStarted(_))
                })
                .cloned()
                .collect();
            self.insist(&facts, AppendAs::Worker).await?;
        }
        for draft in &drafts {
            if let (Body::StepStarted(_), Some(subject)) = (&draft.body, &draft.subject) {
                let attempt = AttemptRef { step: subject.step.clone(), attempt: subject.attempt };
                self.between_tries.insert(attempt);
            }
        }
        let (tenant_id, run_id) = (self.history.tenant_id().clone(), self.history.run_id().clone());
        self.history = load(self.shared, &tenant_id, &run_id, self.fence).await?;
        Ok(false)
    }

    /// Appends, and goes on trying while the store is away. Nothing when the run has ended meanwhile.
    async fn insist(&self, drafts: &[Draft], append_as: AppendAs) -> Result<Option<Appended>> {
        if drafts.is_empty() {
            return Ok(None);
        }
        loop {
            let request = AppendRequest {
                tenant_id: self.history.tenant_id().clone(),
                run_id: self.history.run_id().clone(),
                drafts: drafts.to_vec(),
                emitted_by: Arc::clone(&self.emitted_by),
                append_as,
                fence: Some(self.fence),
            };
            match self.shared.store().append(request).await {
                Ok(appended) => return Ok(Some(appended)),
                Err(error) if error.code() == Code::RunTerminal => return Ok(None),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(run_id = %self.history.run_id(), %error, "the log cannot be written for now");
                    tokio::time::sleep(AWAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The attempt that an event ends.
fn ended(draft: &Draft) -> Option<AttemptRef> {
    match Slot::of(draft.subject.as_ref(), &draft.body) {
        Some(Slot::AttemptEnd(step, attempt)) => Some(AttemptRef { step, attempt }),
        _ => None,
    }
}

/// Takes the lease of a run, and goes on trying while the store is away.
async fn lease(shared: &Shared, run_id: &RunId) -> Result<Fence> {
    let duration_ms = u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX);
    loop {
        let request = LeaseRequest { run_id: run_id.clone(), holder: shared.holder.clone(), duration_ms };
        match shared.store().lease(request).await {
            // Held by another is retryable too, but not by waiting here.
            Err(error) if error.is_retryable() && error.code() != Code::LeaseHeld => {
                tracing::warn!(%run_id, %error, "the lease cannot be taken for now");
                tokio::time::sleep(AWAY).await;
            }
            result => return result,
        }
    }
}

/// A run whose log is its first event.
async fn begin(shared: &Shared, tenant_id: &TenantId, run_id: &RunId, queued: &Event) -> Result<History> {
    let plan = match &queued.body {
        Body::RunQueued(queued) => queued.plan_ref.sha256.clone(),
        _ => String::new(),
    };
    match shared.worker.plans().get(&**shared.store(), tenant_id, &plan).await {
        Ok(code) => {
            let mut history = History::new(tenant_id.clone(), run_id.clone(), code);
            history.evolve(queued);
            Ok(history)
        }
        // Whatever is wrong with it, reading the log finds out.
        Err(_) => load(shared, tenant_id, run_id, Fence(1)).await,
    }
}

/// Folds a run's log, and goes on trying while the store is away. A run whose plan is gone or another cannot start, and
/// fails (RUN-3).
async fn load(shared: &Shared, tenant_id: &TenantId, run_id: &RunId, fence: Fence) -> Result<History> {
    loop {
        let store = shared.store();
        match History::load(&**store, shared.worker.plans(), tenant_id, run_id).await {
            Err(error) if error.is_retryable() => {
                tracing::warn!(%run_id, %error, "the run cannot be read for now");
                tokio::time::sleep(AWAY).await;
            }
            Err(error) if matches!(error.code(), Code::PlanMissing | Code::PlanHashMismatch) => {
                refuse_start(shared, tenant_id, run_id, fence, &error).await?;
                return Err(error);
            }
            result => return result,
        }
    }
}

/// Ends a run that cannot start, unless it has started.
async fn refuse_start(
    shared: &Shared,
    tenant_id: &TenantId,
    run_id: &RunId,
    fence: Fence,
    error: &Error,
) -> Result<()> {
    let record = shared.store().find(tenant_id, run_id).await?;
    if !matches!(record.status, RunStatus::Pending | RunStatus::Approved) {
        return Ok(());
    }
    let failed = RunFailed {
        code: error.code().as_str().to_owned(),
        message: error.message().to_owned(),
        root_cause: None,
        failed_steps: Vec::new(),
        counts: Default::default(),
        compensation: Default::default(),
    };
    let expected = if record.status == RunStatus::Pending { 1 } else { 2 };
    let request = AppendRequest {
        tenant_id: tenant_id.clone(),
        run_id: run_id.clone(),
        drafts: vec![Draft::run(failed)],
        emitted_by: Arc::from(shared.worker.name()),
        append_as: AppendAs::Decision {
            expected,
            nothing_after: None,
            folded_through: record.last_event_seq,
        },
        fence: Some(fence),
    };
    shared.store().append(request).await?;
    Ok(())
}
