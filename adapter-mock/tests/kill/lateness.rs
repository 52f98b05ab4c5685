//! The campaign rests on handlers noticing that they are late. Here one is late on purpose: somebody calls it who has not
//! read the end of its attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::event::{Event, Slot};
use engine_core::port::{StateStore, StepObserver};
use serde_json::Value;
use statestore::MemoryStore;
use tokio_util::sync::CancellationToken;
use worker::{Call, History, Prepared, Worker};

use super::diary::{Diary, Moment};
use super::errand::engine;
use super::operator::Operator;
use super::patience::{LIMIT, runtime};
use super::runs::{log, start, tenant};
use super::script::handlers;

pub(crate) fn is_noticed() {
    let folder = tempfile::TempDir::new().expect("a directory");
    let diary = folder.path().join("diary");
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new(statestore::Options::default()));
    runtime().block_on(async {
        let engine = engine(&store, &diary, 1).await;
        let run_id = start(&*store, &engine, "fan", 1).await;
        let mut operator = Operator::new(Arc::clone(&store), false);
        let ended = async {
            while !operator.round().await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, ended).await.expect("the run ends");
        engine.shutdown().await;
        let events = log(&*store, &run_id, 0).await.expect("the log can be read");
        call_after_the_end(&store, &diary, &events).await;
    });
    let late: Vec<String> = Diary::read(&diary)
        .into_iter()
        .filter(|(moment, _)| *moment == Moment::Late)
        .map(|(_, call)| format!("{} {}", call.step, call.generation))
        .collect();
    assert_eq!(late, ["a 2"], "only who was called after the end is late");
}

/// Calls the handler of the first attempt again, by a view of the run from before its end.
async fn call_after_the_end(store: &Arc<dyn StateStore>, diary: &std::path::Path, events: &[Event]) {
    let handlers = handlers(store, Diary::open(diary, 2));
    let worker = Worker::builder(Arc::clone(store), handlers).build().expect("a worker");
    let run_id = &events[0].run_id;
    let whole = History::load(&**store, worker.plans(), &tenant(), run_id).await.expect("a history");
    let mut stale = History::new(tenant(), run_id.clone(), Arc::clone(whole.code()));
    let is_end = |event: &&Event| Slot::of(event.subject.as_ref(), &event.body).is_some();
    for event in events.iter().take_while(|event| !is_end(event)) {
        stale.evolve(event);
    }
    let task = stale.run().actions().dispatch.remove(0);
    let Ok(Prepared::Ready(ready)) = worker.prepare(&stale, &task).await else { panic!("not ready") };
    let call = Call { engine_attempt: 2, cancellation: CancellationToken::new(), observer: Arc::new(Nobody) };
    worker.execute(ready, call).await;
}

#[derive(Debug)]
struct Nobody;

impl StepObserver for Nobody {
    fn progress(&self, _: f64) {}
    fn review(&self, _: &str, _: BTreeMap<String, Value>) {}
    fn log(&self, _: &str) {}
}
