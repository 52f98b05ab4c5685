//! Many runs that wait for a person: what they cost while they wait, how long a process takes to come back to them, and
//! how soon a signal to one of them acts.
//!
//! Goals with ten thousand runs: at most 400 MB resident, recovery within 10 s, a signal acts within 100 ms.
//!
//! The runs are made in this process; a second engine on the same store, as after a restart, recovers them. Run with
//! `cargo xtask bench waiting`; the last line is the figures as JSON. Without arguments (`cargo test`) it runs once
//! with few runs.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../embedded/place.rs"]
mod place;

use std::sync::Arc;
use std::time::Instant;

use adapter_mock::{InProcess, Options};
use engine_core::event::{Body, Event};
use engine_core::machine::RunStatus;
use engine_core::plan::CompiledPlan;
use engine_core::port::store::{Created, ListRequest, ReadRequest};
use engine_core::port::{Engine, SignalRequest, StartRequest, StateStore};
use engine_core::signal::{Command, ManualCompletion, Signal};
use engine_core::{RunId, SignalId, StepId, TenantId};
use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};
use worker::{Handlers, Worker};

use place::{Place, keep_plan, queued, tenant};

/// As in the program `drivetrain`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PLAN: &str = "
id: waiting
version: 1.0.0
steps:
  - {id: ask, handler: noop, completion: manual}
  - {id: then, handler: noop}
";

/// Runs that are made at once.
const AT_ONCE: usize = 50;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let (runs, signals) = match (has("--bench"), has("--quick")) {
        (false, _) => (100, 5),
        (true, true) => (2_000, 50),
        (true, false) => (10_000, 200),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut figures = Map::new();
    for place in Place::all(folder.path()) {
        measure(&place, runs, signals, &mut figures).await;
    }
    let settings = json!({"quick": has("--quick"), "runs": runs, "signals": signals});
    println!("{}", json!({"bench": "waiting", "settings": settings, "figures": figures, "ratios": {}}));
}

async fn engine(store: &Arc<dyn StateStore>) -> InProcess {
    let mut handlers = Handlers::new();
    handlers.register_fn("noop", |_, input: Value| async move { Ok(input) }).unwrap();
    let worker = Worker::builder(Arc::clone(store), handlers).name("bench").build().unwrap();
    InProcess::open(worker, Options::default()).await.expect("an engine")
}

async fn measure(place: &Place, runs: usize, signals: usize, figures: &mut Map<String, Value>) {
    let url = place.fresh_url();
    let store = place.open(&url).await;
    let first = engine(&store).await;
    make(&store, &first, runs).await;
    first.shutdown().await;
    drop((first, store));

    let began = Instant::now();
    let store = place.open(&url).await;
    let second = engine(&store).await;
    let recovered = began.elapsed().as_secs_f64();
    let resident = resident_mb();

    let mut acted: Vec<f64> = Vec::with_capacity(signals);
    for run_id in some(&store, signals).await {
        acted.push(complete(&store, &second, &run_id).await);
    }
    acted.sort_by(f64::total_cmp);
    let at = |share: f64| acted[((acted.len() - 1) as f64 * share) as usize];
    for (name, value) in [
        ("resident, MB", resident),
        ("recovery, s", recovered),
        ("signal acts after, p50, ms", at(0.5)),
        ("signal acts after, p95, ms", at(0.95)),
        ("signal acts after, longest, ms", at(1.0)),
    ] {
        let name = format!("{}, {runs} runs wait, {name}", place.name);
        eprintln!("{name}: {value:.2}");
        figures.insert(name, json!((value * 100.0).round() / 100.0));
    }
    second.shutdown().await;
}

/// Makes runs and waits until each of them waits.
async fn make(store: &Arc<dyn StateStore>, engine: &InProcess, runs: usize) {
    let plan = Arc::new(CompiledPlan::read(PLAN).expect("a plan"));
    keep_plan(&**store, &plan).await;
    let lanes: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (store, engine, plan) = (Arc::clone(store), engine.clone(), Arc::clone(&plan));
            tokio::spawn(async move {
                for _ in 0..runs / AT_ONCE {
                    let Created { run_id, queued: fresh, .. } =
                        store.create(queued(&plan, &engine)).await.expect("a run");
                    let request = StartRequest { tenant_id: tenant(), run_id: run_id.clone(), fresh };
                    engine.start(request).await.expect("started");
                    until(&*store, &run_id, |event| matches!(event.body, Body::StepWaiting(_))).await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
}

/// Some of the runs, from all over the list.
async fn some(store: &Arc<dyn StateStore>, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    let mut after = None;
    loop {
        let request = ListRequest {
            tenant_id: tenant(),
            statuses: vec![RunStatus::Running],
            plan_id: None,
            from: None,
            until: None,
            after,
            limit: 1_000,
        };
        let page = store.list(request).await.expect("runs");
        runs.extend(page.runs.into_iter().map(|run| run.run_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let step = (runs.len() / count).max(1);
    runs.into_iter().step_by(step).take(count).collect()
}

/// Completes the step that waits; milliseconds until the log tells the decision.
async fn complete(store: &Arc<dyn StateStore>, engine: &InProcess, run_id: &RunId) -> f64 {
    let waiting = until(&**store, run_id, |event| matches!(event.body, Body::StepWaiting(_))).await;
    let Body::StepWaiting(waiting) = waiting.body else { unreachable!("it was looked for") };
    let completion: ManualCompletion = serde_json::from_value(json!({
        "completionToken": waiting.completion_token, "outcome": "Succeeded", "actorUserId": "ada",
        "completedAtIso": "2026-01-01T00:00:00Z"
    }))
    .unwrap();
    let command = Command::CompleteStep {
        step_id: StepId::new("ask").unwrap(),
        completion: Box::new(completion),
        output: None,
    };
    let signal =
        Signal { signal_id: SignalId::new("done").unwrap(), actor: "ada".into(), reason: None, command };
    let began = Instant::now();
    engine
        .signal(SignalRequest { tenant_id: tenant(), run_id: run_id.clone(), signal })
        .await
        .expect("delivered");
    until(&**store, run_id, |event| matches!(event.body, Body::SignalAccepted(_))).await;
    let millis = began.elapsed().as_secs_f64() * 1e3;
    until(&**store, run_id, |event| matches!(event.body, Body::RunCompleted(_))).await;
    millis
}

async fn until(store: &dyn StateStore, run_id: &RunId, met: impl Fn(&Event) -> bool) -> Event {
    let tenant_id: TenantId = tenant();
    let request = ReadRequest { tenant_id, run_id: run_id.clone(), after: 0, limit: 100 };
    let mut events = store.tail(request);
    loop {
        let event = events.next().await.expect("a tail has no end").expect("readable");
        if met(&event) {
            return event;
        }
    }
}

/// The memory that this process has at the moment.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0.0);
    kib * 1024.0 / 1e6
}
