//! A store that does not write in time (BUDGET-2 to BUDGET-6).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine_core::event::Body;
use serde_json::json;
use worker::{Delivery, Standing};

use crate::data::echo;
use crate::support::late::LateStore;
use crate::support::{World, step, tenant};

fn world() -> (World, Arc<LateStore>) {
    let World { store, time, .. } = World::memory();
    let late = Arc::new(LateStore::new(store));
    (World::on(late.clone(), time), late)
}

#[tokio::test]
async fn a_late_step_started_does_not_stop_the_handler_and_goes_before_its_end() {
    let (world, late) = world();
    let worker = world.worker(echo());
    let run = world.start(json!([{"id": "a", "handler": "echo", "with": 1}]), json!(null)).await;
    late.late_starts.store(1, Ordering::SeqCst);
    let delivery = Delivery::new(tenant(), run.clone(), step("a"), 1);
    let outcome = worker.attempt(delivery).await.unwrap();
    assert_eq!(outcome.standing, Standing::Ended);
    assert_eq!(world.types(&run, "a").await, ["StepStarted", "StepCompleted"]);
    assert!(outcome.events[0].occurred_at.is_some(), "it says since when it is true");
    assert_eq!(late.late_starts.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_late_end_is_written_again_until_it_is_there_and_the_step_does_not_fail() {
    let (world, late) = world();
    let worker = world.worker(echo());
    let run = world.start(json!([{"id": "a", "handler": "echo", "with": 1}]), json!(null)).await;
    late.late_ends.store(3, Ordering::SeqCst);
    let delivery = Delivery::new(tenant(), run.clone(), step("a"), 1);
    let running = tokio::spawn(async move { worker.attempt(delivery).await });
    for pause_ms in [100, 200, 400] {
        world.time.until_awaited(pause_ms).await;
        assert_eq!(world.types(&run, "a").await, ["StepStarted"]);
        world.time.advance(pause_ms);
    }
    let outcome = running.await.unwrap().unwrap();
    assert_eq!(outcome.standing, Standing::Ended);
    assert!(matches!(outcome.events[1].body, Body::StepCompleted(_)));
    assert_eq!(world.types(&run, "a").await, ["StepStarted", "StepCompleted"]);
}

#[tokio::test]
async fn a_store_that_never_answers_is_waited_for_no_longer_than_the_budget() {
    let (world, late) = world();
    let worker = world.worker(echo());
    let run = world.start(json!([{"id": "a", "handler": "echo", "with": 1}]), json!(null)).await;
    late.hanging_ends.store(1, Ordering::SeqCst);
    let delivery = Delivery::new(tenant(), run.clone(), step("a"), 1);
    let running = tokio::spawn(async move { worker.attempt(delivery).await });
    world.time.until_awaited(3000).await;
    world.time.advance(3000);
    world.time.until_awaited(100).await;
    world.time.advance(100);
    assert_eq!(running.await.unwrap().unwrap().standing, Standing::Ended);
    assert_eq!(world.types(&run, "a").await, ["StepStarted", "StepCompleted"]);
}
