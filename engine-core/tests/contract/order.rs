//! Order of release, dependencies, limits, conditions.

use engine_core::machine::{RunStatus, StepStatus};
use serde_json::json;

use crate::support::World;

#[test]
fn a_plan_without_dependencies_runs_in_order_one_after_another() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "second", "handler": "x", "order": 2},
            {"id": "first", "handler": "x", "order": 1},
        ],
    }));
    assert_eq!(world.in_flight(), ["first"]);
    world.succeed("first");
    assert_eq!(world.in_flight(), ["second"]);
    world.succeed("second");
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn mode_graph_releases_everything_at_once() {
    let world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph",
        "steps": [{"id": "b", "handler": "x"}, {"id": "a", "handler": "x"}],
    }));
    assert_eq!(world.in_flight(), ["b", "a"]);
}

#[test]
fn release_goes_by_priority_then_order_then_id() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 1},
        "steps": [
            {"id": "low", "handler": "x", "priority": 3},
            {"id": "normal", "handler": "x"},
            {"id": "urgent", "handler": "x", "priority": 0},
            {"id": "also-normal", "handler": "x"},
        ],
    }));
    let mut order = Vec::new();
    while let Some(next) = world.in_flight().first().cloned() {
        world.succeed(&next);
        order.push(next);
    }
    assert_eq!(order, ["urgent", "normal", "also-normal", "low"]);
}

#[test]
fn a_full_agent_holds_nobody_else_up() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 3, "perAgent": 1},
        "steps": [
            {"id": "a1", "handler": "x", "agent": "one", "priority": 0},
            {"id": "a2", "handler": "x", "agent": "one", "priority": 0},
            {"id": "b", "handler": "x", "agent": "two"},
            {"id": "free", "handler": "x", "priority": 3},
        ],
    }));
    assert_eq!(world.in_flight(), ["a1", "b", "free"]);
    world.succeed("free");
    assert_eq!(world.in_flight(), ["a1", "b"]);
    world.succeed("a1");
    assert_eq!(world.in_flight(), ["a2", "b"]);
}

#[test]
fn a_slot_is_held_through_queueing_and_retries_until_the_end() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 1},
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    }));
    assert_eq!(world.in_flight(), ["a"]);
    world.begin("a").unwrap();
    world.fail_try("a").unwrap();
    assert_eq!(world.in_flight(), ["a"]);
    assert_eq!(world.run.attempt("a").unwrap().substatus.unwrap().as_str(), "RETRYING");
    world.complete("a").unwrap();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn a_false_condition_skips_and_satisfies_dependents() {
    let mut world = World::started(json!({
        "id": "p", "version": "1",
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x", "dependsOn": ["a"]}],
    }));
    world.report("a", engine_core::decider::Report::ConditionFalse).unwrap();
    assert_eq!(world.step("a"), StepStatus::Skipped);
    world.succeed("b");
    assert_eq!(world.status(), RunStatus::Completed);
    assert!(matches!(
        world.last(),
        engine_core::event::Body::RunCompleted(done) if done.outcome.as_str() == "SUCCESS"
    ));
}

#[test]
fn an_attempt_that_was_not_released_cannot_start() {
    let mut world = World::started(json!({
        "id": "p", "version": "1",
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x", "dependsOn": ["a"]}],
    }));
    let error = world.begin("b").unwrap_err();
    assert_eq!(error.code(), engine_core::Code::IllegalTransition);
    assert!(error.message().contains("not released"), "{error}");
    assert_eq!(world.run.attempt("b").unwrap().status, StepStatus::Pending);
}
