//! What one step costs a worker, without the store: condition, input, token, call, output.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use engine_core::decider::{Dispatched, Report, Stimulus};
use engine_core::event::run::{RunContext, RunQueued, RunStarted};
use engine_core::event::{Draft, Seal};
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::StepObserver;
use engine_core::{Error, Result, RunId, TenantId, Timestamp};
use serde_json::{Value, json};
use statestore::{MemoryStore, Options};
use tokio_util::sync::CancellationToken;
use worker::{Call, Handlers, History, PlanCode, Prepared, Worker};

#[derive(Debug)]
struct Nobody;

impl StepObserver for Nobody {
    fn progress(&self, _: f64) {}
    fn review(&self, _: &str, _: BTreeMap<String, Value>) {}
    fn log(&self, _: &str) {}
}

fn event(history: &mut History, run_seq: &mut u64, draft: Draft) {
    *run_seq += 1;
    let event = draft.seal(Seal {
        event_id: uuid::Uuid::nil(),
        run_id: &history.run_id().clone(),
        run_seq: *run_seq,
        emitted_at: Timestamp::from_millis(0),
        emitted_by: &Arc::from("bench"),
        correlation_id: &Arc::from("bench"),
        plan_version: &history.code().plan.document().version.clone(),
    });
    history.evolve(&event);
}

/// A run of `a` and `b`, in which `a` has left something.
fn history() -> Result<History> {
    let plan = json!({"id": "p", "version": "1", "mode": "graph", "steps": [
        {"id": "a", "handler": "echo", "with": {"rows": [1, 2, 3], "name": "orders"}},
        {"id": "b", "handler": "echo", "dependsOn": ["a"], "with": {"rows": "${ steps.a.output.rows }"}},
        {"id": "c", "handler": "echo", "with": {"n": 1}},
    ]});
    let plan: Plan = serde_json::from_value(plan)
        .map_err(|cause| Error::new(engine_core::Code::Internal, cause.to_string()))?;
    let plan = Arc::new(CompiledPlan::new(plan)?);
    let context = RunContext {
        tenant_id: TenantId::new("t")?,
        project_id: "p".into(),
        environment_id: "e".into(),
        triggered_by: None,
        trigger_source: None,
    };
    let queued = RunQueued {
        input: json!({"day": "2026-02-11"}).into(),
        ..RunQueued::of(&plan, context.clone(), "request")
    };
    let plan_ref = queued.plan_ref.clone();
    let mut history =
        History::new(TenantId::new("t")?, RunId::new("r")?, Arc::new(PlanCode::new(plan.clone())?));
    let mut run_seq = 0;
    event(&mut history, &mut run_seq, Draft::run(queued));
    for draft in history.run().settle() {
        event(&mut history, &mut run_seq, draft);
    }
    let started = RunStarted {
        engine_run_ref: "r".into(),
        engine_type: "mock".into(),
        interpreter_version: None,
        plan_ref,
        context,
        started_at: Timestamp::from_millis(0),
    };
    for draft in history.run().decide(Stimulus::Started(Box::new(started)))? {
        event(&mut history, &mut run_seq, draft);
    }
    Ok(history)
}

/// Everything here is ready at the first poll; whatever is not would be the news.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a step without I/O had to wait"),
    }
}

fn step(worker: &Worker, history: &History, task: &Dispatched) -> Result<Report> {
    match at_once(worker.prepare(history, task))? {
        Prepared::Decided(report) => Ok(report),
        Prepared::Ready(ready) => {
            let observer = Arc::new(Nobody);
            let call = Call { engine_attempt: 1, cancellation: CancellationToken::new(), observer };
            Ok(at_once(worker.execute(ready, call)))
        }
    }
}

fn steps(criterion: &mut Criterion) -> Result<()> {
    let mut handlers = Handlers::new();
    handlers.register_fn("echo", |_, input: Value| async { Ok(input) })?;
    let worker = Worker::builder(Arc::new(MemoryStore::new(Options::default())), handlers).build()?;
    let mut history = history()?;
    let tasks = history.run().actions().dispatch;
    let find = |tasks: &[Dispatched], id: &str| {
        tasks
            .iter()
            .find(|task| task.attempt.step.as_str() == id)
            .cloned()
            .unwrap_or_else(|| panic!("no step {id}"))
    };
    let (first, fixed) = (find(&tasks, "a"), find(&tasks, "c"));
    let mut run_seq = history.run().state().folded_through();
    let started = match at_once(worker.prepare(&history, &first))? {
        Prepared::Ready(ready) => Report::Started(ready.started().clone()),
        Prepared::Decided(report) => report,
    };
    let done = step(&worker, &history, &first)?;
    for report in [started, done] {
        for draft in history.run().decide(Stimulus::step(first.attempt.step.clone(), 1, report))? {
            event(&mut history, &mut run_seq, draft);
        }
    }
    let reading = find(&history.run().actions().dispatch, "b");
    let mut group = criterion.benchmark_group("one step");
    group.bench_function("fixed input", |bencher| bencher.iter(|| step(&worker, &history, &fixed).is_ok()));
    group.bench_function("input from another step", |bencher| {
        bencher.iter(|| step(&worker, &history, &reading).is_ok());
    });
    group.finish();
    Ok(())
}

fn all(criterion: &mut Criterion) {
    if let Err(error) = steps(criterion) {
        panic!("{error}");
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
