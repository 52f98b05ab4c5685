//! An engine on a store, with virtual time and handlers that do what a test says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_mock::{Faults, InProcess, Options, Recover, VirtualTime};
use async_trait::async_trait;
use engine_core::event::run::{RunContext, RunQueued};
use engine_core::event::step::StepError;
use engine_core::event::{Body, Event};
use engine_core::failure::FailureClass;
use engine_core::hash::canonical_json;
use engine_core::machine::RunStatus;
use engine_core::plan::CompiledPlan;
use engine_core::port::store::{CreateRequest, ReadRequest};
use engine_core::port::{
    Clock, Engine, HandlerOutput, HandlerResult, SignalRequest, StartRequest, StateStore, StepContext,
    StepHandler, Timekeeper,
};
use engine_core::signal::{Command, Signal};
use engine_core::{RunId, SignalId, TenantId, Timestamp};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use worker::{Handlers, Worker};

/// How long a test waits for what must happen, in real time.
const SOON: Duration = Duration::from_secs(60);

/// What handlers did, and gates that they wait at.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    entered: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Stage {
    fn enter(&self, context: &StepContext) {
        let line =
            format!("{}#{}.{}", context.step_id, context.logical_attempt_id, context.engine_attempt_id);
        self.entered.lock().unwrap().push(line);
        self.count.send_modify(|count| *count += 1);
    }

    /// What was entered so far, in order: `step#attempt.try`.
    pub(crate) fn entered(&self) -> Vec<String> {
        self.entered.lock().unwrap().clone()
    }

    /// Waits until so many handlers were entered.
    pub(crate) async fn entered_at_least(&self, count: usize) {
        let mut seen = self.count.subscribe();
        tokio::time::timeout(SOON, seen.wait_for(|seen| *seen >= count))
            .await
            .expect("entered in time")
            .unwrap();
    }

    fn gate(&self, name: &str) -> Arc<Semaphore> {
        Arc::clone(
            self.gates.lock().unwrap().entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))),
        )
    }

    /// Lets one handler through a gate, now or when it comes.
    pub(crate) fn open(&self, gate: &str) {
        self.gate(gate).add_permits(1);
    }
}

/// Does what its input says: `{fail: class, times: n}`, `{gate: name}`, `{sleep: ms}`, `{deaf: ms}`; gives its input.
struct Scripted {
    stage: Arc<Stage>,
    time: VirtualTime,
}

#[async_trait]
impl StepHandler for Scripted {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        self.stage.enter(&context);
        if let Some(gate) = input["gate"].as_str() {
            let gate = self.stage.gate(gate);
            tokio::select! {
                permit = gate.acquire() => permit.unwrap().forget(),
                () = context.cancellation.cancelled() => {
                    return Err(StepError::new(FailureClass::Cancelled, "CANCELLED", "it was asked to stop"));
                }
            }
        }
        for (field, hears) in [("sleep", true), ("deaf", false)] {
            let Some(ms) = input[field].as_u64() else { continue };
            let until = self.time.now().plus_millis(ms);
            tokio::select! {
                () = self.time.sleep_until(until) => {}
                () = context.cancellation.cancelled(), if hears => {
                    return Err(StepError::new(FailureClass::Cancelled, "CANCELLED", "it was asked to stop"));
                }
            }
        }
        let times = input["times"].as_u64().unwrap_or(u64::MAX);
        if let Some(class) = input["fail"].as_str()
            && u64::from(context.engine_attempt_id) <= times
        {
            let class = if class == "permanent" { FailureClass::Permanent } else { FailureClass::Transient };
            return Err(StepError::new(class, "Scripted", "as the plan says"));
        }
        Ok(HandlerOutput::from(input))
    }
}

/// A store with an engine on it.
pub(crate) struct World {
    pub(crate) time: VirtualTime,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) stage: Arc<Stage>,
    pub(crate) engine: InProcess,
    pub(crate) tenant_id: TenantId,
}

/// Which store.
pub(crate) enum On {
    Memory,
    Sqlite(tempfile::TempDir),
}

impl World {
    pub(crate) async fn new(on: &On) -> Self {
        Self::with_faults(on, None).await
    }

    pub(crate) async fn with_faults(on: &On, faults: Option<Arc<dyn Faults>>) -> Self {
        let time = VirtualTime::starting_at(Timestamp::from_millis(1_700_000_000_000));
        let url = match on {
            On::Memory => "memory:".to_owned(),
            On::Sqlite(folder) => format!("sqlite://{}/log.db?durability=normal", folder.path().display()),
        };
        let options =
            statestore::Options { clock: Some(Arc::new(time.clone())), ..statestore::Options::default() };
        let store = statestore::open(&url, options).await.expect("a store");
        let stage = Arc::new(Stage::default());
        let options = Options { faults, ..Options::default() };
        let engine = open_engine(&store, &stage, &time, options).await;
        let tenant_id = TenantId::new("acme").unwrap();
        Self { time, store, stage, engine, tenant_id }
    }

    /// Another engine on the same store, as another process would have.
    pub(crate) async fn another_engine(&self) -> InProcess {
        self.engine_that_recovers(Recover::All).await
    }

    pub(crate) async fn engine_that_recovers(&self, recover: Recover) -> InProcess {
        let options = Options { recover, ..Options::default() };
        open_engine(&self.store, &self.stage, &self.time, options).await
    }

    pub(crate) async fn create(&self, plan: &str, input: Value) -> RunId {
        let plan = CompiledPlan::read(plan).expect("a plan");
        let document = canonical_json(&serde_json::to_value(plan.document()).unwrap());
        self.store.put_plan(&self.tenant_id, plan.hash(), &document).await.expect("kept");
        let request = uuid::Uuid::new_v4().to_string();
        self.store
            .create(queued(&self.tenant_id, &plan, input, &request, &self.engine))
            .await
            .expect("a run")
            .run_id
    }

    /// Starts a run of a plan that the store does not have.
    pub(crate) async fn start_without_its_plan(&self, plan: &str) -> RunId {
        let plan = CompiledPlan::read(plan).expect("a plan");
        let request = queued(&self.tenant_id, &plan, json!({}), "lost", &self.engine);
        let run_id = self.store.create(request).await.expect("a run").run_id;
        let request = StartRequest { tenant_id: self.tenant_id.clone(), run_id: run_id.clone(), fresh: None };
        self.engine.start(request).await.expect("started");
        run_id
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, millis: u64) {
        let passed = self.time.alarm(self.time.now().plus_millis(millis));
        tokio::time::timeout(SOON, passed).await.expect("time passes when all wait");
    }

    /// Waits until the engine drives nothing.
    pub(crate) async fn put_aside(&self) {
        self.put_aside_by(&self.engine).await;
    }

    pub(crate) async fn put_aside_by(&self, engine: &InProcess) {
        let aside = async {
            while engine.driving() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, aside).await.expect("put aside in time");
    }

    pub(crate) async fn start(&self, plan: &str) -> RunId {
        let run_id = self.create(plan, json!({})).await;
        self.start_by(&self.engine, &run_id).await;
        run_id
    }

    /// Has a run driven that there is.
    pub(crate) async fn start_by(&self, engine: &InProcess, run_id: &RunId) {
        let request = StartRequest { tenant_id: self.tenant_id.clone(), run_id: run_id.clone(), fresh: None };
        engine.start(request).await.expect("started");
    }

    pub(crate) async fn signal(&self, run_id: &RunId, id: &str, command: Command) {
        self.signal_by(&self.engine, run_id, id, command).await;
    }

    pub(crate) async fn signal_by(&self, engine: &InProcess, run_id: &RunId, id: &str, command: Command) {
        let signal = signal(id, command);
        let request = SignalRequest { tenant_id: self.tenant_id.clone(), run_id: run_id.clone(), signal };
        engine.signal(request).await.expect("delivered");
    }

    /// Leaves a signal in the store, as a process without an engine does.
    pub(crate) async fn submit(&self, run_id: &RunId, id: &str, command: Command) {
        self.store.submit(&self.tenant_id, run_id, signal(id, command)).await.expect("kept");
    }

    /// Follows a log until an event is met.
    pub(crate) async fn until(&self, run_id: &RunId, what: &str, met: impl Fn(&Event) -> bool) -> Event {
        let request =
            ReadRequest { tenant_id: self.tenant_id.clone(), run_id: run_id.clone(), after: 0, limit: 1000 };
        let mut events = self.store.tail(request);
        let found = async {
            loop {
                let event = events.next().await.expect("a tail has no end").expect("readable");
                if met(&event) {
                    return event;
                }
            }
        };
        match tokio::time::timeout(SOON, found).await {
            Ok(event) => event,
            Err(_) => panic!("{what} did not come; the log is {:#?}", self.log(run_id).await),
        }
    }

    pub(crate) async fn ended(&self, run_id: &RunId) -> RunStatus {
        let ends = |event: &Event| {
            matches!(event.body, Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_))
        };
        match self.until(run_id, "the end", ends).await.body {
            Body::RunCompleted(_) => RunStatus::Completed,
            Body::RunFailed(_) => RunStatus::Failed,
            _ => RunStatus::Cancelled,
        }
    }

    pub(crate) async fn events(&self, run_id: &RunId) -> Vec<Event> {
        let request = ReadRequest {
            tenant_id: self.tenant_id.clone(),
            run_id: run_id.clone(),
            after: 0,
            limit: 10_000,
        };
        self.store.read(request).await.expect("a log")
    }

    /// The log as lines: `Type` or `Type step#attempt`.
    pub(crate) async fn log(&self, run_id: &RunId) -> Vec<String> {
        let line = |event: &Event| match &event.subject {
            Some(subject) => format!("{} {}#{}", event.body.type_name(), subject.step, subject.attempt),
            None => event.body.type_name().to_owned(),
        };
        self.events(run_id).await.iter().map(line).collect()
    }
}

fn signal(id: &str, command: Command) -> Signal {
    Signal { signal_id: SignalId::new(id).unwrap(), actor: "ada".into(), reason: None, command }
}

async fn open_engine(
    store: &Arc<dyn StateStore>,
    stage: &Arc<Stage>,
    time: &VirtualTime,
    options: Options,
) -> InProcess {
    let mut handlers = Handlers::new();
    handlers.register("do", Scripted { stage: Arc::clone(stage), time: time.clone() }).unwrap();
    let worker = Worker::builder(Arc::clone(store), handlers)
        .name("worker")
        .time(Arc::new(time.clone()))
        .build()
        .expect("a worker");
    let options = Options { virtual_time: Some(time.clone()), ..options };
    InProcess::open(worker, options).await.expect("an engine")
}

fn queued(
    tenant_id: &TenantId,
    plan: &CompiledPlan,
    input: Value,
    request: &str,
    engine: &InProcess,
) -> CreateRequest {
    let context = RunContext {
        tenant_id: tenant_id.clone(),
        project_id: "tests".into(),
        environment_id: "tests".into(),
        triggered_by: Some("grace".into()),
        trigger_source: None,
    };
    let queued = RunQueued {
        input: input.into(),
        capabilities: engine.capabilities().frozen(),
        ..RunQueued::of(plan, context, request)
    };
    CreateRequest { queued, correlation_id: "test".into(), emitted_by: "test".into(), lease: None }
}
