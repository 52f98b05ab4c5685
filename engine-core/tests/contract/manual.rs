//! Manual completion.

use engine_core::decider::Report;
use engine_core::event::Body;
use engine_core::event::step::StepCompleted;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::ManualOutcome;
use serde_json::{Value, json};

use crate::support::{TOKEN, World, completion};

fn approval(extra: Value) -> World {
    let mut step = json!({"id": "sign", "handler": "x", "completion": "manual"});
    step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 1},
        "steps": [step, {"id": "other", "handler": "x"}],
    }));
    world.wait("sign");
    world
}

#[test]
fn waiting_frees_the_slot_and_shows_who_is_waited_for() {
    let mut world = approval(json!({}));
    assert_eq!(world.in_flight(), ["other"]);
    let substatus = world.run.attempt("sign").unwrap().substatus.unwrap();
    assert_eq!(substatus.as_str(), "WAITING_FOR_MANUAL_COMPLETION");
    world.succeed("other");
    assert_eq!(world.substatus(), Some("WAITING_FOR_HUMAN"));
    assert_eq!(world.run.view().message, "waiting for a person to complete sign");
}

#[test]
fn a_completion_ends_the_step_and_everything_about_it_is_recorded() {
    let mut world = approval(json!({}));
    world.finish_manually("sign", ManualOutcome::Succeeded).unwrap();
    assert_eq!(world.step("sign"), StepStatus::Success);
    let Body::StepCompleted(completed) = world.last() else { panic!("{}", world.story()) };
    let manual = completed.manual.as_ref().unwrap();
    assert_eq!(manual.actor_user_id, "bob");
    assert_eq!(manual.notes.as_deref(), Some("done by hand"));
    assert_eq!(manual.evidence_refs, ["doc-1"]);
}

#[test]
fn the_token_must_match_and_the_step_must_wait() {
    let mut world = approval(json!({}));
    let wrong = completion("sign", "another-token", ManualOutcome::Succeeded, "bob");
    assert_eq!(world.signal(wrong), Err("TOKEN_MISMATCH".into()));
    assert_eq!(world.finish_manually("other", ManualOutcome::Succeeded), Err("STEP_NOT_WAITING".into()));
    assert_eq!(world.finish_manually("nobody", ManualOutcome::Succeeded), Err("STEP_NOT_FOUND".into()));
}

#[test]
fn the_same_completion_again_is_accepted_and_changes_nothing() {
    let mut world = approval(json!({}));
    world.finish_manually("sign", ManualOutcome::Succeeded).unwrap();
    world.finish_manually("sign", ManualOutcome::Succeeded).unwrap();
    assert_eq!(world.story().matches("StepCompleted(sign").count(), 1);
    let other_token = completion("sign", "later", ManualOutcome::Succeeded, "bob");
    assert_eq!(world.signal(other_token), Err("STEP_NOT_WAITING".into()));
}

#[test]
fn whoever_triggered_the_run_may_not_complete_a_step_with_separated_duties() {
    let mut world = approval(json!({"separationOfDuties": true}));
    let own = completion("sign", TOKEN, ManualOutcome::Succeeded, "jane");
    assert_eq!(world.signal(own.clone()), Err("SEPARATION_OF_DUTIES".into()));
    let on_behalf = completion("sign", TOKEN, ManualOutcome::Succeeded, "bob");
    assert_eq!(world.signal_by("jane", on_behalf), Err("SEPARATION_OF_DUTIES".into()));
    world.finish_manually("sign", ManualOutcome::Succeeded).unwrap();

    let mut plain = approval(json!({}));
    plain.signal(own).unwrap();
}

#[test]
fn failed_and_cancelled_completions_go_through_the_failure_action() {
    for (outcome, status) in
        [(ManualOutcome::Failed, StepStatus::Failed), (ManualOutcome::Cancelled, StepStatus::Cancelled)]
    {
        let mut world = approval(json!({"onFailure": "pause"}));
        world.finish_manually("sign", outcome).unwrap();
        assert_eq!(world.step("sign"), status);
        assert_eq!(world.status(), RunStatus::Paused);
        assert!(world.run.attempt("sign").unwrap().held);
    }
}

#[test]
fn a_failed_run_withdraws_its_waits() {
    let mut world = approval(json!({}));
    world.fail("other");
    assert_eq!(world.step("sign"), StepStatus::Cancelled);
    assert_eq!(world.status(), RunStatus::Failed);
}

#[test]
fn a_completion_that_comes_after_its_wait_was_withdrawn_is_refused() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "steps": [
            {"id": "sign", "handler": "x", "completion": "manual"}, {"id": "a", "handler": "x"},
            {"id": "b", "handler": "x"},
        ],
    }));
    world.wait("sign");
    world.begin("b").unwrap();
    world.fail("a");
    assert_eq!(world.step("sign"), StepStatus::Cancelled);
    assert_eq!(world.finish_manually("sign", ManualOutcome::Succeeded), Err("RUN_ENDING".into()));
}

#[test]
fn the_same_completion_again_is_known_after_a_new_attempt_too() {
    let mut world = approval(json!({"onFailure": "retry"}));
    world.finish_manually("sign", ManualOutcome::Failed).unwrap();
    assert_eq!(world.attempt("sign"), 2);
    world.finish_manually("sign", ManualOutcome::Failed).unwrap();
    assert_eq!(world.attempt("sign"), 2);
}

#[test]
fn completion_works_while_paused_and_may_complete_the_run() {
    let mut world = approval(json!({}));
    world.succeed("other");
    world.pause().unwrap();
    world.finish_manually("sign", ManualOutcome::Succeeded).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_worker_cannot_end_a_manual_step_nor_wait_in_an_automatic_one() {
    let mut world = approval(json!({}));
    let error = world.report("sign", Report::Completed(StepCompleted::default())).unwrap_err();
    assert_eq!(error.code().as_str(), "ILLEGAL_TRANSITION");
    world.begin("other").unwrap();
    let waiting =
        engine_core::event::step::StepWaiting { completion_token: TOKEN.into(), output: None, prompt: None };
    let error = world.report("other", Report::Waiting(waiting)).unwrap_err();
    assert_eq!(error.code().as_str(), "ILLEGAL_TRANSITION");
}
