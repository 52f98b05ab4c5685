//! Runs, workers and time for tests.

pub(crate) mod late;
pub(crate) mod time;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use engine_core::decider::{Dispatched, Report, Run, Stimulus};
use engine_core::event::run::{Origin, RunContext, RunQueued, RunStarted};
use engine_core::event::{Draft, Event};
use engine_core::hash::canonical_json;
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::store::{AppendAs, AppendRequest, Appended, CreateRequest, ReadRequest};
use engine_core::port::{StateStore, StepObserver};
use engine_core::{RunId, StepId, TenantId};
use serde_json::{Value, json};
use statestore::{MemoryStore, Options, SqliteStore};
use tokio_util::sync::CancellationToken;
use worker::{Call, Handlers, History, Plans, Prepared, ReadyStep, Worker, WorkerBuilder};

use time::VirtualTime;

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

pub(crate) fn step(id: &str) -> StepId {
    StepId::new(id).unwrap()
}

/// A store, a clock that stands still, and who listens.
pub(crate) struct World {
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) heard: Arc<Heard>,
    /// Kept while the store needs it.
    _folder: Option<tempfile::TempDir>,
}

impl World {
    pub(crate) fn memory() -> Self {
        let time = VirtualTime::new();
        let options = Options { clock: Some(time.clone()), ..Options::default() };
        Self::on(Arc::new(MemoryStore::new(options)), time)
    }

    pub(crate) async fn sqlite() -> Self {
        let time = VirtualTime::new();
        let options = Options { clock: Some(time.clone()), ..Options::default() };
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/runs.db", folder.path().display());
        let store = SqliteStore::open(&url, options).await.unwrap();
        Self { _folder: Some(folder), ..Self::on(Arc::new(store), time) }
    }

    pub(crate) fn on(store: Arc<dyn StateStore>, time: Arc<VirtualTime>) -> Self {
        Self { store, time, heard: Arc::default(), _folder: None }
    }

    pub(crate) fn builder(&self, handlers: Handlers) -> WorkerBuilder {
        Worker::builder(self.store.clone(), handlers).name("w1").time(self.time.clone())
    }

    pub(crate) fn worker(&self, handlers: Handlers) -> Worker {
        self.builder(handlers).build().unwrap()
    }

    /// Makes and starts a run of a plan that is nothing but these steps.
    pub(crate) async fn start(&self, steps: Value, input: Value) -> RunId {
        self.start_plan(json!({"id": "p", "version": "1.0", "steps": steps}), input, None).await
    }

    pub(crate) async fn start_plan(&self, plan: Value, input: Value, origin: Option<Origin>) -> RunId {
        let plan: Plan = serde_json::from_value(plan).unwrap();
        let plan = CompiledPlan::new(plan).unwrap();
        let text = canonical_json(&serde_json::to_value(plan.document()).unwrap());
        self.store.put_plan(&tenant(), plan.hash(), &text).await.unwrap();
        let context = RunContext {
            tenant_id: tenant(),
            project_id: "project".into(),
            environment_id: "test".into(),
            triggered_by: None,
            trigger_source: None,
        };
        let queued =
            RunQueued { input: input.into(), origin, ..RunQueued::of(&plan, context.clone(), &uuid()) };
        let plan_ref = queued.plan_ref.clone();
        let request =
            CreateRequest { queued, correlation_id: "c".into(), emitted_by: "test".into(), lease: None };
        let run_id = self.store.create(request).await.unwrap().run_id;
        self.settle(&run_id).await;
        let started = RunStarted {
            engine_run_ref: "r".into(),
            engine_type: "mock".into(),
            interpreter_version: None,
            plan_ref,
            context,
            started_at: engine_core::port::Clock::now(&*self.time),
        };
        self.decide(&run_id, Stimulus::Started(Box::new(started))).await;
        run_id
    }

    pub(crate) async fn history(&self, run_id: &RunId) -> History {
        History::load(&*self.store, &Plans::new(), &tenant(), run_id).await.unwrap()
    }

    /// Decides as the run's driver, and appends.
    pub(crate) async fn decide(&self, run_id: &RunId, stimulus: Stimulus) {
        let history = self.history(run_id).await;
        let drafts = history.run().decide(stimulus).unwrap();
        self.append(run_id, history.run(), drafts).await;
        self.settle(run_id).await;
    }

    pub(crate) async fn settle(&self, run_id: &RunId) {
        loop {
            let history = self.history(run_id).await;
            let drafts = history.run().settle();
            if drafts.is_empty() {
                return;
            }
            self.append(run_id, history.run(), drafts).await;
        }
    }

    async fn append(&self, run_id: &RunId, run: &Run, drafts: Vec<Draft>) {
        let request = AppendRequest {
            tenant_id: tenant(),
            run_id: run_id.clone(),
            append_as: AppendAs::of(run, &drafts),
            drafts,
            emitted_by: "driver".into(),
            fence: None,
        };
        let appended = self.store.append(request).await.unwrap();
        assert!(matches!(appended, Appended::Stored(_)), "{appended:?}");
    }

    /// Reports something about an attempt, started by somebody if it was not.
    pub(crate) async fn report(&self, run_id: &RunId, id: &str, report: Report) {
        let stimulus = Stimulus::step(step(id), self.attempt_of(run_id, id).await, report);
        self.decide(run_id, stimulus).await;
    }

    async fn attempt_of(&self, run_id: &RunId, id: &str) -> u32 {
        self.history(run_id).await.run().attempt(id).unwrap().attempt
    }

    pub(crate) async fn task(&self, run_id: &RunId, id: &str) -> Dispatched {
        let actions = self.history(run_id).await.run().actions();
        actions.dispatch.into_iter().find(|task| task.attempt.step.as_str() == id).expect("a released step")
    }

    pub(crate) async fn prepare(&self, worker: &Worker, run_id: &RunId, id: &str) -> Prepared {
        let history = self.history(run_id).await;
        worker.prepare(&history, &self.task(run_id, id).await).await.unwrap()
    }

    pub(crate) async fn ready(&self, worker: &Worker, run_id: &RunId, id: &str) -> ReadyStep {
        match self.prepare(worker, run_id, id).await {
            Prepared::Ready(ready) => ready,
            Prepared::Decided(report) => panic!("not ready: {report:?}"),
        }
    }

    pub(crate) fn call(&self) -> Call {
        Call { engine_attempt: 1, cancellation: CancellationToken::new(), observer: self.heard.clone() }
    }

    /// Prepares and executes; records nothing.
    pub(crate) async fn execute(&self, worker: &Worker, run_id: &RunId, id: &str) -> Report {
        let ready = self.ready(worker, run_id, id).await;
        worker.execute(ready, self.call()).await
    }

    /// The same, and records start and end.
    pub(crate) async fn complete(&self, worker: &Worker, run_id: &RunId, id: &str) -> Report {
        let ready = self.ready(worker, run_id, id).await;
        self.report(run_id, id, Report::Started(ready.started().clone())).await;
        let report = worker.execute(ready, self.call()).await;
        self.report(run_id, id, report.clone()).await;
        report
    }

    pub(crate) async fn log(&self, run_id: &RunId) -> Vec<Event> {
        let request = ReadRequest { tenant_id: tenant(), run_id: run_id.clone(), after: 0, limit: 1000 };
        self.store.read(request).await.unwrap()
    }

    /// The types of the events about a step.
    pub(crate) async fn types(&self, run_id: &RunId, id: &str) -> Vec<String> {
        let about = |event: &Event| event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == id);
        let log = self.log(run_id).await;
        log.iter().filter(|event| about(event)).map(|event| event.body.type_name().to_owned()).collect()
    }
}

/// Remembers what it is told.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) progress: Mutex<Vec<f64>>,
    pub(crate) reviews: Mutex<Vec<(String, BTreeMap<String, Value>)>>,
    pub(crate) lines: Mutex<Vec<String>>,
}

impl StepObserver for Heard {
    fn progress(&self, done: f64) {
        self.progress.lock().unwrap().push(done);
    }

    fn review(&self, reason: &str, context: BTreeMap<String, Value>) {
        self.reviews.lock().unwrap().push((reason.to_owned(), context));
    }

    fn log(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
}

/// The output of a report that an attempt ended well.
pub(crate) fn value(report: Report) -> Value {
    match report {
        Report::Completed(completed) => completed.output.value.expect("an output in the log"),
        other => panic!("not completed: {other:?}"),
    }
}

/// The error of a report that a try failed.
pub(crate) fn error(report: Report) -> engine_core::event::step::StepError {
    match report {
        Report::Failed { error, .. } => error,
        other => panic!("not failed: {other:?}"),
    }
}

/// A name that no other test has.
pub(crate) fn uuid() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("identity-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
