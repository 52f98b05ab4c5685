//! Steps that the driver's worker runs itself.

use std::time::{Duration, Instant};

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;

use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_local_step_leaves_the_same_events_and_asks_no_queue() {
    let place = Place::open("local", |options| options).await;
    let plan = "
id: local
version: 1.0.0
dispatch: local
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10}, with: {fail: {class: transient, times: 1}}}
  - {id: b, handler: script}
";
    let run = place.world.start(plan).await.unwrap();
    run.ends(RunStatus::Completed).await.unwrap();
    assert_eq!(place.world.entries(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(run.count(EventType::StepStarted).await.unwrap(), 2);
    assert_eq!(run.count(EventType::StepRetried).await.unwrap(), 1);
    assert!(!place.history(&run).await.contains("ACTIVITY_TASK_SCHEDULED"));
    place.world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_let_in_while_a_local_step_runs_and_before_the_next() {
    let place = Place::open("let_in", |options| options).await;
    let plan = "
id: let-in
version: 1.0.0
dispatch: local
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script}
";
    let run = place.world.start(plan).await.unwrap();
    place.world.at_gate("a", 1).await.unwrap();
    let asked = Instant::now();
    run.accept(Ask::pause()).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(4), "decided after {:?}", asked.elapsed());
    place.world.open_gate("a");
    run.until(EventType::RunDrained).await.unwrap();
    assert_eq!(place.world.visits_of("b").len(), 0);
    run.accept(Ask::resume()).await.unwrap();
    run.ends(RunStatus::Completed).await.unwrap();
    place.world.close().await;
}
