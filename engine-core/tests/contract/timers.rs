//! Delays, run timeout, timers that are not due.

use engine_core::decider::{Stimulus, TimerId};
use engine_core::event::Body;
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::json;

use crate::support::{World, id};

#[test]
fn a_delay_counts_from_when_dependencies_are_satisfied_and_holds_no_slot() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "limits": {"maxConcurrency": 1}, "steps": [
            {"id": "a", "handler": "x"},
            {"id": "later", "handler": "x", "dependsOn": ["a"], "schedule": {"delayMs": 500}},
            {"id": "c", "handler": "x", "dependsOn": ["a"]},
        ],
    }));
    world.advance(10_000);
    assert!(world.timer_names().is_empty());
    world.succeed("a");
    assert_eq!(world.timer_names(), ["delay.1.later"]);
    assert_eq!(world.in_flight(), ["c"]);
    world.succeed("c");
    world.advance(499);
    assert!(world.in_flight().is_empty());
    world.advance(1);
    assert_eq!(world.in_flight(), ["later"]);
}

#[test]
fn a_step_can_wait_for_a_point_in_time() {
    let mut world = World::started(json!({
        "id": "p", "version": "1",
        "steps": [{"id": "a", "handler": "x", "schedule": {"at": "1970-01-01T01:00:00Z"}}],
    }));
    assert_eq!(world.actions().timers[0].due_at.as_millis(), 3_600_000);
    world.advance(3_600_000);
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn an_operators_retry_does_not_wait_again_but_a_cascade_does() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x"},
            {"id": "b", "handler": "x", "dependsOn": ["a"], "schedule": {"delayMs": 500}},
            {"id": "keep", "handler": "x", "dependsOn": []},
        ],
    }));
    world.succeed("a");
    world.advance(500);
    world.succeed("b");
    world.retry("b").unwrap();
    assert!(world.in_flight().contains(&"b".to_owned()));
    world.succeed("b");
    world.retry("a").unwrap();
    world.succeed("a");
    assert_eq!(world.timer_names(), ["delay.2.b"]);
}

#[test]
fn a_timer_that_is_not_due_or_does_not_run_changes_nothing() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "limits": {"runTimeoutMs": 1000}, "steps": [{"id": "a", "handler": "x"}],
    }));
    let early = Stimulus::TimerDue { timer: TimerId::RunTimeout(1), now: world.now.plus_millis(999) };
    assert!(world.tell(early).unwrap().is_empty());
    for timer in
        [TimerId::Drain(1), TimerId::CancelGrace, TimerId::RunTimeout(2), TimerId::StepDelay(id("a"), 1)]
    {
        let stimulus = Stimulus::TimerDue { timer, now: world.now.plus_millis(1_000_000) };
        assert!(world.tell(stimulus).unwrap().is_empty());
    }
}

#[test]
fn a_run_timeout_cancels_what_is_in_flight_and_fails_the_run() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "limits": {"runTimeoutMs": 1000}, "steps": [
            {"id": "a", "handler": "x", "compensation": {"handler": "undo"}}, {"id": "b", "handler": "x"},
        ],
    }));
    world.succeed("a");
    world.begin("b").unwrap();
    world.advance(1000);
    assert_eq!(world.substatus(), Some("CANCELLING"));
    assert_eq!(world.actions().cancel.len(), 1);
    world.advance(5000);
    assert_eq!(world.step("b"), StepStatus::Cancelled);
    assert_eq!(world.substatus(), Some("COMPENSATING"));
    world.tell(Stimulus::Compensation { step: id("a"), outcome: Ok(Default::default()) }).unwrap();
    assert!(matches!(world.last(), Body::RunFailed(failed) if failed.code == "RUN_TIMEOUT"));
}

#[test]
fn time_in_pause_does_not_count_against_the_run_timeout() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "limits": {"runTimeoutMs": 1000}, "steps": [
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x"},
        ],
    }));
    world.advance(600);
    world.pause().unwrap();
    world.succeed("a");
    assert!(world.timer_names().is_empty(), "neither the timeout nor the drain runs");
    world.advance(100_000);
    world.resume().unwrap();
    assert_eq!(world.timer_names(), ["run-timeout.2"]);
    world.advance(399);
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.substatus(), None);
    world.advance(1);
    assert_eq!(world.substatus(), Some("CANCELLING"));
}

#[test]
fn a_failure_stays_the_reason_when_the_run_times_out_meanwhile() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"runTimeoutMs": 1000},
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    }));
    world.begin("b").unwrap();
    world.fail("a");
    world.advance(1000);
    assert_eq!(world.actions().cancel.len(), 1, "the timeout still bounds what is in flight");
    world.advance(5000);
    assert!(matches!(world.last(), Body::RunFailed(failed) if failed.code == "STEP_FAILED"));
}
