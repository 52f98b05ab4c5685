//! Runs made from other runs.

use engine_core::decider::origin;
use engine_core::event::Body;
use engine_core::event::run::{Origin, OriginType, ReusedStep};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::CompiledPlan;
use engine_core::{Code, RunId};
use serde_json::{Value, json};

use crate::support::{World, compile, id};

fn plan(second_handler: &str) -> Value {
    json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x", "compensation": {"handler": "undo"}},
            {"id": "b", "handler": second_handler, "dependsOn": ["a"]},
            {"id": "c", "handler": "x", "dependsOn": ["a"]},
            {"id": "d", "handler": "x", "dependsOn": ["b", "c"]},
        ],
    })
}

fn from(reused: Vec<ReusedStep>, origin_type: OriginType) -> Origin {
    Origin { origin_type, source_run_id: RunId::new("run-000").unwrap(), step: None, reused }
}

/// a and b succeeded, c failed, d never ran.
fn failed_run() -> World {
    let mut world = World::started(plan("x"));
    world.succeed("a");
    world.succeed("b");
    world.fail("c");
    world
        .tell(engine_core::decider::Stimulus::Compensation { step: id("a"), outcome: Ok(Default::default()) })
        .unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
    world
}

#[test]
fn a_rerun_from_failed_steps_takes_over_what_ended_well() {
    let source = failed_run();
    let reused = origin::rerun_failed(&source.run, source.run.plan()).unwrap();
    let names: Vec<&str> = reused.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let mut rerun = World::started_from(source.run.plan().clone(), from(reused, OriginType::Rerun));
    assert_eq!(rerun.in_flight(), ["c"]);
    assert!(rerun.run.attempt("a").unwrap().reused);
    assert_eq!(rerun.step("a"), StepStatus::Success);
    assert!(!rerun.story().contains("(a#"), "a reused step emits no events");
    rerun.fail("c");
    assert_eq!(rerun.status(), RunStatus::Failed);
    assert!(!rerun.story().contains("Compensation"), "a reused step is not compensated");
}

#[test]
fn a_rerun_needs_an_ended_source_and_unchanged_reused_steps() {
    let running = World::started(plan("x"));
    let error = origin::rerun_failed(&running.run, running.run.plan()).unwrap_err();
    assert_eq!(error.code(), Code::OriginInvalid);
    let source = failed_run();
    let changed = compile(plan("y"));
    let error = origin::rerun_failed(&source.run, &changed).unwrap_err();
    assert_eq!(error.code(), Code::PlanChanged);
    assert!(error.message().contains("step b"), "{error}");
}

#[test]
fn a_change_of_words_or_of_steps_that_run_again_is_no_change_of_the_plan() {
    let source = failed_run();
    let mut document = plan("x");
    document["steps"][0]["description"] = json!("clearer words");
    document["steps"][2]["handler"] = json!("fixed");
    let reused = origin::rerun_failed(&source.run, &compile(document)).unwrap();
    assert_eq!(reused.len(), 2);
}

#[test]
fn what_was_skipped_because_of_a_failure_is_done_again_and_other_skips_are_not() {
    let mut source = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "failure": {"continueOnPartialFailure": true}, "steps": [
            {"id": "broken", "handler": "x", "onFailure": "skip"}, {"id": "unwanted", "handler": "x"},
            {"id": "lost", "handler": "x"}, {"id": "needs-lost", "handler": "x", "dependsOn": ["lost"]},
            {"id": "after-broken", "handler": "x", "dependsOn": ["broken"]},
        ],
    }));
    source.report("unwanted", engine_core::decider::Report::ConditionFalse).unwrap();
    source.fail("broken");
    source.fail("lost");
    source.succeed("after-broken");
    assert_eq!(source.status(), RunStatus::Completed);
    let reused = origin::rerun_failed(&source.run, source.run.plan()).unwrap();
    let names: Vec<&str> = reused.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(names, ["unwanted"], "not after-broken either: what it depends on is done again");
}

#[test]
fn a_checkpoint_of_a_running_run_can_be_rerun() {
    let mut world = World::started(plan("x"));
    world.succeed("a");
    let reused = origin::rerun_checkpoint(&world.run, world.run.plan()).unwrap();
    assert_eq!(reused.len(), 1);
}

#[test]
fn a_reused_step_can_be_retried() {
    let source = failed_run();
    let reused = origin::rerun_failed(&source.run, source.run.plan()).unwrap();
    let mut rerun = World::started_from(source.run.plan().clone(), from(reused, OriginType::Rerun));
    rerun.succeed("c");
    rerun.begin("d").unwrap();
    assert_eq!(rerun.retry("a"), Err("DEPENDENT_IN_FLIGHT".into()));
    rerun.retry_alone("a").unwrap();
    assert_eq!((rerun.attempt("a"), rerun.step("a")), (2, StepStatus::Pending));
}

#[test]
fn a_link_takes_over_a_completed_run_and_completes_with_its_outcome() {
    let document = json!({
        "id": "p", "version": "1", "mode": "graph", "failure": {"continueOnPartialFailure": true}, "steps": [
            {"id": "a", "handler": "x", "onFailure": "skip"},
            {"id": "b", "handler": "x", "fallback": "f"}, {"id": "f", "handler": "x"},
        ],
    });
    let mut source = World::started(document);
    source.fail("b");
    source.succeed("f");
    assert_eq!(origin::take_everything(&source.run).unwrap_err().code(), Code::OriginInvalid);
    source.fail("a");
    let outcome = |world: &World| match world.last() {
        Body::RunCompleted(completed) => completed.outcome.as_str().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(&source), "PARTIAL");
    let reused = origin::take_everything(&source.run).unwrap();
    let link = World::started_from(source.run.plan().clone(), from(reused, OriginType::Link));
    assert_eq!(link.story(), "RunQueued RunApproved RunStarted RunCompleted");
    assert_eq!(outcome(&link), "PARTIAL");
    assert_eq!(link.run.attempt("b").unwrap().resolved_by, Some(id("f")));
}

#[test]
fn a_copy_of_a_step_takes_its_children_and_what_they_need_once() {
    let compiled = compile(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "dep-1", "handler": "x"}, {"id": "dep-2", "handler": "x"}, {"id": "parent", "handler": "x"},
            {"id": "child-1", "handler": "x", "dependsOn": ["parent", "dep-1"]},
            {"id": "child-2", "handler": "x", "dependsOn": ["parent", "dep-1", "dep-2"]},
            {"id": "grandchild", "handler": "x", "dependsOn": ["child-1"]}, {"id": "stranger", "handler": "x"},
        ],
    }));
    let copy = origin::copy_step(&compiled, &id("parent")).unwrap();
    let names: Vec<&str> = copy.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(names, ["dep-1", "dep-2", "parent", "child-1", "child-2"]);
    CompiledPlan::new(copy).unwrap();
    let error = origin::copy_step(&compiled, &id("nobody")).unwrap_err();
    assert_eq!(error.code(), Code::StepNotFound);
}

#[test]
fn a_copy_from_a_sequential_plan_stays_sequential_with_contiguous_orders() {
    let compiled = compile(json!({
        "id": "p", "version": "1", "steps": [
            {"id": "third", "handler": "x", "order": 3}, {"id": "first", "handler": "x", "order": 1},
            {"id": "second", "handler": "x", "order": 2}, {"id": "fourth", "handler": "x", "order": 4},
        ],
    }));
    let copy = origin::copy_step(&compiled, &id("first")).unwrap();
    let orders: Vec<(&str, Option<u32>)> =
        copy.steps.iter().map(|step| (step.id.as_str(), step.order)).collect();
    assert_eq!(orders, [("first", Some(1)), ("second", Some(2))]);
}
