//! PAUSE, draining, orphans, RESUME, rescue while paused, human review.

use std::collections::BTreeMap;

use engine_core::decider::{Report, Stimulus};
use engine_core::event::Body;
use engine_core::event::run::PauseCause;
use engine_core::event::step::StepCompleted;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::{Command, PauseMode};
use serde_json::{Value, json};

use crate::support::{World, compile};

fn chain(failure: Value) -> World {
    World::started(json!({
        "id": "p", "version": "1", "failure": failure, "steps": [
            {"id": "a", "handler": "x"}, {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ],
    }))
}

#[test]
fn a_pause_drains_and_tells_so() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    assert_eq!(world.status(), RunStatus::Paused);
    assert_eq!(world.substatus(), Some("DRAINING"));
    assert_eq!(world.run.view().message, "waiting for 1 step in flight");
    world.fail_try("a").unwrap();
    assert_eq!(world.in_flight(), ["a"], "retries go on while draining");
    world.complete("a").unwrap();
    assert!(matches!(world.last(), Body::RunDrained(drained) if !drained.timed_out));
    assert_eq!((world.status(), world.substatus()), (RunStatus::Paused, None));
    assert!(world.in_flight().is_empty(), "nothing is released while paused");
    world.resume().unwrap();
    assert_eq!(world.in_flight(), ["b"]);
    assert_eq!(world.attempt("a"), 1, "nothing finished runs again");
}

#[test]
fn a_pause_with_nothing_in_flight_is_drained_at_once() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "steps": [{"id": "a", "handler": "x", "completion": "manual"}],
    }));
    world.wait("a");
    let effects = world.effects(Command::Pause { mode: PauseMode::Drain });
    assert_eq!(effects, ["SignalAccepted", "RunPaused", "RunDrained"], "in one append");
    world.pause().unwrap();
    assert!(world.story().ends_with("SignalAccepted RunPaused RunDrained"), "{}", world.story());
}

#[test]
fn an_attempt_released_before_the_pause_may_still_start() {
    let mut world = chain(json!({}));
    world.pause().unwrap();
    world.succeed("a");
    assert_eq!(world.status(), RunStatus::Paused);
}

#[test]
fn pausing_twice_and_resuming_what_runs_is_refused() {
    let mut world = chain(json!({}));
    assert_eq!(world.resume(), Err("RUN_NOT_PAUSED".into()));
    world.pause().unwrap();
    assert_eq!(world.pause(), Err("RUN_ALREADY_PAUSED".into()));
    world.resume().unwrap();
    world.pause().unwrap();
    let numbers: Vec<u32> = world
        .log
        .iter()
        .filter_map(|event| match &event.body {
            Body::RunPaused(paused) => Some(paused.pause_number),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn resuming_while_draining_ends_that_pause_without_a_drain() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    world.resume().unwrap();
    world.complete("a").unwrap();
    assert_eq!(world.in_flight(), ["b"]);
    assert!(!world.story().contains("RunDrained"));
}

#[test]
fn a_paused_run_completes_once_drained_and_nothing_is_left() {
    let mut world = chain(json!({}));
    world.succeed("a");
    world.begin("b").unwrap();
    world.pause().unwrap();
    world.complete("b").unwrap();
    assert!(world.story().ends_with("StepCompleted(b#1) RunDrained RunCompleted"), "{}", world.story());
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_drain_timeout_alerts_and_a_late_outcome_is_accepted_by_default() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    assert_eq!(world.timer_names(), ["drain.1"]);
    world.advance(299_999);
    assert_eq!(world.substatus(), Some("DRAINING"));
    world.advance(1);
    assert!(world.story().ends_with("TimerFired AlertRaised RunDrained"), "{}", world.story());
    assert!(
        matches!(world.last(), Body::RunDrained(drained) if drained.timed_out && drained.in_flight.len() == 1)
    );
    world.complete("a").unwrap();
    assert_eq!(world.step("a"), StepStatus::Success);
    world.resume().unwrap();
    assert_eq!(world.in_flight(), ["b"]);
}

#[test]
fn orphans_are_given_up_their_late_outcome_refused_and_done_again_on_resume() {
    let mut world = chain(json!({"orphans": "reject"}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    world.advance(300_000);
    assert_eq!(world.step("a"), StepStatus::Cancelled);
    let error = world.report("a", Report::Completed(StepCompleted::default())).unwrap_err();
    assert_eq!(error.code().as_str(), "ORPHANED_TASK");
    world.resume().unwrap();
    assert_eq!((world.step("a"), world.attempt("a")), (StepStatus::Pending, 2));
    assert_eq!(world.in_flight(), ["a"]);
    let late =
        world.tell(Stimulus::step(crate::support::id("a"), 1, Report::Completed(StepCompleted::default())));
    assert_eq!(late.unwrap_err().code().as_str(), "ORPHANED_TASK");
}

#[test]
fn an_immediate_pause_gives_up_what_is_in_flight_where_the_engine_can() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.signal(Command::Pause { mode: PauseMode::Immediate }).unwrap();
    assert!(world.story().ends_with("RunPaused StepCancelled(a#1) RunDrained"), "{}", world.story());
    world.resume().unwrap();
    assert_eq!(world.attempt("a"), 2);

    let plan = world.run.plan().clone();
    let mut plain = World::queued_with(plan, |queued| queued.capabilities.immediate_pause = false);
    plain.start();
    let refused = plain.signal(Command::Pause { mode: PauseMode::Immediate });
    assert_eq!(refused, Err("UNSUPPORTED".into()));
    assert_eq!(plain.status(), RunStatus::Running);
}

#[test]
fn a_failure_with_pause_waits_for_a_person_and_holds_releases() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 1}, "steps": [
            {"id": "a", "handler": "x", "onFailure": "pause"}, {"id": "b", "handler": "x"},
        ],
    }));
    world.fail("a");
    assert!(matches!(world.last(), Body::RunDrained(_)), "{}", world.story());
    assert!(world.in_flight().is_empty(), "b must not be released between failure and pause");
    assert_eq!((world.status(), world.substatus()), (RunStatus::Paused, Some("WAITING_FOR_HUMAN")));
    world.retry("a").unwrap();
    assert_eq!(world.substatus(), None, "rescued");
    world.resume().unwrap();
    world.succeed("a");
    world.succeed("b");
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn resuming_with_an_unrescued_failure_aborts() {
    let mut world = chain(json!({"default": "pause"}));
    world.fail("a");
    world.resume().unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(world.story().ends_with("RunResumed RunFailed"), "{}", world.story());
}

#[test]
fn a_failure_while_paused_never_fails_the_run_and_can_be_rescued() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    world.fail_for_good("a").unwrap();
    assert_eq!((world.status(), world.substatus()), (RunStatus::Paused, Some("WAITING_FOR_HUMAN")));
    let mut skipped = world.clone();
    skipped.skip("a").unwrap();
    skipped.resume().unwrap();
    assert_eq!(skipped.in_flight(), ["b"]);
    world.resume().unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
}

#[test]
fn a_review_pauses_when_the_plan_says_so_even_on_the_last_step() {
    let review = || Report::ReviewRequested { reason: "odd numbers".into(), context: BTreeMap::new() };
    let mut world = World::started(json!({
        "id": "p", "version": "1", "failure": {"pauseOnHumanReview": true}, "steps": [{"id": "a", "handler": "x"}],
    }));
    world.begin("a").unwrap();
    world.report("a", review()).unwrap();
    assert!(matches!(
        world.log.iter().find_map(|event| match &event.body {
            Body::RunPaused(paused) => Some(paused.cause.clone()),
            _ => None,
        }),
        Some(PauseCause::HumanReview)
    ));
    world.complete("a").unwrap();
    assert_eq!((world.status(), world.substatus()), (RunStatus::Paused, Some("WAITING_FOR_HUMAN")));
    world.resume().unwrap();
    assert_eq!(world.status(), RunStatus::Completed);

    let mut plain = chain(json!({}));
    plain.begin("a").unwrap();
    plain.report("a", review()).unwrap();
    assert_eq!(plain.status(), RunStatus::Running, "without the policy it is only recorded");
}

#[test]
fn a_review_holds_releases_before_its_pause_is_in_the_log() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 2},
        "failure": {"pauseOnHumanReview": true},
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}, {"id": "c", "handler": "x"}],
    }));
    world.begin("a").unwrap();
    world.begin("b").unwrap();
    let told = |step: &str, report| Stimulus::step(crate::support::id(step), 1, report);
    let review = Report::ReviewRequested { reason: "look".into(), context: BTreeMap::new() };
    for stimulus in [told("a", review), told("b", Report::Completed(StepCompleted::default()))] {
        let drafts = world.run.decide(stimulus).unwrap();
        world.append(drafts);
    }
    assert_eq!(world.in_flight(), ["a"]);
    world.settle();
    assert_eq!(world.status(), RunStatus::Paused);
}

#[test]
fn a_pause_that_comes_after_an_abort_it_did_not_know_holds_the_failure() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph", "steps": [
            {"id": "a", "handler": "x", "onFailure": "pause"}, {"id": "b", "handler": "x"},
        ],
    }));
    world.begin("a").unwrap();
    world.begin("b").unwrap();
    let failed = |step: &str| {
        let error = engine_core::event::step::StepError::classified("BadRequest", None, "");
        let report = Report::Failed { error, started_at: None, ended_at: None };
        Stimulus::step(crate::support::id(step), 1, report)
    };
    let first = world.run.decide(failed("a")).unwrap();
    world.append(first);
    let pause = world.run.settle();
    let second = world.run.decide(failed("b")).unwrap();
    world.append(second);
    world.append(pause);
    world.settle();
    assert_eq!((world.status(), world.substatus()), (RunStatus::Paused, Some("WAITING_FOR_HUMAN")));
    world.retry("b").unwrap();
    world.skip("a").unwrap();
    world.resume().unwrap();
    world.succeed("b");
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn pausing_an_ending_run_is_refused() {
    let mut world = World::started(json!({
        "id": "p", "version": "1", "mode": "graph",
        "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}],
    }));
    world.begin("b").unwrap();
    world.fail("a");
    for refused in [world.pause(), world.resume(), world.retry("a"), world.skip("a")] {
        assert_eq!(refused, Err("RUN_ENDING".into()));
    }
}

#[test]
fn effects_of_a_pause_do_not_depend_on_the_plan_being_compiled_again() {
    let mut world = chain(json!({}));
    world.begin("a").unwrap();
    world.pause().unwrap();
    let again = compile(serde_json::to_value(world.run.plan().document()).unwrap());
    let events = world.log.iter().map(AsRef::as_ref);
    assert_eq!(engine_core::decider::Run::fold(again, events).unwrap(), world.run);
}
