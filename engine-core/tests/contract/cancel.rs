//! CANCEL, grace, forced cancellation.

use engine_core::decider::Report;
use engine_core::event::Body;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::Command;
use serde_json::json;

use crate::support::World;

fn parallel() -> World {
    World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 2}, "steps": [
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}, {"id": "c", "handler": "x"},
        ],
    }))
}

#[test]
fn pending_steps_are_cancelled_at_once_and_running_ones_are_asked_to_stop() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.cancel().unwrap();
    assert_eq!(world.step("c"), StepStatus::Cancelled);
    assert_eq!((world.status(), world.substatus()), (RunStatus::Running, Some("CANCELLING")));
    let asked: Vec<_> = world.actions().cancel.iter().map(|attempt| attempt.step.to_string()).collect();
    assert_eq!(asked, ["a", "b"]);
    assert!(world.actions().dispatch.is_empty());
    let error = world.begin("b").unwrap_err();
    assert_eq!(error.code().as_str(), "RUN_ENDING", "what has not started must not start");
    world.report("b", Report::Cancelled).unwrap();
    world.report("a", Report::Cancelled).unwrap();
    assert_eq!(world.status(), RunStatus::Cancelled);
}

#[test]
fn after_five_seconds_of_grace_steps_are_cut_off() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.cancel().unwrap();
    world.advance(4_999);
    assert_eq!(world.step("a"), StepStatus::Running);
    world.advance(1);
    assert_eq!(world.step("a"), StepStatus::Cancelled);
    let forced =
        world.log.iter().any(|event| matches!(&event.body, Body::StepCancelled(step) if step.forced));
    assert!(forced);
    assert_eq!(world.status(), RunStatus::Cancelled);
}

#[test]
fn a_step_that_finishes_within_the_grace_counts_as_finished() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.cancel().unwrap();
    world.complete("a").unwrap();
    assert_eq!(world.step("a"), StepStatus::Success);
}

#[test]
fn a_failing_try_is_not_tried_again_while_cancelling() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.cancel().unwrap();
    world.fail_try("a").unwrap();
    assert_eq!(world.step("a"), StepStatus::Cancelled);
}

#[test]
fn concurrent_cancels_are_one() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.cancel().unwrap();
    world.cancel().unwrap();
    world.advance(5_000);
    assert_eq!(world.story().matches("RunCancelled").count(), 1);
    assert_eq!(world.cancel(), Err("RUN_TERMINAL".into()));
}

#[test]
fn a_paused_run_can_be_cancelled() {
    let mut world = parallel();
    world.begin("a").unwrap();
    world.pause().unwrap();
    world.cancel().unwrap();
    world.advance(5_000);
    assert_eq!(world.status(), RunStatus::Cancelled);
    assert!(!world.story().contains("RunDrained"));
}

#[test]
fn waits_for_people_are_withdrawn_at_once() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [{"id": "a", "handler": "x", "completion": "manual"}],
    }));
    world.wait("a");
    assert_eq!(world.effects(Command::Cancel), ["SignalAccepted", "StepCancelled(a#1)"], "in one append");
    world.cancel().unwrap();
    assert_eq!(world.step("a"), StepStatus::Cancelled);
    assert_eq!(world.status(), RunStatus::Cancelled);
}

#[test]
fn cancel_replaces_a_failure_that_is_still_waiting_for_steps_in_flight() {
    let mut world = parallel();
    world.begin("b").unwrap();
    world.fail("a");
    world.cancel().unwrap();
    world.report("b", Report::Cancelled).unwrap();
    assert_eq!(world.status(), RunStatus::Cancelled);
}

#[test]
fn nothing_is_compensated_on_cancel_unless_the_plan_says_so() {
    for (compensate, expected) in [(false, 0), (true, 1)] {
        let mut world = World::started(json!({
            "id": "p", "version": "1", "failure": {"compensateOnCancel": compensate}, "steps": [
                {"id": "a", "handler": "x", "compensation": {"handler": "undo"}}, {"id": "b", "handler": "x"},
            ],
        }));
        world.succeed("a");
        world.cancel().unwrap();
        world.report("b", Report::Cancelled).unwrap();
        assert_eq!(world.story().matches("CompensationStarted").count(), expected);
        if compensate {
            assert_eq!(world.substatus(), Some("COMPENSATING"));
            assert_eq!(world.cancel(), Err("RUN_ENDING".into()));
        } else {
            assert_eq!(world.status(), RunStatus::Cancelled);
        }
    }
}
