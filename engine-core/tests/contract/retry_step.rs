//! RETRY_STEP and SKIP_STEP.

use engine_core::SignalId;
use engine_core::decider::Stimulus;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::{Command, Signal};
use serde_json::json;

use crate::support::{World, id};

/// a → b, c → d, and one step that keeps the run going.
fn diamond() -> World {
    World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x"},
            {"id": "b", "handler": "x", "dependsOn": ["a"]}, {"id": "c", "handler": "x", "dependsOn": ["a"]},
            {"id": "d", "handler": "x", "dependsOn": ["b", "c"]},
            {"id": "keep", "handler": "x", "dependsOn": [], "completion": "manual"},
        ],
    }))
}

#[test]
fn retrying_a_step_of_a_diamond_does_its_dependents_again() {
    let mut world = diamond();
    for step in ["a", "b", "c", "d"] {
        world.succeed(step);
    }
    world.retry("b").unwrap();
    assert_eq!(
        [world.attempt("a"), world.attempt("b"), world.attempt("c"), world.attempt("d")],
        [1, 2, 1, 2]
    );
    assert_eq!(world.step("d"), StepStatus::Pending);
    world.succeed("b");
    world.succeed("d");
    world.retry("b").unwrap();
    assert_eq!(world.attempt("b"), 3, "and again");
    assert!(world.story().contains("SignalAccepted StepRetryRequested(b#2) StepRetryRequested(d#2)"));
}

#[test]
fn without_cascade_only_the_step_is_done_again() {
    let mut world = diamond();
    for step in ["a", "b", "c", "d"] {
        world.succeed(step);
    }
    world.retry_alone("b").unwrap();
    assert_eq!((world.attempt("b"), world.attempt("d")), (2, 1));
    assert_eq!(world.step("d"), StepStatus::Success);
}

#[test]
fn a_dependent_in_flight_forbids_a_cascade() {
    let mut world = diamond();
    world.succeed("a");
    world.begin("b").unwrap();
    assert_eq!(world.retry("a"), Err("DEPENDENT_IN_FLIGHT".into()));
    world.retry_alone("a").unwrap();
    assert_eq!(world.attempt("a"), 2);
}

#[test]
fn a_dependent_that_waits_for_a_person_forbids_a_cascade_too() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x", "dependsOn": ["a"], "completion": "manual"},
        ],
    }));
    world.succeed("a");
    world.wait("b");
    assert_eq!(world.retry("a"), Err("DEPENDENT_IN_FLIGHT".into()));
}

#[test]
fn only_an_ended_step_of_a_live_run_can_be_retried() {
    let mut world = diamond();
    assert_eq!(world.retry("a"), Err("STEP_NOT_TERMINAL".into()));
    assert_eq!(world.retry("nobody"), Err("STEP_NOT_FOUND".into()));
    world.cancel().unwrap();
    world.advance(5000);
    assert_eq!(world.status(), RunStatus::Cancelled);
    assert_eq!(world.retry("a"), Err("RUN_TERMINAL".into()));
}

#[test]
fn a_terminal_fallback_is_done_again_with_its_step() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "steps": [
            {"id": "a", "handler": "x", "fallback": "f"}, {"id": "f", "handler": "x"},
            {"id": "keep", "handler": "x"},
        ],
    }));
    world.fail("a");
    world.begin("f").unwrap();
    assert_eq!(world.retry_alone("a"), Err("DEPENDENT_IN_FLIGHT".into()));
    world.complete("f").unwrap();
    world.retry("a").unwrap();
    assert_eq!((world.attempt("a"), world.attempt("f")), (2, 2));
    world.fail("a");
    assert!(world.in_flight().contains(&"f".to_owned()));
}

#[test]
fn an_operators_retry_renews_the_budget_of_retries() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "failure": {"continueOnPartialFailure": true}, "steps": [
            {"id": "a", "handler": "x", "onFailure": "retry", "maxRetries": 1}, {"id": "keep", "handler": "x"},
        ],
    }));
    world.fail("a");
    world.fail("a");
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Failed, 2));
    world.retry("a").unwrap();
    world.fail("a");
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Pending, 4));
}

#[test]
fn releases_wait_for_resume_when_a_step_is_retried_while_paused() {
    let mut world = diamond();
    world.succeed("a");
    world.pause().unwrap();
    world.succeed("b");
    world.succeed("c");
    world.retry("b").unwrap();
    assert!(!world.in_flight().contains(&"b".to_owned()));
    world.resume().unwrap();
    assert!(world.in_flight().contains(&"b".to_owned()));
}

#[test]
fn skipping_takes_pending_and_failed_steps_only() {
    let mut world = diamond();
    assert_eq!(world.skip("a"), Err("STEP_IN_FLIGHT".into()), "released, though not started");
    world.skip("d").unwrap();
    assert_eq!((world.step("d"), world.attempt("d")), (StepStatus::Skipped, 1));
    assert_eq!(world.skip("d"), Err("STEP_TERMINAL".into()));
    world.succeed("a");
    assert_eq!(world.skip("a"), Err("STEP_TERMINAL".into()));
    world.wait("keep");
    assert_eq!(world.skip("keep"), Err("STEP_IN_FLIGHT".into()));
}

#[test]
fn skipping_a_failed_step_makes_an_attempt_of_its_own_and_satisfies_dependents() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x", "onFailure": "pause"}, {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ],
    }));
    world.fail("a");
    world.skip("a").unwrap();
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Skipped, 2));
    world.resume().unwrap();
    world.succeed("b");
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_skip_that_was_stored_before_its_driver_saw_the_start_ends_the_attempt() {
    let mut world = diamond();
    let skip = Signal {
        signal_id: SignalId::new("skip-b").unwrap(),
        actor: "ops".into(),
        reason: None,
        command: Command::SkipStep { step_id: id("b") },
    };
    let stale = world.run.decide(Stimulus::Signal(Box::new(skip))).unwrap();
    world.succeed("a");
    world.begin("b").unwrap();
    world.append(stale);
    assert_eq!(world.step("b"), StepStatus::Skipped);
    let late = world.complete("b").unwrap_err();
    assert_eq!(late.code().as_str(), "STEP_TERMINAL");
}
