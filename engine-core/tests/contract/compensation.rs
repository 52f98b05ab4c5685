//! Compensation.

use std::collections::BTreeMap;

use engine_core::decider::Stimulus;
use engine_core::event::Body;
use engine_core::event::run::RunFailed;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::machine::RunStatus;
use serde_json::json;

use crate::support::{World, id};

fn saga() -> World {
    World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "reserve", "handler": "x", "compensation": {"handler": "release"}},
            {"id": "charge", "handler": "x", "compensation": {"handler": "refund"}},
            {"id": "mail", "handler": "x", "sideEffects": true},
            {"id": "ship", "handler": "x"},
        ],
    }))
}

fn undo(world: &mut World, step: &str, well: bool) {
    let error = StepError::new(FailureClass::Transient, "ETIMEDOUT", "no answer");
    let outcome = if well { Ok(BTreeMap::new()) } else { Err(error) };
    world.tell(Stimulus::Compensation { step: id(step), outcome }).unwrap();
}

fn end(world: &World) -> &RunFailed {
    match world.last() {
        Body::RunFailed(failed) => failed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_succeeded_is_undone_in_reverse_order_one_at_a_time() {
    let mut world = saga();
    for step in ["reserve", "charge", "mail"] {
        world.succeed(step);
    }
    world.fail("ship");
    assert_eq!(world.substatus(), Some("COMPENSATING"));
    let task = world.actions().compensate.unwrap();
    assert_eq!(task.attempt.step, id("charge"));
    assert_eq!(task.handler.as_str(), "refund");
    assert_eq!(task.idempotency_key, "run-001:charge:compensate");
    undo(&mut world, "charge", true);
    assert_eq!(world.actions().compensate.unwrap().attempt.step, id("reserve"));
    undo(&mut world, "reserve", true);
    let summary = &end(&world).compensation;
    assert_eq!(summary.compensated, [id("reserve"), id("charge")]);
    assert_eq!(summary.non_compensable, [id("mail")]);
    assert!(summary.failed.is_empty());
}

#[test]
fn a_compensation_is_tried_twice_and_its_failure_skips_no_other() {
    let mut world = saga();
    world.succeed("reserve");
    world.succeed("charge");
    world.fail("mail");
    undo(&mut world, "charge", false);
    let retry = match world.last() {
        Body::CompensationFailed(failed) => (failed.will_retry, failed.delay_ms),
        other => panic!("{other:?}"),
    };
    assert_eq!(retry, (true, Some(1000)));
    assert_eq!(world.actions().compensate.unwrap().try_number, 2);
    undo(&mut world, "charge", false);
    undo(&mut world, "reserve", true);
    let summary = &end(&world).compensation;
    assert_eq!(
        (summary.compensated.as_slice(), summary.failed.as_slice()),
        (&[id("reserve")][..], &[id("charge")][..])
    );
}

#[test]
fn compensation_waits_until_nothing_is_in_flight() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "steps": [
            {"id": "a", "handler": "x", "compensation": {"handler": "undo"}},
            {"id": "b", "handler": "x", "compensation": {"handler": "undo"}}, {"id": "c", "handler": "x"},
        ],
    }));
    world.succeed("a");
    world.begin("b").unwrap();
    world.fail("c");
    assert_eq!(world.actions().compensate, None);
    world.complete("b").unwrap();
    assert_eq!(world.actions().compensate.unwrap().attempt.step, id("b"), "the latest success first");
}

#[test]
fn the_latest_success_counts_even_when_a_later_attempt_failed() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "steps": [
            {"id": "a", "handler": "x", "compensation": {"handler": "undo"}}, {"id": "keep", "handler": "x"},
        ],
    }));
    world.succeed("a");
    world.retry("a").unwrap();
    world.succeed("keep");
    world.fail("a");
    assert_eq!(world.actions().compensate.unwrap().attempt.attempt, 1);
}

#[test]
fn a_completed_run_is_never_compensated_even_when_partial() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "failure": {"continueOnPartialFailure": true}, "steps": [
            {"id": "a", "handler": "x", "compensation": {"handler": "undo"}}, {"id": "b", "handler": "x"},
        ],
    }));
    world.succeed("a");
    world.fail("b");
    assert_eq!(world.status(), RunStatus::Completed);
    assert!(!world.story().contains("Compensation"));
}

#[test]
fn an_outcome_of_a_compensation_that_does_not_run_is_refused() {
    let world = saga();
    let error = world
        .run
        .decide(Stimulus::Compensation { step: id("charge"), outcome: Ok(BTreeMap::new()) })
        .unwrap_err();
    assert_eq!(error.code().as_str(), "ILLEGAL_TRANSITION");
}
