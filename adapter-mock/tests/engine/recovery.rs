//! Which runs an engine takes that nobody drives.

use adapter_mock::Recover;
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::signal::Command;
use serde_json::json;

use super::world::{On, World};

const ONE: &str = "{id: one, version: 1.0.0, steps: [{id: a, handler: do}]}";

const GATED: &str = "{id: gated, version: 1.0.0, steps: [{id: a, handler: do, with: {gate: own}}]}";

const APPROVED: &str = "{id: approved, version: 1.0.0, approval: required, steps: [{id: a, handler: do}]}";

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_recovers_only_what_it_is_asked_for_leaves_the_rest_alone() {
    let world = World::new(&On::Memory).await;
    world.engine.shutdown().await;
    let foreign = world.create(ONE, json!({})).await;
    let engine = world.engine_that_recovers(Recover::OnlyAsked).await;
    assert_eq!(engine.driving(), 0, "it takes nothing when it opens");
    let own = world.create(GATED, json!({})).await;
    world.start_by(&engine, &own).await;
    world.stage.entered_at_least(1).await;
    // Signals are heard one after the other: when the second is decided, the first was passed by.
    world.submit(&foreign, "s1", Command::Cancel).await;
    world.submit(&own, "s2", Command::Cancel).await;
    assert_eq!(world.ended(&own).await, RunStatus::Cancelled);
    assert_eq!(world.log(&foreign).await, ["RunQueued"]);
    world.start_by(&engine, &foreign).await;
    assert_eq!(world.ended(&foreign).await, RunStatus::Cancelled, "it was asked for now");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_alone_is_recovered_by_an_engine_that_takes_everything() {
    let world = World::new(&On::Memory).await;
    world.engine.shutdown().await;
    let foreign = world.create(ONE, json!({})).await;
    let modest = world.engine_that_recovers(Recover::OnlyAsked).await;
    assert_eq!(modest.driving(), 0);
    let _greedy = world.another_engine().await;
    assert_eq!(world.ended(&foreign).await, RunStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_asked_for_hears_signals_of_others_while_it_waits() {
    let world = World::new(&On::Memory).await;
    world.engine.shutdown().await;
    let engine = world.engine_that_recovers(Recover::OnlyAsked).await;
    let run = world.create(APPROVED, json!({})).await;
    world.start_by(&engine, &run).await;
    world.put_aside_by(&engine).await;
    assert_eq!(world.log(&run).await, ["RunQueued"]);
    world.submit(&run, "s1", Command::Approve).await;
    world.until(&run, "the approval", |event| matches!(event.body, Body::RunApproved(_))).await;
    assert_eq!(world.ended(&run).await, RunStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_runs_than_are_looked_at_in_one_go_are_all_recovered() {
    let world = World::new(&On::Memory).await;
    world.engine.shutdown().await;
    let mut runs = Vec::new();
    for _ in 0..1200 {
        runs.push(world.create(ONE, json!({})).await);
    }
    let _engine = world.another_engine().await;
    for run in &runs {
        assert_eq!(world.ended(run).await, RunStatus::Completed);
    }
}
