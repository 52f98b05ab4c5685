//! What a local activity decides and appends for the workflow, in one go: signals, timers, what Temporal gave up, and
//! everything that follows from the log as it is then. When somebody writes meanwhile, the log is read again.

use std::sync::Arc;
use std::time::Duration;

use engine_core::decider::{self, AttemptRef, Report, StepReport, Stimulus};
use engine_core::event::run::RunStarted;
use engine_core::event::step::StepOutput;
use engine_core::event::{Body, Draft, Kind, Seal, Slot};
use engine_core::machine::RunStatus;
use engine_core::plan::Outline;
use engine_core::port::store::{AppendAs, AppendRequest, Appended, ReadRequest};
use engine_core::signal::{Command, Signal};
use engine_core::{Code, Error, Result, RunId, SignalId, TenantId, Timestamp};
use worker::{History, Worker};

use crate::carried::{Ask, Carried, GivenUp, Told, Whole};
use crate::driver::INTERPRETER_VERSION;
use crate::engine::ENGINE;
use crate::stops::Stops;

/// Events that are read at once.
const PAGE: usize = 1000;
/// How long to wait when the store is away; it has waited itself before it said so.
const AWAY: Duration = Duration::from_millis(250);
/// How often a turn insists that nobody writes between its look and its append, where it need not.
const INSISTS: u32 = 10;
/// The clock of the store may be behind Temporal's by so much, in milliseconds.
const SKEW_MS: u64 = 5000;

/// Decides what is asked for and what follows, appends it, and tells what the log says then.
///
/// # Errors
/// What keeps the log from being read or written, and what this process must leave to another.
pub(crate) async fn take(worker: &Worker, stops: &Stops, ask: Ask) -> Result<Told> {
    let Some((tenant_id, run_id)) = ask.of.clone() else {
        return Err(Error::new(Code::Internal, "a turn of no run was asked for"));
    };
    if let Some(reason) = &ask.cancelled {
        submit_cancel(worker, &tenant_id, &run_id, reason).await?;
    }
    if let Some(due) = ask.due {
        let now = worker.time().now();
        if due > now && due.millis_since(now) <= SKEW_MS {
            worker.time().sleep_until(due).await;
        }
    }
    let mut tries = 0;
    loop {
        let Some(history) = load(worker, &tenant_id, &run_id).await? else {
            return Ok(Told { refused: true, ..Told::default() });
        };
        let mut turn = Turn::new(worker, history);
        turn.decide(&ask).await?;
        if !turn.append(tries < INSISTS).await? {
            tries += 1;
            continue;
        }
        for signal_id in &turn.signals {
            worker.store().decided(&run_id, signal_id).await?;
        }
        turn.stop(stops, &run_id);
        return tell(worker, &tenant_id, &run_id, &ask, turn.start_at).await;
    }
}

/// What the driver does not know yet.
async fn tell(
    worker: &Worker,
    tenant_id: &TenantId,
    run_id: &RunId,
    ask: &Ask,
    start_at: Option<Timestamp>,
) -> Result<Told> {
    if ask.whole {
        let Some(history) = load(worker, tenant_id, run_id).await? else {
            return Ok(Told { refused: true, ..Told::default() });
        };
        let outline = Outline::of(history.code().plan());
        let whole = Some(Whole { outline, state: history.run().state().clone() });
        return Ok(Told { whole, start_at, ..Told::default() });
    }
    let mut events = Vec::new();
    let mut after = ask.after;
    loop {
        let request =
            ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after, limit: PAGE };
        let page = worker.store().read(request).await?;
        after = page.last().map_or(after, |event| event.run_seq);
        events.extend(page.iter().map(Carried::of));
        if page.len() < PAGE {
            return Ok(Told { events, start_at, ..Told::default() });
        }
    }
}

/// Reads a run, and goes on trying while the store is away. `None` when its plan is gone or another: such a run cannot
/// start, and fails (RUN-3).
pub(crate) async fn load(worker: &Worker, tenant_id: &TenantId, run_id: &RunId) -> Result<Option<History>> {
    loop {
        match History::load(&**worker.store(), worker.plans(), tenant_id, run_id).await {
            Ok(history) => return Ok(Some(history)),
            Err(error) if error.is_retryable() => {
                tracing::warn!(%run_id, %error, "the run cannot be read for now");
                tokio::time::sleep(AWAY).await;
            }
            Err(error) if matches!(error.code(), Code::PlanMissing | Code::PlanHashMismatch) => {
                refuse_start(worker, tenant_id, run_id, &error).await?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Ends a run that cannot start, unless it has started or ended.
async fn refuse_start(worker: &Worker, tenant_id: &TenantId, run_id: &RunId, error: &Error) -> Result<()> {
    let store = worker.store();
    let record = store.find(tenant_id, run_id).await?;
    if record.status.is_terminal() {
        return Ok(());
    }
    let drafts = decider::refuse_start(record.status, error.code(), error.message().to_owned())?;
    let request = ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after: 0, limit: PAGE };
    let events = store.read(request).await?;
    let decisions = events.iter().filter(|event| event.body.kind() == Kind::Decision).count();
    let request = AppendRequest {
        tenant_id: tenant_id.clone(),
        run_id: run_id.clone(),
        drafts,
        emitted_by: Arc::from(worker.name()),
        append_as: AppendAs::Decision {
            expected: u64::try_from(decisions).unwrap_or(u64::MAX),
            nothing_after: None,
            folded_through: events.last().map_or(0, |event| event.run_seq),
        },
        fence: None,
    };
    store.append(request).await.map(|_| ())
}

/// What somebody asked Temporal itself for is a CANCEL like any other.
async fn submit_cancel(worker: &Worker, tenant_id: &TenantId, run_id: &RunId, reason: &str) -> Result<()> {
    let signal = Signal {
        signal_id: SignalId::new("temporal.cancel")?,
        actor: ENGINE.to_owned(),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        command: Command::Cancel,
    };
    worker.store().submit(tenant_id, run_id, signal).await
}

/// What one turn decides: events that are folded at once, as if they were stored, and appended together.
struct Turn<'a> {
    worker: &'a Worker,
    history: History,
    now: Timestamp,
    emitted_by: Arc<str>,
    expected: u64,
    folded_through: u64,
    drafts: Vec<Draft>,
    /// Signals that are decided by this.
    signals: Vec<SignalId>,
    start_at: Option<Timestamp>,
}

impl<'a> Turn<'a> {
    fn new(worker: &'a Worker, history: History) -> Self {
        let state = history.run().state();
        Self {
            worker,
            now: worker.time().now(),
            emitted_by: Arc::from(worker.name()),
            expected: state.decisions(),
            folded_through: state.folded_through(),
            drafts: Vec::new(),
            signals: Vec::new(),
            start_at: None,
            history,
        }
    }

    async fn decide(&mut self, ask: &Ask) -> Result<()> {
        for given_up in &ask.given_up {
            self.give_up(given_up);
        }
        // What follows from the log stands before what somebody says about it.
        self.settle().await?;
        for signal in self.worker.store().undecided(self.history.run_id()).await? {
            self.signals.push(signal.signal_id.clone());
            self.settle_with(Stimulus::Signal(Box::new(signal)));
        }
        self.settle().await?;
        // When a timer is due follows from times in the log; those of events that are not stored yet are a guess. What
        // is due nevertheless is due in the next turn.
        if self.drafts.is_empty() {
            for timer in self.history.run().actions().timers {
                if timer.due_at <= self.now {
                    self.settle_with(Stimulus::TimerDue { timer: timer.timer, now: self.now });
                }
            }
            self.settle().await?;
        }
        Ok(())
    }

    /// WORKER-16, WORKER-17: an end in the log wins over what Temporal says.
    fn give_up(&mut self, given_up: &GivenUp) {
        let step = given_up.step_id.clone();
        let stimulus = match (&given_up.error, given_up.undo) {
            (Some(error), true) => Stimulus::Compensation { step, outcome: Err(error.clone()) },
            (None, true) => return,
            (error, false) => {
                let report = error.clone().map_or(Report::Cancelled, |error| Report::EngineFailed { error });
                Stimulus::Step(Box::new(StepReport::new(step, given_up.attempt, report)))
            }
        };
        self.settle_with(stimulus);
    }

    /// Decides about something that may have come too late.
    fn settle_with(&mut self, stimulus: Stimulus) {
        match self.history.run().decide(stimulus) {
            Ok(drafts) => self.fold(drafts),
            Err(error) => {
                tracing::debug!(run_id = %self.history.run_id(), %error, "what was told came too late");
            }
        }
    }

    /// Everything that follows from the state alone, and the start of the run.
    async fn settle(&mut self) -> Result<()> {
        loop {
            let mut drafts = self.history.run().settle();
            if drafts.is_empty()
                && let Some(started) = self.begin()
            {
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
            self.fold(drafts);
        }
    }

    /// RUN-23. A run whose result cannot be worked out has completed all the same.
    async fn output(&self) -> Result<Option<StepOutput>> {
        match self.worker.run_output(&self.history).await {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                let run_id = self.history.run_id();
                tracing::warn!(%run_id, %error, "the run's output cannot be worked out");
                Ok(None)
            }
        }
    }

    /// The start of the run, when it is time.
    fn begin(&mut self) -> Option<RunStarted> {
        if self.history.run().state().status() != Some(RunStatus::Approved) {
            return None;
        }
        let queued = self.history.queued()?;
        self.start_at = queued.not_before.filter(|at| *at > self.now);
        if self.start_at.is_some() {
            return None;
        }
        Some(RunStarted {
            engine_run_ref: self.history.run_id().to_string(),
            engine_type: ENGINE.to_owned(),
            interpreter_version: Some(INTERPRETER_VERSION.to_owned()),
            plan_ref: queued.plan_ref.clone(),
            context: queued.context.clone(),
            started_at: self.now,
        })
    }

    /// Folds events as if they were stored.
    fn fold(&mut self, drafts: Vec<Draft>) {
        let (run_id, plan_version) =
            (self.history.run_id().clone(), self.history.code().plan().document().version.clone());
        let correlation_id: Arc<str> = Arc::from("");
        for draft in drafts {
            let event = draft.seal(Seal {
                event_id: uuid::Uuid::nil(),
                run_id: &run_id,
                run_seq: self.history.run().state().watermark() + 1,
                emitted_at: self.now,
                emitted_by: &self.emitted_by,
                correlation_id: &correlation_id,
                plan_version: &plan_version,
            });
            self.history.evolve(&event);
            let (subject, occurred_at, body) = (event.subject, event.occurred_at, event.body);
            self.drafts.push(Draft { subject, occurred_at, body });
        }
    }

    /// Appends what was decided; `false` when somebody wrote meanwhile.
    async fn append(&self, insist: bool) -> Result<bool> {
        if self.drafts.is_empty() {
            return Ok(true);
        }
        let mut append_as = AppendAs::on(self.expected, self.folded_through, &self.drafts);
        if let AppendAs::Decision { nothing_after, folded_through, .. } = &mut append_as
            && insist
        {
            *nothing_after = Some(*folded_through);
        }
        loop {
            let request = AppendRequest {
                tenant_id: self.history.tenant_id().clone(),
                run_id: self.history.run_id().clone(),
                drafts: self.drafts.clone(),
                emitted_by: Arc::clone(&self.emitted_by),
                append_as,
                fence: None,
            };
            match self.worker.store().append(request).await {
                Ok(Appended::Stored(_)) => return Ok(true),
                Ok(Appended::Conflict(_)) => return Ok(false),
                // Somebody ended it meanwhile.
                Err(error) if error.code() == Code::RunTerminal => return Ok(false),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(run_id = %self.history.run_id(), %error, "the log cannot be written for now");
                    tokio::time::sleep(AWAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells handlers in this process at once what others hear later.
    fn stop(&self, stops: &Stops, run_id: &RunId) {
        for draft in &self.drafts {
            if let Some(Slot::AttemptEnd(step, attempt)) = Slot::of(draft.subject.as_ref(), &draft.body) {
                stops.stop(run_id, &AttemptRef { step, attempt });
            }
        }
        let actions = self.history.run().actions();
        actions.cancel.iter().for_each(|attempt| stops.stop(run_id, attempt));
        if actions.finish.is_some() {
            stops.stop_all(run_id);
        }
    }
}
