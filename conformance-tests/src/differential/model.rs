//! The reference: one run, driven by nothing but the decider, one thing after another. No engine, no store, no task; time
//! is a number. It says what an engine must come to.
//!
//! Time passes as in the suite's world: not while a handler stands at a gate, unless it is let pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::decider::{AttemptRef, CompensationTask, Dispatched, Report, Run, Stimulus};
use engine_core::event::run::{FrozenCapabilities, RunContext, RunQueued, RunStarted};
use engine_core::event::step::{StepCompleted, StepError, StepStarted, StepWaiting};
use engine_core::event::{Body, Draft, Event, Seal};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepSubstatus};
use engine_core::plan::{CompiledPlan, Completion as Ends};
use engine_core::signal::{Command, ManualCompletion, ManualOutcome, PauseMode, Signal};
use engine_core::{RunId, SignalId, StepId, TenantId, Timestamp};

use crate::script::Lines;

/// More turns than any run takes: a model that does not come to rest is wrong.
const TURNS: usize = 10_000;

/// One run, driven by the decider alone.
#[derive(Debug)]
pub struct Model {
    plan: Arc<CompiledPlan>,
    run: Run,
    log: Vec<Event>,
    now: Timestamp,
    scripts: BTreeMap<StepId, Scripts>,
    /// Calls so far, by step; undoing apart.
    calls: BTreeMap<(StepId, bool), u32>,
    /// Every call, as `step#attempt.try`.
    entries: Vec<String>,
    inside: BTreeMap<AttemptRef, Inside>,
    /// Calls that have come to a gate so far.
    arrivals: BTreeMap<String, usize>,
    signals: usize,
    names: Names,
}

#[derive(Debug)]
struct Names {
    run_id: RunId,
    by: Arc<str>,
}

#[derive(Clone, Debug, Default)]
struct Scripts {
    does: Lines,
    undoes: Lines,
    manual: bool,
    skipped: bool,
}

/// Where a handler is that has been called and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    AtGate,
    Asleep(Timestamp),
}

/// What is wrong with a model, or with what it was given.
pub type Wrong = String;

impl Model {
    /// A run of a plan, queued and at rest.
    ///
    /// # Errors
    /// When the plan is none, or its scripts are none.
    pub fn start(plan: Arc<CompiledPlan>, begin: Timestamp) -> Result<Self, Wrong> {
        let mut scripts = BTreeMap::new();
        for step in &plan.document().steps {
            let read = |with: &Option<serde_json::Value>| {
                Lines::read(with.as_ref().unwrap_or(&serde_json::Value::Null))
            };
            let undo = step.compensation.as_ref().map(|compensation| compensation.with.clone());
            let of = Scripts {
                does: read(&step.with)?,
                undoes: read(&undo.flatten())?,
                manual: step.completion == Ends::Manual,
                skipped: step.when.is_some(),
            };
            scripts.insert(step.id.clone(), of);
        }
        let context = RunContext {
            tenant_id: TenantId::new(crate::world::TENANT).map_err(|error| error.to_string())?,
            project_id: "conformance".to_owned(),
            environment_id: "test".to_owned(),
            triggered_by: Some(crate::world::ACTOR.to_owned()),
            trigger_source: None,
        };
        let queued = RunQueued {
            capabilities: FrozenCapabilities { immediate_pause: true, fail_fast_cancel: true },
            ..RunQueued::of(&plan, context, "model")
        };
        let names =
            Names { run_id: RunId::new("model").map_err(|error| error.to_string())?, by: Arc::from("model") };
        let mut model = Self {
            run: Run::new(Arc::clone(&plan)),
            plan,
            log: Vec::new(),
            now: begin,
            scripts,
            calls: BTreeMap::new(),
            entries: Vec::new(),
            inside: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            signals: 0,
            names,
        };
        model.tell(Stimulus::Queue(Box::new(queued)))?;
        model.rest()?;
        Ok(model)
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &[Event] {
        &self.log
    }

    /// Every call of a handler, in order.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Where the run stands.
    #[must_use]
    pub fn status(&self) -> Option<RunStatus> {
        self.run.state().status()
    }

    /// The run as the decider has it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Gates at which a call stands, with how many have come to them so far.
    #[must_use]
    pub fn at_gates(&self) -> Vec<(String, usize)> {
        let stands = self.inside.iter().filter(|(_, inside)| **inside == Inside::AtGate);
        stands
            .filter_map(|(attempt, _)| self.scripts.get(&attempt.step)?.does.gate.clone())
            .map(|gate| (gate.clone(), self.arrivals.get(&gate).copied().unwrap_or_default()))
            .collect()
    }

    /// Steps that wait for a person.
    #[must_use]
    pub fn waiting(&self) -> Vec<StepId> {
        let waits = |substatus| substatus == Some(StepSubstatus::WaitingForManualCompletion);
        self.run.attempts().filter(|view| waits(view.substatus)).map(|view| view.step).collect()
    }

    /// Opens a gate for the one call that stands there.
    ///
    /// # Errors
    /// When none stands there.
    pub fn open(&mut self, gate: &str) -> Result<(), Wrong> {
        let found = self.inside.iter().find(|(attempt, inside)| {
            **inside == Inside::AtGate
                && self.scripts.get(&attempt.step).is_some_and(|of| of.does.gate.as_deref() == Some(gate))
        });
        let attempt =
            found.map(|(attempt, _)| attempt.clone()).ok_or_else(|| format!("nobody is at gate {gate}"))?;
        self.end_call(&attempt)?;
        self.rest()
    }

    /// Asks something of the run; the code of the refusal, if it is refused.
    ///
    /// # Errors
    /// When the decider breaks.
    pub fn ask(&mut self, command: Command) -> Result<Option<String>, Wrong> {
        self.signals += 1;
        let signal_id = SignalId::new(format!("s{}", self.signals)).map_err(|error| error.to_string())?;
        let actor = crate::world::ACTOR.to_owned();
        let signal = Signal { signal_id: signal_id.clone(), actor, reason: None, command };
        let before = self.log.len();
        self.tell(Stimulus::Signal(Box::new(signal)))?;
        let refused = self.log[before..].iter().find_map(|event| match &event.body {
            Body::SignalRejected(rejected) if rejected.signal_id == signal_id => Some(rejected.code.clone()),
            _ => None,
        });
        self.rest()?;
        Ok(refused)
    }

    /// What COMPLETE_STEP asks of a step that waits.
    ///
    /// # Errors
    /// When it does not wait.
    pub fn completion(&self, step: &StepId) -> Result<Command, Wrong> {
        let token = self.log.iter().rev().find_map(|event| match (&event.body, &event.subject) {
            (Body::StepWaiting(waiting), Some(subject)) if subject.step == *step => {
                Some(waiting.completion_token.clone())
            }
            _ => None,
        });
        let completion = ManualCompletion {
            schema_version: 1,
            completion_token: token.ok_or_else(|| format!("{step} does not wait"))?,
            outcome: ManualOutcome::Succeeded,
            actor_user_id: crate::world::ACTOR.to_owned(),
            completed_at_iso: self.now,
            notes: None,
            evidence_refs: Vec::new(),
        };
        Ok(Command::CompleteStep { step_id: step.clone(), completion: Box::new(completion), output: None })
    }

    /// PAUSE, which lets what is in flight finish.
    #[must_use]
    pub fn pause() -> Command {
        Command::Pause { mode: PauseMode::Drain }
    }

    /// Lets time pass, also for those at a gate.
    ///
    /// # Errors
    /// When the decider breaks.
    pub fn pass(&mut self, millis: u64) -> Result<(), Wrong> {
        let until = self.now.plus_millis(millis);
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.wake()?;
            self.act()?;
        }
        self.now = self.now.max(until);
        self.rest()
    }

    /// Goes on until nothing happens any more by itself.
    fn rest(&mut self) -> Result<(), Wrong> {
        for _ in 0..TURNS {
            self.act()?;
            let at_a_gate = self.inside.values().any(|inside| *inside == Inside::AtGate);
            match self.next_due() {
                Some(due) if !at_a_gate => self.now = self.now.max(due),
                _ => return Ok(()),
            }
            self.wake()?;
        }
        Err(format!("the model does not come to rest: {}", self.story()))
    }

    /// Does everything that is to be done now.
    fn act(&mut self) -> Result<(), Wrong> {
        for _ in 0..TURNS {
            if !self.turn()? {
                return Ok(());
            }
        }
        Err(format!("the model turns in circles: {}", self.story()))
    }

    /// One thing after another that is to be done now; `false` when there is none.
    fn turn(&mut self) -> Result<bool, Wrong> {
        let settled = self.run.settle();
        if !settled.is_empty() {
            self.append(settled);
            return Ok(true);
        }
        if self.status() == Some(RunStatus::Approved) {
            let started = self.run_started()?;
            self.tell(Stimulus::Started(Box::new(started)))?;
            return Ok(true);
        }
        let actions = self.run.actions();
        if actions.finish.is_some() {
            self.inside.clear();
            return Ok(false);
        }
        // What has ended without its handler is cut off.
        let live: Vec<AttemptRef> =
            actions.dispatch.iter().map(|task| task.attempt.clone()).chain(actions.cancel.clone()).collect();
        self.inside.retain(|attempt, _| live.contains(attempt));
        let now = self.now;
        for timer in actions.timers.iter().filter(|timer| timer.due_at <= now) {
            let stimulus = Stimulus::TimerDue { timer: timer.timer.clone(), now };
            if self.tell(stimulus)? {
                return Ok(true);
            }
        }
        for attempt in &actions.cancel {
            let deaf = self.scripts.get(&attempt.step).is_some_and(|of| of.does.deaf);
            if self.inside.contains_key(attempt) && deaf {
                continue;
            }
            self.inside.remove(attempt);
            self.report(attempt, Report::Cancelled)?;
            return Ok(true);
        }
        for task in &actions.dispatch {
            let due = task.not_before.is_none_or(|at| at <= self.now);
            if due && !self.inside.contains_key(&task.attempt) {
                self.call(task)?;
                return Ok(true);
            }
        }
        if let Some(task) = actions.compensate.filter(|task| task.not_before.is_none_or(|at| at <= self.now))
        {
            self.undo(&task)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Those whose time has come go on.
    fn wake(&mut self) -> Result<(), Wrong> {
        let awake = |inside: &Inside| matches!(inside, Inside::Asleep(until) if *until <= self.now);
        let due: Vec<AttemptRef> = self
            .inside
            .iter()
            .filter(|(_, inside)| awake(inside))
            .map(|(attempt, _)| attempt.clone())
            .collect();
        due.iter().try_for_each(|attempt| self.end_call(attempt))
    }

    /// When something happens by itself next.
    fn next_due(&self) -> Option<Timestamp> {
        let actions = self.run.actions();
        if actions.finish.is_some() {
            return None;
        }
        let timers = actions.timers.iter().map(|timer| timer.due_at);
        let tries = actions.dispatch.iter().filter(|task| !self.inside.contains_key(&task.attempt));
        let tries = tries.filter_map(|task| task.not_before);
        let undo = actions.compensate.and_then(|task| task.not_before);
        let asleep = self.inside.values().filter_map(|inside| match inside {
            Inside::Asleep(until) => Some(*until),
            Inside::AtGate => None,
        });
        timers.chain(tries).chain(undo).chain(asleep).min()
    }

    /// Calls the handler of an attempt.
    fn call(&mut self, task: &Dispatched) -> Result<(), Wrong> {
        let of = self.scripts.get(&task.attempt.step).cloned().unwrap_or_default();
        if !task.started {
            if of.skipped {
                return self.report(&task.attempt, Report::ConditionFalse);
            }
            let started = StepStarted {
                handler: task.handler.clone(),
                agent: task.agent.clone(),
                worker: "model".to_owned(),
                claim_until: None,
                idempotency_token: None,
            };
            self.report(&task.attempt, Report::Started(started))?;
        }
        self.enter(&task.attempt, task.try_number, false);
        match (&of.does.gate, of.does.wait_ms) {
            (Some(gate), _) => {
                *self.arrivals.entry(gate.clone()).or_default() += 1;
                self.inside.insert(task.attempt.clone(), Inside::AtGate);
                Ok(())
            }
            (None, Some(millis)) => {
                self.inside.insert(task.attempt.clone(), Inside::Asleep(self.now.plus_millis(millis)));
                Ok(())
            }
            (None, None) => self.end_call(&task.attempt),
        }
    }

    fn enter(&mut self, attempt: &AttemptRef, try_number: u32, undo: bool) {
        *self.calls.entry((attempt.step.clone(), undo)).or_default() += 1;
        let suffix = if undo { " (undo)" } else { "" };
        self.entries.push(format!("{}#{}.{try_number}{suffix}", attempt.step, attempt.attempt));
    }

    /// A handler's call ends as its script says.
    fn end_call(&mut self, attempt: &AttemptRef) -> Result<(), Wrong> {
        self.inside.remove(attempt);
        let of = self.scripts.get(&attempt.step).cloned().unwrap_or_default();
        let calls = self.calls.get(&(attempt.step.clone(), false)).copied().unwrap_or_default();
        let report = match failure(&of.does, calls) {
            Some(error) => Report::Failed { error, started_at: Some(self.now), ended_at: Some(self.now) },
            None if of.manual => Report::Waiting(StepWaiting {
                completion_token: format!("token-{}", self.log.len()),
                output: None,
                prompt: None,
            }),
            None => Report::Completed(StepCompleted::default()),
        };
        self.report(attempt, report)
    }

    fn undo(&mut self, task: &CompensationTask) -> Result<(), Wrong> {
        let of = self.scripts.get(&task.attempt.step).cloned().unwrap_or_default();
        self.enter(&task.attempt, task.try_number, true);
        let calls = self.calls.get(&(task.attempt.step.clone(), true)).copied().unwrap_or_default();
        let outcome = failure(&of.undoes, calls).map_or_else(|| Ok(BTreeMap::new()), Err);
        self.tell(Stimulus::Compensation { step: task.attempt.step.clone(), outcome }).map(|_| ())
    }

    fn report(&mut self, attempt: &AttemptRef, report: Report) -> Result<(), Wrong> {
        self.tell(Stimulus::step(attempt.step.clone(), attempt.attempt, report)).map(|_| ())
    }

    /// Decides and appends; whether anything came of it.
    fn tell(&mut self, stimulus: Stimulus) -> Result<bool, Wrong> {
        let drafts = self.run.decide(stimulus).map_err(|error| format!("{error}: {}", self.story()))?;
        let some = !drafts.is_empty();
        self.append(drafts);
        Ok(some)
    }

    fn append(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            let event = draft.seal(Seal {
                event_id: uuid::Uuid::from_u128(self.log.len() as u128 + 1),
                run_id: &self.names.run_id,
                run_seq: self.log.len() as u64 + 1,
                emitted_at: self.now,
                emitted_by: &self.names.by,
                correlation_id: &self.names.by,
                plan_version: &self.plan.document().version,
            });
            self.run.evolve(&event);
            self.log.push(event);
        }
    }

    fn run_started(&self) -> Result<RunStarted, Wrong> {
        let Some(Body::RunQueued(queued)) = self.log.first().map(|event| &event.body) else {
            return Err("a run begins with RunQueued".to_owned());
        };
        Ok(RunStarted {
            engine_run_ref: "model".to_owned(),
            engine_type: "model".to_owned(),
            interpreter_version: None,
            plan_ref: queued.plan_ref.clone(),
            context: queued.context.clone(),
            started_at: self.now,
        })
    }

    fn story(&self) -> String {
        let lines: Vec<String> = self.log.iter().map(crate::history::line).collect();
        lines.join(", ")
    }
}

/// How a call fails that is its step's so-manieth; nothing when it does not.
fn failure(lines: &Lines, calls: u32) -> Option<StepError> {
    let fail = lines.fail.as_ref().filter(|fail| fail.times.is_none_or(|times| calls <= times))?;
    let class = fail.class.clone().unwrap_or(FailureClass::Transient);
    Some(StepError::new(class, &fail.code, "as the script says"))
}
