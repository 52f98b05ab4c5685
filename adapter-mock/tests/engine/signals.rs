//! What people ask of a run, from this process or another.

use engine_core::StepId;
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::port::Clock as _;
use engine_core::signal::{Command, ManualCompletion, PauseMode};
use serde_json::json;

use super::world::{On, World};

const GATED: &str = "
id: gated
version: 1.0.0
steps:
  - {id: a, handler: do, with: {gate: a}}
  - {id: b, handler: do}
";

fn pause() -> Command {
    Command::Pause { mode: PauseMode::Drain }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_drains_and_a_resume_goes_on() {
    for on in [On::Memory, On::Sqlite(tempfile::tempdir().unwrap())] {
        let world = World::new(&on).await;
        let run = world.start(GATED).await;
        world.stage.entered_at_least(1).await;
        world.signal(&run, "p1", pause()).await;
        world.until(&run, "the pause", |event| matches!(event.body, Body::RunPaused(_))).await;
        world.stage.open("a");
        world.until(&run, "the drain", |event| matches!(event.body, Body::RunDrained(_))).await;
        assert_eq!(world.stage.entered(), ["a#1.1"]);
        world.signal(&run, "r1", Command::Resume).await;
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        assert_eq!(world.stage.entered(), ["a#1.1", "b#1.1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_from_another_process_is_decided_by_the_driver() {
    for on in [On::Memory, On::Sqlite(tempfile::tempdir().unwrap())] {
        let world = World::new(&on).await;
        let other = world.another_engine().await;
        let run = world.start(GATED).await;
        world.stage.entered_at_least(1).await;
        world.signal_by(&other, &run, "c1", Command::Cancel).await;
        assert_eq!(world.ended(&run).await, RunStatus::Cancelled);
        let log = world.log(&run).await;
        assert!(log.contains(&"StepCancelled a#1".to_owned()), "{log:?}");
        // One driver alone: nothing was decided twice, nothing lost.
        assert_eq!(log.iter().filter(|line| line.starts_with("SignalAccepted")).count(), 1);
        assert!(!log.iter().any(|line| line.starts_with("StepRetried")), "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_local_step_the_driver_looks_for_signals_of_itself() {
    let plan = "
id: row
version: 1.0.0
dispatch: local
steps:
  - {id: a, handler: do, with: {gate: a}}
  - {id: b, handler: do}
  - {id: c, handler: do}
";
    for on in [On::Memory, On::Sqlite(tempfile::tempdir().unwrap())] {
        let world = World::new(&on).await;
        let run = world.start(plan).await;
        world.stage.entered_at_least(1).await;
        // Left in the store, and nobody tells the driver before the step ends.
        world.submit(&run, "p1", pause()).await;
        world.stage.open("a");
        world.until(&run, "the drain", |event| matches!(event.body, Body::RunDrained(_))).await;
        // What the end of the first had released goes on; nothing behind it starts.
        let log = world.log(&run).await;
        assert!(!log.contains(&"StepStarted c#1".to_owned()), "{log:?}");
        world.signal(&run, "r1", Command::Resume).await;
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        assert_eq!(world.stage.entered(), ["a#1.1", "b#1.1", "c#1.1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_hear_is_cut_off_after_the_grace() {
    let plan = "
id: deaf
version: 1.0.0
steps:
  - {id: a, handler: do, timeoutMs: 86400000, with: {deaf: 80000000}}
";
    let world = World::new(&On::Memory).await;
    let began = world.time.now();
    let hold = world.time.hold();
    let run = world.start(plan).await;
    world.stage.entered_at_least(1).await;
    world.signal(&run, "c1", Command::Cancel).await;
    world.until(&run, "the decision", |event| matches!(event.body, Body::SignalAccepted(_))).await;
    drop(hold);
    assert_eq!(world.ended(&run).await, RunStatus::Cancelled);
    let events = world.events(&run).await;
    let cut_off = events.iter().find_map(|event| match &event.body {
        Body::StepCancelled(cancelled) => Some((cancelled.forced, event.emitted_at.millis_since(began))),
        _ => None,
    });
    assert_eq!(cut_off, Some((true, 5_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_hears_ends_at_once() {
    let world = World::new(&On::Memory).await;
    let began = world.time.now();
    let run = world.start(GATED).await;
    world.stage.entered_at_least(1).await;
    world.signal(&run, "c1", Command::Cancel).await;
    assert_eq!(world.ended(&run).await, RunStatus::Cancelled);
    let events = world.events(&run).await;
    let stopped = events.iter().find_map(|event| match &event.body {
        Body::StepCancelled(cancelled) => Some((cancelled.forced, event.emitted_at.millis_since(began))),
        _ => None,
    });
    assert_eq!(stopped, Some((false, 0)), "no time passes between the signal and the end of the handler");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_person_is_put_aside_until_the_person_calls() {
    let plan = "
id: manual
version: 1.0.0
steps:
  - {id: ask, handler: do, completion: manual, with: {question: 42}}
  - {id: then, handler: do, with: {answer: '${ steps.ask.output.answer }'}}
";
    for on in [On::Memory, On::Sqlite(tempfile::tempdir().unwrap())] {
        let world = World::new(&on).await;
        let run = world.start(plan).await;
        let waiting = world.until(&run, "the wait", |event| matches!(event.body, Body::StepWaiting(_))).await;
        let Body::StepWaiting(waiting) = waiting.body else { panic!() };
        world.put_aside().await;
        let other = world.another_engine().await;
        let completion: ManualCompletion = serde_json::from_value(json!({
            "schemaVersion": 1, "completionToken": waiting.completion_token, "outcome": "Succeeded",
            "actorUserId": "ada", "completedAtIso": "2026-01-01T00:00:00Z"
        }))
        .unwrap();
        let completion = Box::new(completion);
        let output = Some(Box::new(serde_json::from_value(json!({"value": {"answer": 7}})).unwrap()));
        let step_id = StepId::new("ask").unwrap();
        world.signal_by(&other, &run, "done", Command::CompleteStep { step_id, completion, output }).await;
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        let end = world.events(&run).await.pop().unwrap();
        let Body::RunCompleted(completed) = end.body else { panic!("{end:?}") };
        assert_eq!(completed.output.unwrap().value.unwrap(), json!({"then": {"answer": 7}}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_an_ended_run_is_refused_in_the_log() {
    let world = World::new(&On::Memory).await;
    let run = world.start("{id: short, version: 1.0.0, steps: [{id: a, handler: do}]}").await;
    assert_eq!(world.ended(&run).await, RunStatus::Completed);
    world.signal(&run, "late", pause()).await;
    let refused =
        world.until(&run, "the refusal", |event| matches!(event.body, Body::SignalRejected(_))).await;
    let Body::SignalRejected(rejected) = refused.body else { panic!() };
    assert_eq!(rejected.code, "RUN_TERMINAL");
}
