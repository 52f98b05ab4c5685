//! A driver without an engine: it appends what the decider gives to a log in memory, with the store's rules, folds
//! it, and settles. Tests say what workers and people do.

pub mod explore;
pub mod plans;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine_core::decider::{Actions, Report, Run, Stimulus, TimerId};
use engine_core::event::run::{FrozenCapabilities, Origin, RunContext, RunQueued, RunStarted};
use engine_core::event::step::{StepCompleted, StepError, StepStarted, StepWaiting};
use engine_core::event::{Body, Draft, Event, IdempotencyKey, Kind, Seal, Slot};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::store::AppendAs;
use engine_core::signal::{Command, ManualCompletion, ManualOutcome, PauseMode, Signal};
use engine_core::{PlanVersion, Result, RunId, SignalId, StepId, TenantId, Timestamp};
use serde_json::Value;

pub const TOKEN: &str = "token-1";

/// A run, its log, and the time.
#[derive(Clone, Debug)]
pub struct World {
    pub run: Run,
    pub log: Vec<Arc<Event>>,
    pub now: Timestamp,
    keys: BTreeSet<IdempotencyKey>,
    slots: BTreeSet<Slot>,
    signals: u32,
}

pub fn compile(document: Value) -> Arc<CompiledPlan> {
    let plan: Plan = serde_json::from_value(document).expect("a plan");
    Arc::new(CompiledPlan::new(plan).expect("a valid plan"))
}

pub fn id(step: &str) -> StepId {
    StepId::new(step).expect("a step id")
}

pub fn queued(plan: &CompiledPlan) -> RunQueued {
    let context = RunContext {
        tenant_id: TenantId::new("acme").expect("a tenant"),
        project_id: "project".into(),
        environment_id: "test".into(),
        triggered_by: Some("jane".into()),
        trigger_source: None,
    };
    RunQueued {
        capabilities: FrozenCapabilities { immediate_pause: true, fail_fast_cancel: true },
        ..RunQueued::of(plan, context, "request")
    }
}

impl World {
    /// A run of `document` that is queued and settled, not started.
    pub fn queued(document: Value) -> Self {
        Self::queued_with(compile(document), |_| {})
    }

    pub fn queued_with(plan: Arc<CompiledPlan>, change: impl FnOnce(&mut RunQueued)) -> Self {
        let mut request = queued(&plan);
        change(&mut request);
        let mut world = Self {
            run: Run::new(plan),
            log: Vec::new(),
            now: Timestamp::from_millis(1_000_000),
            keys: BTreeSet::new(),
            slots: BTreeSet::new(),
            signals: 0,
        };
        world.tell(Stimulus::Queue(Box::new(request))).expect("queued");
        world
    }

    /// A run of `document` that has started.
    pub fn started(document: Value) -> Self {
        let mut world = Self::queued(document);
        world.start();
        world
    }

    pub fn started_from(plan: Arc<CompiledPlan>, origin: Origin) -> Self {
        let mut world = Self::queued_with(plan, |queued| queued.origin = Some(origin));
        world.start();
        world
    }

    pub fn start(&mut self) {
        let request = queued(self.run.plan());
        let started = RunStarted {
            engine_run_ref: "mock://run".into(),
            engine_type: "mock".into(),
            interpreter_version: None,
            plan_ref: request.plan_ref,
            context: request.context,
            started_at: self.now,
        };
        self.tell(Stimulus::Started(Box::new(started))).expect("started");
    }

    /// Decides, appends, folds and settles; the names of the events that were appended.
    pub fn tell(&mut self, stimulus: Stimulus) -> Result<Vec<String>> {
        let before = self.log.len();
        let drafts = self.run.decide(stimulus)?;
        self.append(drafts);
        self.settle();
        Ok(self.names_from(before))
    }

    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            let drafts = self.run.settle();
            if drafts.is_empty() {
                return;
            }
            self.append(drafts);
        }
        panic!("settling does not end: {:?}", self.run.settle());
    }

    /// Appends as the store does. A decider that has folded everything never meets a key or slot that is taken.
    pub fn append(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            let event = self.seal(draft);
            assert!(self.keys.insert(event.idempotency_key), "key taken: {event:?}\n{}", self.story());
            if let Some(slot) = Slot::of(event.subject.as_ref(), &event.body) {
                assert!(self.slots.insert(slot), "slot taken: {event:?}\n{}", self.story());
            }
            self.run.evolve(&event);
            self.log.push(Arc::new(event));
        }
    }

    /// Appends as a store does when several write: `false` when the call met a conflict and nothing of it was stored.
    pub fn offer(&mut self, drafts: Vec<Draft>, how: AppendAs) -> bool {
        let ended = self.slots.contains(&Slot::RunEnd);
        let taken = |world: &Self, draft: &Draft| {
            let event = world.seal(draft.clone());
            let (subject, body) = (event.subject.as_ref(), &event.body);
            let slots = [Slot::of(subject, body), Slot::closed_to(subject, body)];
            world.keys.contains(&event.idempotency_key)
                || slots.iter().flatten().any(|slot| world.slots.contains(slot))
                || (ended && body.kind() != Kind::Audit)
        };
        if let AppendAs::Decision { expected, nothing_after, .. } = how {
            let decisions =
                self.log.iter().filter(|event| event.body.kind() == Kind::Decision).count() as u64;
            let stale = nothing_after.is_some_and(|place| place != self.log.len() as u64);
            if decisions != expected || stale || drafts.iter().any(|draft| taken(self, draft)) {
                return false;
            }
            self.append(drafts);
            return true;
        }
        for draft in drafts {
            if !taken(self, &draft) {
                self.append(vec![draft]);
            }
        }
        true
    }

    pub fn seal(&self, draft: Draft) -> Event {
        draft.seal(Seal {
            event_id: uuid::Uuid::from_u128(self.log.len() as u128 + 1),
            run_id: &RunId::new("run-001").expect("a run id"),
            run_seq: self.log.len() as u64 + 1,
            emitted_at: self.now,
            emitted_by: &"test".into(),
            correlation_id: &"correlation".into(),
            plan_version: &self.plan_version(),
        })
    }

    fn plan_version(&self) -> PlanVersion {
        self.run.plan().document().version.clone()
    }

    // What workers do.

    pub fn report(&mut self, step: &str, report: Report) -> Result<Vec<String>> {
        let attempt = self.attempt(step);
        self.tell(Stimulus::step(id(step), attempt, report))
    }

    pub fn begin(&mut self, step: &str) -> Result<Vec<String>> {
        let started = StepStarted {
            handler: self.run.plan().step(self.run.plan().find(step).expect("a step")).handler.clone(),
            agent: None,
            worker: "worker-1".into(),
            claim_until: None,
            idempotency_token: None,
        };
        self.report(step, Report::Started(started))
    }

    pub fn complete(&mut self, step: &str) -> Result<Vec<String>> {
        self.report(step, Report::Completed(StepCompleted::default()))
    }

    /// Starts and completes a released step.
    pub fn succeed(&mut self, step: &str) {
        self.begin(step).unwrap_or_else(|error| panic!("{step}: {error}\n{}", self.story()));
        self.complete(step).unwrap_or_else(|error| panic!("{step}: {error}\n{}", self.story()));
    }

    pub fn fail_try(&mut self, step: &str) -> Result<Vec<String>> {
        let error = StepError::new(FailureClass::Transient, "ETIMEDOUT", "too late");
        self.report(step, Report::Failed { error, started_at: None, ended_at: None })
    }

    pub fn fail_for_good(&mut self, step: &str) -> Result<Vec<String>> {
        let error = StepError::new(FailureClass::Permanent, "BadRequest", "no such thing");
        self.report(step, Report::Failed { error, started_at: None, ended_at: None })
    }

    /// Starts a released step and fails it for good.
    pub fn fail(&mut self, step: &str) {
        self.begin(step).unwrap_or_else(|error| panic!("{step}: {error}\n{}", self.story()));
        self.fail_for_good(step).unwrap_or_else(|error| panic!("{step}: {error}\n{}", self.story()));
    }

    /// Starts a released step and lets it wait for a person.
    pub fn wait(&mut self, step: &str) {
        self.begin(step).expect("started");
        let waiting = StepWaiting { completion_token: TOKEN.into(), output: None, prompt: None };
        self.report(step, Report::Waiting(waiting)).expect("waiting");
    }

    // What people do.

    /// Sends a signal; `Ok`, or the code of its refusal.
    pub fn signal(&mut self, command: Command) -> Result<(), String> {
        self.signal_by("ops", command)
    }

    pub fn signal_by(&mut self, actor: &str, command: Command) -> Result<(), String> {
        self.signals += 1;
        let signal_id = SignalId::new(format!("s{}", self.signals)).expect("a signal id");
        let signal = Signal { signal_id: signal_id.clone(), actor: actor.into(), reason: None, command };
        self.tell(Stimulus::Signal(Box::new(signal))).expect("a signal is decided");
        let decision = self.log.iter().find_map(|event| match &event.body {
            Body::SignalAccepted(accepted) if accepted.signal_id == signal_id => Some(Ok(())),
            Body::SignalRejected(rejected) if rejected.signal_id == signal_id => {
                Some(Err(rejected.code.clone()))
            }
            _ => None,
        });
        decision.expect("decided")
    }

    /// What one signal would append, in one append.
    pub fn effects(&self, command: Command) -> Vec<String> {
        let signal_id = SignalId::new("not-sent").expect("a signal id");
        let signal = Signal { signal_id, actor: "ops".into(), reason: None, command };
        let drafts = self.run.decide(Stimulus::Signal(Box::new(signal))).expect("a signal is decided");
        drafts.into_iter().map(|draft| name(&self.seal(draft))).collect()
    }

    pub fn pause(&mut self) -> Result<(), String> {
        self.signal(Command::Pause { mode: PauseMode::Drain })
    }

    pub fn resume(&mut self) -> Result<(), String> {
        self.signal(Command::Resume)
    }

    pub fn cancel(&mut self) -> Result<(), String> {
        self.signal(Command::Cancel)
    }

    pub fn retry(&mut self, step: &str) -> Result<(), String> {
        self.signal(Command::RetryStep { step_id: id(step), cascade: true })
    }

    pub fn retry_alone(&mut self, step: &str) -> Result<(), String> {
        self.signal(Command::RetryStep { step_id: id(step), cascade: false })
    }

    pub fn skip(&mut self, step: &str) -> Result<(), String> {
        self.signal(Command::SkipStep { step_id: id(step) })
    }

    pub fn finish_manually(&mut self, step: &str, outcome: ManualOutcome) -> Result<(), String> {
        self.signal(completion(step, TOKEN, outcome, "bob"))
    }

    // Time.

    /// Moves time on and fires what is due, in order.
    pub fn advance(&mut self, millis: u64) {
        let target = self.now.plus_millis(millis);
        while let Some(timer) = self
            .actions()
            .timers
            .into_iter()
            .filter(|timer| timer.due_at <= target)
            .min_by_key(|timer| timer.due_at)
        {
            self.now = self.now.max(timer.due_at);
            self.fire(timer.timer);
        }
        self.now = target;
    }

    pub fn fire(&mut self, timer: TimerId) {
        let fired = self.tell(Stimulus::TimerDue { timer, now: self.now }).expect("a timer");
        assert!(!fired.is_empty(), "the timer changed nothing\n{}", self.story());
    }

    pub fn timer_names(&self) -> Vec<String> {
        self.actions().timers.iter().map(|timer| timer.timer.to_string()).collect()
    }

    // What can be seen.

    pub fn actions(&self) -> Actions {
        self.run.actions()
    }

    /// Steps in flight that are not asked to stop, in the order of release.
    pub fn in_flight(&self) -> Vec<String> {
        self.actions().dispatch.iter().map(|dispatch| dispatch.attempt.step.to_string()).collect()
    }

    pub fn status(&self) -> RunStatus {
        self.run.state().status().expect("a run")
    }

    pub fn step(&self, step: &str) -> StepStatus {
        self.run.attempt(step).expect("a step").status
    }

    pub fn attempt(&self, step: &str) -> u32 {
        self.run.attempt(step).expect("a step").attempt
    }

    pub fn substatus(&self) -> Option<&'static str> {
        self.run.view().substatus.map(|substatus| substatus.as_str())
    }

    pub fn last(&self) -> &Body {
        &self.log.last().expect("an event").body
    }

    pub fn names_from(&self, start: usize) -> Vec<String> {
        self.log[start..].iter().map(|event| name(event)).collect()
    }

    /// The log, one event a word.
    pub fn story(&self) -> String {
        self.names_from(0).join(" ")
    }
}

/// An event in a word: its type, and the step with its attempt.
pub fn name(event: &Event) -> String {
    match &event.subject {
        Some(subject) => format!("{}({}#{})", event.body.type_name(), subject.step, subject.attempt),
        None => event.body.type_name().to_owned(),
    }
}

pub fn completion(step: &str, token: &str, outcome: ManualOutcome, actor: &str) -> Command {
    Command::CompleteStep {
        step_id: id(step),
        completion: Box::new(ManualCompletion {
            schema_version: 1,
            completion_token: token.into(),
            outcome,
            actor_user_id: actor.into(),
            completed_at_iso: Timestamp::from_millis(0),
            notes: Some("done by hand".into()),
            evidence_refs: vec!["doc-1".into()],
        }),
        output: None,
    }
}
