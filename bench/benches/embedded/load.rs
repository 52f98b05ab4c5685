//! The engine on a store, and the runs that it is given.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use adapter_mock::{InProcess, Options};
use async_trait::async_trait;
use engine_core::RunId;
use engine_core::event::Body;
use engine_core::plan::CompiledPlan;
use engine_core::port::store::{Created, ReadRequest};
use engine_core::port::{
    Engine, HandlerOutput, HandlerResult, StartRequest, StateStore, StepContext, StepHandler,
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use worker::{Handlers, Worker};

use crate::place::{PATIENT, Place, keep_plan, queued, tenant};

/// What kind of runs, and how many at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Ten steps in a row.
    W1 { at_once: usize },
    /// A hundred steps at once and a join.
    W2 { at_once: usize },
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::W1 { at_once } => write!(formatter, "W1 {at_once} at once"),
            Self::W2 { at_once } => write!(formatter, "W2 {at_once} at once"),
        }
    }
}

impl Shape {
    fn runs_at_once(self) -> usize {
        match self {
            Self::W1 { at_once } | Self::W2 { at_once } => at_once,
        }
    }

    pub(crate) fn steps_at_once(self) -> usize {
        match self {
            Self::W1 { at_once } => at_once,
            Self::W2 { at_once } => at_once * 100,
        }
    }

    fn steps_of_a_run(self) -> usize {
        match self {
            Self::W1 { .. } => 10,
            Self::W2 { .. } => 101,
        }
    }

    fn plan(self) -> String {
        let steps: Vec<Value> = match self {
            Self::W1 { .. } => {
                (0..10).map(|step| json!({"id": format!("s{step}"), "handler": "noop"})).collect()
            }
            Self::W2 { .. } => {
                let ids: Vec<String> = (0..100).map(|step| format!("s{step:02}")).collect();
                let mut steps: Vec<Value> =
                    ids.iter().map(|id| json!({"id": id, "handler": "noop"})).collect();
                steps.push(json!({"id": "join", "handler": "noop", "dependsOn": ids}));
                steps
            }
        };
        let plan =
            json!({"id": "bench", "version": "1.0.0", "limits": {"maxConcurrency": 100}, "steps": steps});
        plan.to_string()
    }
}

/// What a measurement gave.
pub(crate) struct Measured {
    pub(crate) steps: usize,
    pub(crate) seconds: f64,
    /// From the end of one handler to the begin of the next of its run, in microseconds; steps in a row only.
    pub(crate) gaps: Vec<f64>,
}

/// A handler that does nothing but note when.
struct Noop {
    notes: Arc<Mutex<Vec<(RunId, Instant)>>>,
    noting: bool,
}

#[async_trait]
impl StepHandler for Noop {
    async fn run(&self, context: StepContext, _: Value) -> HandlerResult {
        if self.noting {
            self.notes.lock().unwrap().push((context.run_id, Instant::now()));
        }
        Ok(HandlerOutput::from(json!({})))
    }
}

/// Runs about so many steps.
pub(crate) async fn run(place: &Place, shape: Shape, steps: usize) -> Measured {
    let store = place.open(&place.fresh_url()).await;
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noting = shape.steps_at_once() == 1;
    let mut handlers = Handlers::new();
    handlers.register("noop", Noop { notes: Arc::clone(&notes), noting }).unwrap();
    let worker =
        Worker::builder(Arc::clone(&store), handlers).name("bench").write_budget(PATIENT).build().unwrap();
    let engine = InProcess::open(worker, Options::default()).await.expect("an engine");
    let plan = CompiledPlan::read(&shape.plan()).expect("a plan");
    keep_plan(&*store, &plan).await;
    let plan = Arc::new(plan);
    let runs = (steps / shape.steps_of_a_run() / shape.runs_at_once()).max(1);
    let started = Instant::now();
    let lanes: Vec<_> = (0..shape.runs_at_once())
        .map(|_| {
            let lane = Lane {
                store: Arc::clone(&store),
                engine: engine.clone(),
                plan: Arc::clone(&plan),
                events: 4 + 2 * shape.steps_of_a_run() as u64,
            };
            tokio::spawn(async move {
                for _ in 0..runs {
                    lane.run().await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    engine.shutdown().await;
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    let gaps = notes
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0)
        .map(|pair| (pair[1].1 - pair[0].1).as_secs_f64() * 1e6)
        .collect();
    Measured { steps: runs * shape.runs_at_once() * shape.steps_of_a_run(), seconds, gaps }
}

/// One run after another.
struct Lane {
    store: Arc<dyn StateStore>,
    engine: InProcess,
    plan: Arc<CompiledPlan>,
    /// How many events a run has.
    events: u64,
}

impl Lane {
    async fn run(&self) {
        let Created { run_id, queued, .. } =
            self.store.create(queued(&self.plan, &self.engine)).await.expect("a run");
        let request = StartRequest { tenant_id: tenant(), run_id: run_id.clone(), fresh: queued };
        self.engine.start(request).await.expect("started");
        let request = ReadRequest { tenant_id: tenant(), run_id, after: self.events - 1, limit: 1 };
        let end = self.store.tail(request).next().await.expect("an end").expect("readable");
        assert!(matches!(end.body, Body::RunCompleted(_)), "{end:?}");
    }
}
