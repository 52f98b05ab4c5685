//! Queueing, approval, start, and who may decide for a run.

use engine_core::Code;
use engine_core::decider::{DECIDER_VERSION, Run, Stimulus};
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::signal::Command;
use serde_json::json;

use crate::support::{World, compile, queued};

fn plan() -> serde_json::Value {
    json!({"id": "p", "version": "1", "steps": [{"id": "a", "handler": "x"}]})
}

fn approval_plan(separation: bool) -> serde_json::Value {
    json!({
        "id": "p", "version": "1", "approval": "required", "separationOfDuties": separation,
        "steps": [{"id": "a", "handler": "x"}],
    })
}

#[test]
fn a_run_is_approved_by_the_system_unless_the_plan_wants_a_person() {
    let world = World::queued(plan());
    assert_eq!(world.story(), "RunQueued RunApproved");
    assert_eq!(world.status(), RunStatus::Approved);
    assert_eq!(world.substatus(), Some("QUEUED"));

    let mut waiting = World::queued(approval_plan(false));
    assert_eq!(waiting.story(), "RunQueued");
    assert_eq!(waiting.substatus(), Some("WAITING_FOR_HUMAN"));
    waiting.signal(Command::Approve).unwrap();
    assert_eq!(waiting.status(), RunStatus::Approved);
    assert_eq!(waiting.signal(Command::Approve), Err("RUN_ALREADY_APPROVED".into()));
}

#[test]
fn whoever_triggered_a_run_may_not_approve_it_when_duties_are_separated() {
    let mut world = World::queued(approval_plan(true));
    assert_eq!(world.signal_by("jane", Command::Approve), Err("SEPARATION_OF_DUTIES".into()));
    world.signal_by("bob", Command::Approve).unwrap();
    assert_eq!(world.status(), RunStatus::Approved);
}

#[test]
fn before_the_start_only_approve_and_cancel_are_taken() {
    let mut world = World::queued(plan());
    for refused in [world.pause(), world.resume(), world.retry("a"), world.skip("a")] {
        assert_eq!(refused, Err("RUN_NOT_STARTED".into()));
    }
    world.cancel().unwrap();
    assert_eq!(world.status(), RunStatus::Cancelled);
    assert!(world.story().ends_with("SignalAccepted StepCancelled(a#1) RunCancelled"), "{}", world.story());
}

#[test]
fn a_run_that_cannot_start_fails_with_the_reason() {
    let mut world = World::queued(plan());
    let refusal = Stimulus::StartRefused { code: Code::PlanMissing, message: "plan p@1 is gone".into() };
    world.tell(refusal.clone()).unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(matches!(world.last(), Body::RunFailed(failed) if failed.code == "PLAN_MISSING"));

    let mut started = World::started(plan());
    let error = started.tell(refusal).unwrap_err();
    assert_eq!(error.code(), Code::IllegalTransition);
}

#[test]
fn a_run_is_queued_and_started_once() {
    let mut world = World::started(plan());
    let again = Stimulus::Queue(Box::new(queued(world.run.plan())));
    assert_eq!(world.tell(again).unwrap_err().code(), Code::IllegalTransition);
}

#[test]
fn a_run_of_an_unknown_decider_or_of_another_plan_is_left_alone() {
    let world = World::queued(plan());
    let mut newer = (*world.log[0]).clone();
    if let Body::RunQueued(queued) = &mut newer.body {
        queued.decider_version = DECIDER_VERSION + 1;
    }
    let error = Run::fold(world.run.plan().clone(), [&newer]).unwrap_err();
    assert_eq!(error.code(), Code::UnknownDeciderVersion);
    let mut run = Run::new(world.run.plan().clone());
    run.evolve(&newer);
    assert_eq!(run.state().status(), None);
    assert!(run.settle().is_empty());

    let other = compile(json!({"id": "p", "version": "1", "steps": [{"id": "b", "handler": "x"}]}));
    let error = Run::fold(other, [&*world.log[0]]).unwrap_err();
    assert_eq!(error.code(), Code::PlanHashMismatch);
}

#[test]
fn the_state_of_another_plan_is_refused() {
    let world = World::queued(plan());
    let other = compile(json!({
        "id": "p", "version": "1", "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    }));
    let same_size = compile(json!({"id": "p", "version": "2", "steps": [{"id": "a", "handler": "y"}]}));
    for other in [other, same_size] {
        let error = Run::restore(other, world.run.state().clone()).unwrap_err();
        assert_eq!(error.code(), Code::PlanHashMismatch);
    }
    let mut newer = serde_json::to_value(world.run.state()).unwrap();
    newer["settings"]["deciderVersion"] = (DECIDER_VERSION + 1).into();
    let newer = serde_json::from_value(newer).unwrap();
    let error = Run::restore(world.run.plan().clone(), newer).unwrap_err();
    assert_eq!(error.code(), Code::UnknownDeciderVersion);
}

#[test]
fn a_log_of_another_major_shape_is_left_alone() {
    let world = World::queued(plan());
    let mut newer = (*world.log[0]).clone();
    newer.schema_version = "1.7".into();
    assert!(Run::fold(world.run.plan().clone(), [&newer]).is_ok(), "a minor version only adds");
    newer.schema_version = "2.0".into();
    let error = Run::fold(world.run.plan().clone(), [&newer]).unwrap_err();
    assert_eq!(error.code(), Code::UnknownDeciderVersion);
}

#[test]
fn asking_for_the_same_run_again_gives_the_same_identity() {
    let request = queued(&compile(plan()));
    let (plan_id, version) = (&request.plan_ref.plan_id, &request.plan_ref.plan_version);
    let identity = request.context.identity(plan_id, version, "order-17");
    assert_eq!(identity, engine_core::hash::sha256_hex("acme|project|test|p|1|order-17"));
    assert_ne!(identity, request.context.identity(plan_id, version, "order-18"));
}
