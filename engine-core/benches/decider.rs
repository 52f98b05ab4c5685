//! How fast a run is decided: every event of it is decided, folded and settled.
//!
//! Goal: at least 500,000 events a second on one core, and at 10,000 steps at most three times the cost per event
//! at 10 steps. The number after a benchmark's name is the number of steps; throughput counts events.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine_core::decider::{Report, Run, Stimulus};
use engine_core::event::run::{RunContext, RunQueued, RunStarted};
use engine_core::event::step::{StepCompleted, StepStarted};
use engine_core::event::{Draft, Event, IdempotencyKey, Seal};
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::{PlanVersion, RunId, TenantId, Timestamp};
use serde_json::{Value, json};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// A plan in layers of ten: each step needs two steps of the layer before.
fn layered(size: usize) -> Arc<CompiledPlan> {
    let steps: Vec<Value> = (0..size)
        .map(|number| {
            let (layer, place) = (number / 10, number % 10);
            let earlier = |place: usize| format!("step-{}", (layer - 1) * 10 + place % 10);
            let depends_on = if layer == 0 { vec![] } else { vec![earlier(place), earlier(place + 1)] };
            json!({"id": format!("step-{number}"), "handler": "noop", "dependsOn": depends_on})
        })
        .collect();
    compile(&steps)
}

/// A plan that fans out from one step and joins in one.
fn fan(size: usize) -> Arc<CompiledPlan> {
    let mut steps = vec![json!({"id": "first", "handler": "noop"})];
    let middle: Vec<String> = (0..size - 2).map(|number| format!("step-{number}")).collect();
    steps.extend(middle.iter().map(|id| json!({"id": id, "handler": "noop", "dependsOn": ["first"]})));
    steps.push(json!({"id": "last", "handler": "noop", "dependsOn": middle}));
    compile(&steps)
}

fn compile(steps: &[Value]) -> Arc<CompiledPlan> {
    let plan: Plan =
        serde_json::from_value(json!({"id": "bench", "version": "1.0.0", "mode": "graph", "steps": steps}))
            .unwrap();
    Arc::new(CompiledPlan::new(plan).unwrap())
}

/// The store's part, without a store: a place in the log, and no key.
struct Sealer {
    run_id: RunId,
    text: Arc<str>,
    version: PlanVersion,
    key: IdempotencyKey,
    seq: u64,
}

impl Sealer {
    fn new() -> Self {
        Self {
            run_id: RunId::new("0198a0b0-0000-7000-8000-000000000000").unwrap(),
            text: "bench".into(),
            version: PlanVersion::new("1.0.0").unwrap(),
            key: "0".repeat(64).parse().unwrap(),
            seq: 0,
        }
    }

    fn seal(&mut self, draft: Draft) -> Event {
        self.seq += 1;
        Event {
            event_id: uuid::Uuid::nil(),
            schema_version: self.text.clone(),
            run_id: self.run_id.clone(),
            run_seq: self.seq,
            idempotency_key: self.key,
            emitted_at: Timestamp::from_millis(1_000),
            emitted_by: self.text.clone(),
            occurred_at: None,
            correlation_id: self.text.clone(),
            plan_version: self.version.clone(),
            subject: draft.subject,
            body: draft.body,
        }
    }
}

fn queued(plan: &CompiledPlan) -> RunQueued {
    let context = RunContext {
        tenant_id: TenantId::new("acme").unwrap(),
        project_id: "bench".into(),
        environment_id: "bench".into(),
        triggered_by: None,
        trigger_source: None,
    };
    RunQueued::of(plan, context, "request")
}

/// A run that has started.
fn started(plan: &Arc<CompiledPlan>) -> (Run, Sealer) {
    let mut run = Run::new(plan.clone());
    let mut sealer = Sealer::new();
    let request = queued(plan);
    let start = RunStarted {
        engine_run_ref: "bench".into(),
        engine_type: "mock".into(),
        interpreter_version: None,
        plan_ref: request.plan_ref.clone(),
        context: request.context.clone(),
        started_at: Timestamp::from_millis(0),
    };
    tell(&mut run, &mut sealer, Stimulus::Queue(Box::new(request)), &mut Vec::new());
    tell(&mut run, &mut sealer, Stimulus::Started(Box::new(start)), &mut Vec::new());
    (run, sealer)
}

fn tell(run: &mut Run, sealer: &mut Sealer, stimulus: Stimulus, log: &mut Vec<Event>) {
    let mut drafts = run.decide(stimulus).unwrap();
    while !drafts.is_empty() {
        for draft in drafts {
            let event = sealer.seal(draft);
            run.evolve(&event);
            log.push(event);
        }
        drafts = run.settle();
    }
}

/// Decides, folds and settles a started run to its end; asks for actions once a step, as a driver does.
fn drive(run: &mut Run, sealer: &mut Sealer) -> Vec<Event> {
    let mut log = Vec::with_capacity(2 * run.plan().len() + 1);
    loop {
        let actions = run.actions();
        if actions.finish.is_some() {
            return log;
        }
        for dispatched in actions.dispatch {
            let (step, attempt) = (dispatched.attempt.step, dispatched.attempt.attempt);
            let started = StepStarted {
                handler: dispatched.handler,
                agent: None,
                worker: String::from("bench"),
                claim_until: None,
                idempotency_token: None,
            };
            tell(run, sealer, Stimulus::step(step.clone(), attempt, Report::Started(started)), &mut log);
            let done = Report::Completed(StepCompleted::default());
            tell(run, sealer, Stimulus::step(step, attempt, done), &mut log);
        }
    }
}

fn events_of(plan: &Arc<CompiledPlan>) -> u64 {
    let (mut run, mut sealer) = started(plan);
    drive(&mut run, &mut sealer).len() as u64
}

fn decided_and_folded(criterion: &mut Criterion) {
    for (shape, make) in [("layers", layered as fn(usize) -> Arc<CompiledPlan>), ("fan", fan)] {
        let mut group = criterion.benchmark_group(format!("decided and folded, {shape}"));
        for size in SIZES {
            let plan = make(size);
            group.throughput(Throughput::Elements(events_of(&plan)));
            group.bench_with_input(BenchmarkId::from_parameter(size), &plan, |bencher, plan| {
                bencher.iter_batched(
                    || started(plan),
                    |(mut run, mut sealer)| drive(&mut run, &mut sealer),
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

fn folded_from_the_log(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("folded from the log, layers");
    for size in SIZES {
        let plan = layered(size);
        let (run, mut sealer) = started(&plan);
        let log = drive(&mut run.clone(), &mut sealer);
        group.throughput(Throughput::Elements(log.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &log, |bencher, log| {
            bencher.iter_batched(
                || run.clone(),
                |mut run| {
                    for event in log {
                        run.evolve(event);
                    }
                    run
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn sealed(criterion: &mut Criterion) {
    let plan = layered(10);
    let (mut run, mut sealer) = started(&plan);
    let log = drive(&mut run, &mut sealer);
    let draft = Draft { subject: log[0].subject.clone(), occurred_at: None, body: log[0].body.clone() };
    let (run_id, text, version) = (sealer.run_id, sealer.text, sealer.version);
    let mut group = criterion.benchmark_group("sealed with its key");
    group.throughput(Throughput::Elements(1));
    group.bench_function("1", |bencher| {
        bencher.iter_batched(
            || draft.clone(),
            |draft| {
                black_box(draft.seal(Seal {
                    event_id: uuid::Uuid::nil(),
                    run_id: &run_id,
                    run_seq: 1,
                    emitted_at: Timestamp::from_millis(0),
                    emitted_by: &text,
                    correlation_id: &text,
                    plan_version: &version,
                }))
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, decided_and_folded, folded_from_the_log, sealed);
criterion_main!(benches);
