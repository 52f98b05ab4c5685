//! Failure actions, fallbacks, partial completion, the end of a failing run.

use engine_core::event::Body;
use engine_core::event::run::{RunCompleted, RunFailed};
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::{Value, json};

use crate::support::{World, id};

fn graph(failure: Value, steps: Value) -> World {
    World::started(json!({"id": "p", "version": "1", "mode": "graph", "failure": failure, "steps": steps}))
}

fn failed(world: &World) -> &RunFailed {
    match world.last() {
        Body::RunFailed(failed) => failed,
        other => panic!("not failed: {other:?}\n{}", world.story()),
    }
}

fn completed(world: &World) -> &RunCompleted {
    match world.last() {
        Body::RunCompleted(completed) => completed,
        other => panic!("not completed: {other:?}\n{}", world.story()),
    }
}

#[test]
fn abort_lets_what_is_in_flight_finish_and_releases_nothing_new() {
    let mut world = graph(
        json!({}),
        json!([
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x"},
            {"id": "c", "handler": "x", "dependsOn": ["b"]},
        ]),
    );
    world.begin("b").unwrap();
    world.fail("a");
    assert_eq!(world.status(), RunStatus::Running);
    world.fail_try("b").unwrap();
    assert_eq!(world.in_flight(), ["b"], "retries go on");
    world.complete("b").unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.step("c"), StepStatus::Pending);
    let end = failed(&world);
    assert_eq!(end.code, "STEP_FAILED");
    assert_eq!(end.root_cause.as_ref().unwrap().step_id, id("a"));
    assert_eq!(end.root_cause.as_ref().unwrap().code, "BadRequest");
    assert_eq!(end.counts.succeeded, 1);
}

#[test]
fn the_first_failure_is_the_root_cause_and_later_ones_are_listed() {
    let mut world = graph(
        json!({}),
        json!([{"id": "a", "handler": "x", "onFailure": "retry"}, {"id": "b", "handler": "x"}]),
    );
    world.begin("a").unwrap();
    world.fail("b");
    world.fail_for_good("a").unwrap();
    assert_eq!(world.attempt("a"), 1, "an ending run makes no new attempts");
    let end = failed(&world);
    assert_eq!(end.root_cause.as_ref().unwrap().step_id, id("b"));
    let listed: Vec<&str> = end.failed_steps.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(listed, ["b", "a"]);
}

#[test]
fn the_root_cause_is_the_first_in_the_log_whatever_is_folded_first() {
    let mut world = graph(json!({}), json!([{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}]));
    world.begin("a").unwrap();
    world.begin("b").unwrap();
    let before = world.run.clone();
    world.fail_for_good("a").unwrap();
    world.fail_for_good("b").unwrap();
    let mut other_way_round = before;
    let failures: Vec<_> =
        world.log.iter().filter(|event| matches!(event.body, Body::StepFailed(_))).cloned().collect();
    for event in failures.iter().rev() {
        other_way_round.evolve(event);
    }
    let drafts = other_way_round.settle();
    let Body::RunFailed(end) = &drafts[0].body else { panic!("{drafts:?}") };
    assert_eq!(end.root_cause.as_ref().unwrap().step_id, id("a"));
    assert_eq!(end.root_cause, failed(&world).root_cause);
}

#[test]
fn skip_makes_a_skipped_attempt_beside_the_failed_one_and_the_outcome_partial() {
    let mut world = graph(
        json!({}),
        json!([
            {"id": "a", "handler": "x", "onFailure": "skip"}, {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ]),
    );
    world.fail("a");
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Skipped, 2));
    assert!(world.story().contains("StepFailed(a#1) StepSkipped(a#2)"), "{}", world.story());
    world.succeed("b");
    assert_eq!(completed(&world).outcome.as_str(), "PARTIAL");
}

#[test]
fn retry_makes_new_logical_attempts_up_to_the_limit_then_aborts() {
    let mut world =
        graph(json!({}), json!([{"id": "a", "handler": "x", "onFailure": "retry", "maxRetries": 2}]));
    world.fail("a");
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Pending, 2));
    world.fail("a");
    assert_eq!(world.attempt("a"), 3);
    world.fail("a");
    assert_eq!(failed(&world).root_cause.as_ref().unwrap().logical_attempt_id, 3);
}

#[test]
fn reassign_goes_through_the_agents_once_in_order_then_aborts() {
    let mut world = graph(
        json!({}),
        json!([{"id": "a", "handler": "x", "agent": "one", "agents": ["two", "one", "three"], "onFailure": "reassign"}]),
    );
    let agent = |world: &World| world.actions().dispatch[0].agent.clone().unwrap().to_string();
    let mut agents = vec![agent(&world)];
    world.fail("a");
    agents.push(agent(&world));
    world.fail("a");
    agents.push(agent(&world));
    world.fail("a");
    assert_eq!(agents, ["one", "two", "three"]);
    assert_eq!(world.status(), RunStatus::Failed);
}

#[test]
fn a_fallback_stands_in_and_satisfies_dependents() {
    let mut world = graph(
        json!({}),
        json!([
            {"id": "a", "handler": "x", "fallback": "f"}, {"id": "f", "handler": "x"},
            {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ]),
    );
    assert_eq!(world.in_flight(), ["a"], "a fallback is never ready by itself");
    world.fail("a");
    assert_eq!(world.in_flight(), ["f"]);
    world.succeed("f");
    assert_eq!(world.run.attempt("a").unwrap().resolved_by, Some(id("f")));
    world.succeed("b");
    assert_eq!(completed(&world).outcome.as_str(), "SUCCESS");
    assert_eq!(world.step("a"), StepStatus::Failed);
}

#[test]
fn a_fallback_that_is_not_needed_is_skipped() {
    let mut world =
        graph(json!({}), json!([{"id": "a", "handler": "x", "fallback": "f"}, {"id": "f", "handler": "x"}]));
    world.succeed("a");
    assert_eq!(world.step("f"), StepStatus::Skipped);
    assert!(world.story().contains("StepSkipped(f#1)"));
    assert_eq!(completed(&world).outcome.as_str(), "SUCCESS");
}

#[test]
fn a_failed_fallback_aborts_with_the_step_as_root_cause() {
    for end in ["fail", "skip", "cancel"] {
        let mut world = graph(
            json!({}),
            json!([{"id": "a", "handler": "x", "fallback": "f"}, {"id": "f", "handler": "x"}]),
        );
        world.fail("a");
        match end {
            "fail" => world.fail("f"),
            "skip" => drop(world.report("f", engine_core::decider::Report::ConditionFalse).unwrap()),
            _ => {
                world.begin("f").unwrap();
                world.report("f", engine_core::decider::Report::Cancelled).unwrap();
            }
        }
        assert_eq!(failed(&world).root_cause.as_ref().unwrap().step_id, id("a"), "{end}");
    }
}

#[test]
fn independent_branches_go_on_after_a_partial_failure_and_dependent_ones_are_skipped() {
    let mut world = graph(
        json!({"continueOnPartialFailure": true}),
        json!([
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x"},
            {"id": "a1", "handler": "x", "dependsOn": ["a"]}, {"id": "a2", "handler": "x", "dependsOn": ["a1"]},
            {"id": "any", "handler": "x", "dependsOn": [{"step": "a", "required": false}]},
        ]),
    );
    world.fail("a");
    assert_eq!(world.step("a1"), StepStatus::Skipped);
    assert_eq!(world.step("a2"), StepStatus::Skipped, "what needs a skipped-for-failure step is skipped too");
    assert!(world.in_flight().contains(&"any".to_owned()), "an optional dependency is satisfied by any end");
    world.succeed("any");
    world.succeed("b");
    assert_eq!(completed(&world).outcome.as_str(), "PARTIAL");
}

#[test]
fn an_optional_dependency_waits_until_the_failure_is_resolved() {
    let mut world = graph(
        json!({"continueOnPartialFailure": true}),
        json!([
            {"id": "a", "handler": "x", "onFailure": "retry", "maxRetries": 1},
            {"id": "b", "handler": "x", "dependsOn": [{"step": "a", "required": false}]},
        ]),
    );
    world.begin("a").unwrap();
    let draft = world.run.decide(engine_core::decider::Stimulus::step(
        id("a"),
        1,
        engine_core::decider::Report::Failed {
            error: engine_core::event::step::StepError::classified("BadRequest", None, ""),
            started_at: None,
            ended_at: None,
        },
    ));
    // Fold the failure without settling: its new attempt is not in the log yet.
    world.append(draft.unwrap());
    assert!(world.in_flight().is_empty(), "b must not slip in between failure and retry");
    world.settle();
    assert_eq!(world.in_flight(), ["a"]);
}

#[test]
fn a_dependent_of_a_failed_step_stays_pending_and_says_who_blocks_it() {
    let mut world = graph(
        json!({}),
        json!([
            {"id": "a", "handler": "x", "onFailure": "pause"}, {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ]),
    );
    world.fail("a");
    let view = world.run.attempt("b").unwrap();
    assert_eq!(view.status, StepStatus::Pending);
    assert_eq!(view.blocked_by, [id("a")]);
}

#[test]
fn one_failure_too_many_aborts_whatever_the_actions_are() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxFailures": 1},
        "failure": {"continueOnPartialFailure": true, "default": "skip"},
        "steps": [
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}, {"id": "c", "handler": "x"},
        ],
    }));
    world.fail("a");
    assert_eq!(world.step("a"), StepStatus::Skipped);
    world.fail("b");
    assert_eq!(world.status(), RunStatus::Running, "c is in flight and finishes");
    world.succeed("c");
    assert_eq!(failed(&world).code, "MAX_FAILURES");
}

#[test]
fn the_action_is_the_steps_else_its_handlers_else_the_default() {
    let mut world = graph(
        json!({"default": "skip", "overrides": {"fragile": "retry"}, "maxRetries": 1}),
        json!([
            {"id": "own", "handler": "fragile", "onFailure": "pause"},
            {"id": "by-handler", "handler": "fragile"}, {"id": "by-default", "handler": "x"},
        ]),
    );
    world.fail("by-default");
    assert_eq!(world.step("by-default"), StepStatus::Skipped);
    world.fail("by-handler");
    assert_eq!((world.step("by-handler"), world.attempt("by-handler")), (StepStatus::Pending, 2));
    world.fail("own");
    assert_eq!(world.status(), RunStatus::Paused);
}

#[test]
fn a_handler_that_gives_up_by_itself_has_failed() {
    let mut world = graph(json!({}), json!([{"id": "a", "handler": "x"}]));
    world.begin("a").unwrap();
    world.report("a", engine_core::decider::Report::Cancelled).unwrap();
    assert_eq!(world.step("a"), StepStatus::Cancelled);
    assert_eq!(failed(&world).root_cause.as_ref().unwrap().code, "HANDLER");
}

#[test]
fn fail_fast_cancels_what_is_in_flight_where_the_engine_can() {
    let document = json!({
        "id": "p", "version": "1", "mode": "graph", "failure": {"failFast": "cancel"},
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    });
    let mut world = World::started(document.clone());
    world.begin("b").unwrap();
    world.fail("a");
    assert_eq!(world.actions().cancel.len(), 1);
    assert_eq!(world.substatus(), Some("CANCELLING"));
    world.report("b", engine_core::decider::Report::Cancelled).unwrap();
    assert_eq!(world.step("b"), StepStatus::Cancelled);
    assert_eq!(world.status(), RunStatus::Failed);

    let mut plain = World::queued_with(crate::support::compile(document), |queued| {
        queued.capabilities.fail_fast_cancel = false;
    });
    plain.start();
    plain.begin("b").unwrap();
    plain.fail("a");
    assert!(plain.actions().cancel.is_empty());
    plain.complete("b").unwrap();
    assert_eq!(plain.status(), RunStatus::Failed);
}
