//! Tries, lost workers, engines that report by themselves, late reports.

use engine_core::decider::{Report, StepReport, Stimulus};
use engine_core::event::Body;
use engine_core::event::step::{StepCompleted, StepError, StepStarted};
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::{Value, json};

use crate::support::{World, id};

fn one(extra: Value) -> World {
    let mut step = json!({"id": "a", "handler": "x"});
    step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    World::started(json!({"id": "p", "version": "1", "steps": [step]}))
}

fn lose(world: &mut World) -> Vec<String> {
    world.report("a", Report::WorkerLost { message: "claim expired".into() }).unwrap()
}

#[test]
fn tries_leave_numbered_retries_and_the_last_one_a_failure() {
    let mut world = one(json!({}));
    world.begin("a").unwrap();
    assert_eq!(world.fail_try("a").unwrap(), ["StepRetried(a#1)"]);
    assert_eq!(world.fail_try("a").unwrap(), ["StepRetried(a#1)"]);
    assert_eq!(world.fail_try("a").unwrap(), ["StepFailed(a#1)", "RunFailed"]);
    let numbers: Vec<Option<u32>> = world
        .log
        .iter()
        .filter(|event| matches!(event.body, Body::StepRetried(_)))
        .map(|event| event.subject.as_ref().unwrap().engine_attempt)
        .collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
    let delays: Vec<u64> = world
        .log
        .iter()
        .filter_map(|event| match &event.body {
            Body::StepRetried(retried) => Some(retried.delay_ms),
            _ => None,
        })
        .collect();
    assert_eq!(delays, [1000, 2000]);
}

#[test]
fn a_permanent_failure_is_final_at_once() {
    let mut world = one(json!({}));
    world.begin("a").unwrap();
    assert_eq!(world.fail_for_good("a").unwrap(), ["StepFailed(a#1)", "RunFailed"]);
}

#[test]
fn a_lost_worker_does_not_count_as_a_try() {
    let mut world = one(json!({"retry": {"maxAttempts": 2}}));
    world.begin("a").unwrap();
    for _ in 0..10 {
        assert_eq!(lose(&mut world), ["StepRetried(a#1)"]);
    }
    assert_eq!(world.fail_try("a").unwrap(), ["StepRetried(a#1)"], "the first try that failed");
    assert_eq!(lose(&mut world), ["StepFailed(a#1)", "RunFailed"], "the eleventh loss");
    let failed = world.log.iter().find_map(|event| match &event.body {
        Body::StepFailed(failed) => Some(failed),
        _ => None,
    });
    assert_eq!(failed.unwrap().error.code, "WORKER_LOST");
    assert_eq!((failed.unwrap().tries, failed.unwrap().losses), (1, 11));
}

#[test]
fn work_that_must_not_be_repeated_fails_with_its_worker() {
    let mut world = one(json!({"onWorkerLost": "fail"}));
    world.begin("a").unwrap();
    assert_eq!(lose(&mut world), ["StepFailed(a#1)", "RunFailed"]);
}

#[test]
fn a_failure_that_no_worker_saw_starts_and_fails_the_attempt() {
    let mut world = one(json!({}));
    let error = StepError::classified("NotFoundError", None, "no such activity");
    let report = Report::Failed { error, started_at: None, ended_at: None };
    assert_eq!(world.report("a", report).unwrap(), ["StepStarted(a#1)", "StepFailed(a#1)", "RunFailed"]);
}

#[test]
fn reports_about_what_has_ended_are_refused_by_name() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph",
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    }));
    let done = || Report::Completed(StepCompleted::default());
    world.succeed("a");
    assert_eq!(world.report("a", done()).unwrap_err().code().as_str(), "STEP_TERMINAL");
    assert_eq!(
        world.tell(Stimulus::step(id("a"), 2, done())).unwrap_err().code().as_str(),
        "ILLEGAL_TRANSITION"
    );
    assert_eq!(
        world.tell(Stimulus::step(id("zzz"), 1, done())).unwrap_err().code().as_str(),
        "STEP_NOT_FOUND"
    );
    world.succeed("b");
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.report("b", done()).unwrap_err().code().as_str(), "RUN_TERMINAL");
}

#[test]
fn an_illegal_transition_names_both_states_and_changes_nothing() {
    let mut world = one(json!({}));
    let before = world.run.clone();
    let error = world.complete("a").unwrap_err();
    assert_eq!(error.message(), "StepCompleted leads to SUCCESS, and there is no way there from PENDING");
    assert_eq!(world.run, before);
    world.begin("a").unwrap();
    let error = world.begin("a").unwrap_err();
    assert_eq!(error.message(), "StepStarted leads to RUNNING, and there is no way there from RUNNING");
}

#[test]
fn the_platforms_own_counter_is_kept_for_operators() {
    let mut world = one(json!({"retry": {"maxAttempts": 5}}));
    world.begin("a").unwrap();
    let mut numbers = Vec::new();
    for platform in [Some(7), None, Some(1)] {
        let error = StepError::classified("ETIMEDOUT", None, "");
        let report = Report::Failed { error, started_at: None, ended_at: None };
        let told = StepReport { engine_attempt: platform, ..StepReport::new(id("a"), 1, report) };
        world.tell(Stimulus::Step(Box::new(told))).unwrap();
        numbers.push(world.log.last().unwrap().subject.as_ref().unwrap().engine_attempt);
    }
    assert_eq!(numbers, [Some(7), Some(8), Some(9)], "a platform that begins again does not hide a try");
    assert_eq!(world.step("a"), StepStatus::Running);
}

#[test]
fn a_platform_that_begins_to_count_again_does_not_retry_for_ever() {
    let mut world = one(json!({}));
    world.begin("a").unwrap();
    for expected in ["StepRetried(a#1)", "StepRetried(a#1)", "StepFailed(a#1)"] {
        let error = StepError::classified("ETIMEDOUT", None, "");
        let report = Report::Failed { error, started_at: None, ended_at: None };
        let told = StepReport { engine_attempt: Some(1), ..StepReport::new(id("a"), 1, report) };
        assert_eq!(world.tell(Stimulus::Step(Box::new(told))).unwrap()[0], expected);
    }
}

#[test]
fn a_loss_and_the_failure_of_the_delivery_that_told_of_it_are_two_tries() {
    let mut world = one(json!({}));
    world.begin("a").unwrap();
    let told = |report| {
        let told = StepReport { engine_attempt: Some(2), ..StepReport::new(id("a"), 1, report) };
        Stimulus::Step(Box::new(told))
    };
    world.tell(told(Report::WorkerLost { message: "claim expired".into() })).unwrap();
    let error = StepError::classified("ETIMEDOUT", None, "");
    world.tell(told(Report::Failed { error, started_at: None, ended_at: None })).unwrap();
    let view = world.run.attempt("a").unwrap();
    assert_eq!((view.retries, view.losses), (1, 1));
}

#[test]
fn an_attempt_that_the_engine_gave_up_has_failed_whatever_the_class() {
    for started in [false, true] {
        let mut world = one(json!({}));
        if started {
            world.begin("a").unwrap();
        }
        let error =
            StepError::new(engine_core::failure::FailureClass::Timeout, "STEP_TIMEOUT", "no heartbeat");
        world.report("a", Report::EngineFailed { error }).unwrap();
        assert_eq!(world.step("a"), StepStatus::Failed);
        assert_eq!(world.status(), RunStatus::Failed);
    }
}

#[test]
fn a_start_that_could_not_be_written_in_time_goes_with_the_outcome() {
    let mut world = one(json!({}));
    let start = StepStarted {
        handler: engine_core::HandlerName::new("x").unwrap(),
        agent: None,
        worker: "worker-9".into(),
        claim_until: None,
        idempotency_token: None,
    };
    let done = Report::Completed(StepCompleted::default());
    let told = StepReport { start: Some(start), ..StepReport::new(id("a"), 1, done) };
    let names = world.tell(Stimulus::Step(Box::new(told))).unwrap();
    assert_eq!(names, ["StepStarted(a#1)", "StepCompleted(a#1)", "RunCompleted"]);
}

#[test]
fn a_driver_that_recovers_knows_when_the_next_try_may_begin() {
    let mut world = one(json!({}));
    world.begin("a").unwrap();
    world.fail_try("a").unwrap();
    let dispatched = world.actions().dispatch.remove(0);
    assert_eq!(dispatched.not_before, Some(world.now.plus_millis(1000)));
    assert_eq!(dispatched.try_number, 2);
}

#[test]
fn releases_can_be_taken_one_by_one() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 2},
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}, {"id": "c", "handler": "x"}],
    }));
    let taken = |world: &mut World| -> Vec<String> {
        world.run.take_released().into_iter().map(|dispatched| dispatched.attempt.step.to_string()).collect()
    };
    assert_eq!(taken(&mut world), ["a", "b"]);
    assert!(taken(&mut world).is_empty());
    world.succeed("a");
    assert_eq!(taken(&mut world), ["c"]);
}
