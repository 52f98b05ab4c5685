//! What a case is given: start plans, open gates, let time pass, wait for what must come. Everything that it does and
//! sees is recorded.
//!
//! - this file: the world, who acts in it, gates and time;
//! - [`run`]: one run: signals, waiting, reading.

pub mod run;

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use client::{Client, ListFilter, Parts, Scope, Start};
use engine_core::event::Event;
use engine_core::plan::CompiledPlan;
use engine_core::port::store::{ReadRequest, RunRecord};
use engine_core::port::{Authorizer, Capabilities, Timekeeper};
use engine_core::{Error, RunId, TenantId, Timestamp};

pub use run::TestRun;

use crate::harness::{Fault, Harness, HarnessError, Setup};
use crate::history::{History, Item, Recorder, RunHistory, Visit};
use crate::layer::slow::Late;
use crate::script::stage::is_loss;
use crate::script::{HANDLERS, Stage};
use crate::subject::Subject;
use crate::timeouts::Timeouts;
use crate::variant::{Dice, Variant};
use crate::verdict::Stop;

/// The tenant that a case acts for unless it says otherwise.
pub const TENANT: &str = "acme";
/// Who acts in a case unless it says otherwise.
pub const ACTOR: &str = "ada";

/// What a case is given. Clones are the same world; [`World::as_tenant`] and the like give the same world seen by
/// somebody else.
#[derive(Clone, Debug)]
pub struct World {
    shared: Arc<Shared>,
    client: Client,
}

#[derive(Debug)]
struct Shared {
    subject: Subject,
    stage: Arc<Stage>,
    recorder: Arc<Recorder>,
    timeouts: Timeouts,
    /// Whether the subject's time is virtual.
    passes_time: bool,
    runs: Mutex<Vec<(TenantId, RunId)>>,
}

impl World {
    /// Opens a world of its own for a case.
    ///
    /// # Errors
    /// When the harness cannot.
    pub async fn open(harness: &dyn Harness, case: &str, timeouts: Timeouts) -> Result<Self, HarnessError> {
        Self::open_under(None, harness, case, timeouts).await
    }

    /// The same, with something going wrong all the time.
    ///
    /// # Errors
    /// When the harness cannot.
    pub async fn open_under(
        variant: Option<Variant>,
        harness: &dyn Harness,
        case: &str,
        timeouts: Timeouts,
    ) -> Result<Self, HarnessError> {
        let recorder = Arc::new(Recorder::default());
        let stage = Arc::new(Stage::new(Arc::clone(&recorder)));
        match variant {
            Some(Variant::SlowStore) => stage.slow().always(Dice::of(case, "slow")),
            Some(Variant::WorkerRestart) => stage.forgive_losses(),
            _ => {}
        }
        let setup = Setup { case: case.to_owned(), stage: Arc::clone(&stage), variant };
        let subject = harness.open(setup).await?;
        stage.look_into(Arc::clone(&subject.store));
        let client = Client::new(Parts {
            engine: Arc::clone(&subject.engine),
            store: Arc::clone(&subject.store),
            authorizer: None,
            clock: Arc::new(TimeOf(Arc::clone(&subject.time))),
            scope: Scope {
                tenant_id: TenantId::new(TENANT)?,
                project_id: "conformance".to_owned(),
                environment_id: "test".to_owned(),
            },
            actor: ACTOR.to_owned(),
            emitted_by: "conformance".into(),
            handlers: Some(HANDLERS.iter().map(ToString::to_string).collect::<BTreeSet<_>>()),
            signal_timeout: timeouts.for_event(),
        });
        let passes_time = harness.faults().contains(&Fault::PassTime);
        let shared = Shared { subject, stage, recorder, timeouts, passes_time, runs: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), client })
    }

    /// The client behind it, for what the world has no word for. What goes through it is not recorded.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What is tested: engine, store and time.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.shared.subject
    }

    /// The optional abilities that the engine declares.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.client.engine().capabilities()
    }

    fn seen_by(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut parts = self.client.parts().clone();
        change(&mut parts);
        Self { shared: Arc::clone(&self.shared), client: Client::new(parts) }
    }

    /// The same world, acting for another tenant.
    ///
    /// # Errors
    /// When that is no name of a tenant.
    pub fn as_tenant(&self, tenant: &str) -> Result<Self, Stop> {
        let tenant_id = TenantId::new(tenant)?;
        Ok(self.seen_by(|parts| parts.scope.tenant_id = tenant_id))
    }

    /// The same world, acting in another environment.
    #[must_use]
    pub fn in_environment(&self, environment: &str) -> Self {
        self.seen_by(|parts| parts.scope.environment_id = environment.to_owned())
    }

    /// The same world, with somebody else acting.
    #[must_use]
    pub fn as_actor(&self, actor: &str) -> Self {
        self.seen_by(|parts| parts.actor = actor.to_owned())
    }

    /// The same world, with somebody to ask who may do what.
    #[must_use]
    pub fn with_authorizer(&self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.seen_by(|parts| parts.authorizer = Some(authorizer))
    }

    /// The same world, seen from another process on the same store.
    ///
    /// # Errors
    /// When the harness has none.
    pub async fn from_another_process(&self) -> Result<Self, Stop> {
        let engine = self.shared.subject.operator.another_process().await.map_err(broken)?;
        Ok(self.seen_by(|parts| parts.engine = engine))
    }

    /// Reads a plan as a user's would be read.
    ///
    /// # Errors
    /// `PLAN_INVALID`: a slip of the case.
    pub fn plan(&self, text: &str) -> Result<Arc<CompiledPlan>, Stop> {
        self.client.read_plan(text).map_err(|error| Stop::Error(format!("the case's plan: {error}")))
    }

    /// Starts a run of a plan.
    ///
    /// # Errors
    /// When it is not started.
    pub async fn start(&self, plan: &str) -> Result<TestRun, Stop> {
        self.start_with(plan, |start| start).await
    }

    /// Starts a run of a plan with input, request id and the like.
    ///
    /// # Errors
    /// When it is not started.
    pub async fn start_with(&self, plan: &str, with: impl FnOnce(Start) -> Start) -> Result<TestRun, Stop> {
        let plan = self.plan(plan)?;
        Ok(self.try_start(with(Start::of(plan))).await?)
    }

    /// Starts a run, or tells why it was not started.
    ///
    /// # Errors
    /// The answer of the implementation.
    pub async fn try_start(&self, start: Start) -> Result<TestRun, Error> {
        let started = self.client.start(start).await;
        self.called("start", &started);
        started.map(|started| self.track(started.run_id, started.fresh))
    }

    /// A run that was made otherwise, as by a rerun; its log is judged too.
    #[must_use]
    pub fn track(&self, run_id: RunId, fresh: bool) -> TestRun {
        let of = (self.client.scope().tenant_id.clone(), run_id.clone());
        let mut runs = self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if !runs.contains(&of) {
            runs.push(of);
        }
        TestRun { world: self.clone(), run_id, fresh }
    }

    /// A run that is not judged, for a case that wants to see what is wrong with it, as one whose plan is gone.
    #[must_use]
    pub fn look_at(&self, run_id: RunId) -> TestRun {
        TestRun { world: self.clone(), run_id, fresh: false }
    }

    /// The runs of the tenant, newest first.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn list(&self) -> Result<Vec<RunRecord>, Stop> {
        Ok(self.client.list(ListFilter { limit: 1000, ..ListFilter::default() }).await?.runs)
    }

    /// Opens a gate for one step, now or when it comes.
    pub fn open_gate(&self, gate: &str) {
        self.open_gate_for(gate, 1);
    }

    /// Opens a gate for several steps.
    pub fn open_gate_for(&self, gate: &str, steps: usize) {
        self.shared.stage.open(gate, steps);
    }

    /// Waits until so many calls have come to a gate, and gives them in the order in which they came.
    ///
    /// # Errors
    /// Fail when they do not come.
    pub async fn at_gate(&self, gate: &str, calls: usize) -> Result<Vec<Visit>, Stop> {
        let what = format!("{calls} steps at gate {gate}");
        self.seen(&what, || Some(self.shared.recorder.at_gate(gate)).filter(|at| at.len() >= calls)).await
    }

    /// Waits until a step was called so many times, undoing not counted, and gives these calls.
    ///
    /// # Errors
    /// Fail when it is not.
    pub async fn entered(&self, step: &str, calls: usize) -> Result<Vec<Visit>, Stop> {
        let what = format!("{calls} calls of step {step}");
        self.seen(&what, || Some(self.visits_of(step)).filter(|visits| visits.len() >= calls)).await
    }

    async fn seen<T>(&self, what: &str, met: impl Fn() -> Option<T>) -> Result<T, Stop> {
        let mut changes = self.shared.recorder.changes();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = met() {
                    return found;
                }
                let _ = changes.changed().await;
            }
        };
        self.in_time(what, found).await
    }

    /// Every call of a handler so far, undoing included.
    #[must_use]
    pub fn visits(&self) -> Vec<Visit> {
        self.shared.recorder.visits()
    }

    /// Every call so far that did a step.
    #[must_use]
    pub fn visits_of(&self, step: &str) -> Vec<Visit> {
        let of = |visit: &Visit| visit.step_id.as_str() == step && !visit.undoes();
        self.visits().into_iter().filter(of).collect()
    }

    /// Every call so far as `step#attempt.try`, in order; undoing ends in `(undo)`.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        self.visits().iter().map(ToString::to_string).collect()
    }

    /// The subject's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.subject.time.now()
    }

    /// Lets so much of the subject's time pass, also for steps at a gate. What is due then may come a moment later: wait
    /// for it.
    ///
    /// # Errors
    /// Fail when time does not pass: somebody is busy who should wait.
    pub async fn pass(&self, millis: u64) -> Result<(), Stop> {
        let until = self.now().plus_millis(millis);
        self.shared.stage.let_pass(until);
        let passed = self.shared.subject.time.alarm(until);
        let longest = self.shared.timeouts.for_event() + std::time::Duration::from_millis(millis);
        if tokio::time::timeout(longest, passed).await.is_err() {
            return Err(Stop::Fail(format!("{millis} ms did not pass: somebody is busy who should wait")));
        }
        self.shared.recorder.note(Item::Passed(millis));
        Ok(())
    }

    /// How long to look out for what must not come within so much time.
    fn lookout(&self, millis: u64) -> u64 {
        if self.shared.passes_time {
            return millis;
        }
        let longest = self.shared.timeouts.for_quiet().as_millis();
        millis.min(u64::try_from(longest).unwrap_or(u64::MAX))
    }

    /// Keeps virtual time from passing until what is returned is dropped; in real time it does nothing, so durations that
    /// a case acts within must not be too short.
    #[must_use]
    pub fn hold_time(&self) -> Box<dyn Any + Send> {
        self.shared.subject.operator.hold_time()
    }

    /// Kills everything that drives runs and runs steps, without a word. Needs [`crate::Fault::Kill`].
    ///
    /// # Errors
    /// When the harness cannot.
    pub async fn kill(&self) -> Result<(), Stop> {
        self.shared.subject.operator.kill().await.map_err(broken)
    }

    /// Starts again what was killed. Needs [`crate::Fault::Kill`].
    ///
    /// # Errors
    /// When the harness cannot.
    pub async fn restart(&self) -> Result<(), Stop> {
        self.shared.subject.operator.restart().await.map_err(broken)?;
        self.shared.recorder.note(Item::Restarted);
        Ok(())
    }

    /// Lets the next appends of this kind be late. Needs [`crate::Fault::SlowStore`].
    pub fn late(&self, late: Late) {
        self.shared.stage.slow().add(late);
    }

    /// Whether an event counts: a loss that a variant has brought about does not.
    pub(crate) fn counts(&self, event: &Event) -> bool {
        !(self.shared.stage.forgives_losses() && is_loss(event))
    }

    /// Waits for what must come, as long as a conformant implementation may take.
    async fn in_time<T>(&self, what: &str, coming: impl Future<Output = T>) -> Result<T, Stop> {
        let longest = self.shared.timeouts.for_event();
        tokio::time::timeout(longest, coming)
            .await
            .map_err(|_| Stop::Fail(format!("{what} did not come within {} s", longest.as_secs_f64())))
    }

    fn called<T: std::fmt::Debug>(&self, call: &str, answer: &Result<T, Error>) {
        let answer = match answer {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{}: {}", error.code().as_str(), error.message()),
        };
        self.shared.recorder.called(call.to_owned(), answer);
    }

    /// What scripts said that no script says: a slip of the case.
    pub(crate) fn slips(&self) -> Vec<String> {
        self.shared.stage.slips()
    }

    /// What variants have found wrong.
    pub(crate) fn findings(&self) -> Vec<String> {
        self.shared.stage.findings()
    }

    /// Everything that was recorded, with the logs of all runs as they stand now.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub async fn history(&self) -> Result<History, Stop> {
        let mut history = self.shared.recorder.take();
        history.late = self.shared.stage.slow().lateness_so_far();
        history.rebuilt = self.shared.stage.rebuilt_so_far();
        let runs = self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (tenant_id, run_id) in runs {
            let owner = self.seen_by(|parts| {
                parts.scope.tenant_id = tenant_id.clone();
                parts.authorizer = None;
            });
            // The snapshot first: the log is then at least as long.
            let snapshot = owner.client.get(&run_id).await?;
            let mut events = owner.log(&run_id).await?;
            events.retain(|event| event.run_seq <= snapshot.last_event_seq);
            let plan = owner.client.plan_of(&run_id).await?;
            history.runs.push(RunHistory { tenant_id, run_id, plan, events, snapshot: Some(snapshot) });
        }
        Ok(history)
    }

    async fn log(&self, run_id: &RunId) -> Result<Vec<Event>, Stop> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.run_seq);
            let tenant_id = self.client.scope().tenant_id.clone();
            let request = ReadRequest { tenant_id, run_id: run_id.clone(), after, limit: 1000 };
            let page = self.shared.subject.store.read(request).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    /// Lets go of everything.
    pub async fn close(&self) {
        self.shared.subject.operator.close().await;
    }
}

fn broken(error: HarnessError) -> Stop {
    Stop::Error(error.what)
}

/// The subject's time as a clock.
#[derive(Debug)]
struct TimeOf(Arc<dyn Timekeeper>);

impl engine_core::port::Clock for TimeOf {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}
