//! What somebody does with Temporal's own tools ends up in the log.

use std::time::Duration;

use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use temporalio_client::{WorkflowCancelOptions, WorkflowTerminateOptions};

use crate::place::Place;

const PLAN: &str = "
id: lost
version: 1.0.0
failure: {compensateOnCancel: true}
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {}}}
  - {id: b, handler: script, with: {gate: b}}
";

async fn lost(name: &str) -> (Place, conformance::TestRun) {
    let place = Place::open(name, |options| adapter_temporal::Options {
        reconcile: Duration::from_millis(500),
        ..options
    })
    .await;
    let run = place.world.start(PLAN).await.unwrap();
    place.world.at_gate("b", 1).await.unwrap();
    (place, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_was_cancelled_in_temporal_cancels_its_run() {
    let (place, run) = lost("cancelled").await;
    place.workflow(&run).cancel(WorkflowCancelOptions::builder().reason("tidying up").build()).await.unwrap();
    run.ends(RunStatus::Cancelled).await.unwrap();
    let accepted = run.event(EventType::SignalAccepted).await.unwrap();
    assert_eq!(accepted["actor"], "temporal");
    assert_eq!(accepted["reason"], "tidying up");
    assert_eq!(run.count(EventType::CompensationCompleted).await.unwrap(), 1, "{:?}", run.lines().await);
    place.world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_was_terminated_in_temporal_cancels_its_run_and_undoes_it() {
    let (place, run) = lost("terminated").await;
    place
        .workflow(&run)
        .terminate(WorkflowTerminateOptions::builder().reason("enough").build())
        .await
        .unwrap();
    run.ends(RunStatus::Cancelled).await.unwrap();
    let accepted = run.event(EventType::SignalAccepted).await.unwrap();
    assert_eq!(accepted["reason"], "its workflow was terminated in Temporal");
    assert_eq!(run.count(EventType::CompensationCompleted).await.unwrap(), 1, "{:?}", run.lines().await);
    place.world.close().await;
}
