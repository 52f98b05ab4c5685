//! Snapshots, progress, gaps and resync.

use std::sync::Arc;

use engine_core::decider::Report;
use engine_core::event::Event;
use engine_core::event::step::{ArtifactRef, StepCompleted};
use engine_core::machine::{RunStatus, RunSubstatus, StepStatus};
use engine_core::projection::{
    Advance, Freshness, MachineryAlert, Projection, ProjectionRecord, Projector, Resync, ResyncReply,
    ResyncRequest,
};
use engine_core::{Code, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::plans::{Wanted, scenarios};
use crate::support::{World, compile, id};

fn projected(world: &World) -> Projection {
    let mut projection = Projection::new(world.run.plan().clone());
    for event in &world.log {
        projection.apply(event);
    }
    projection
}

fn chain() -> Value {
    json!({
        "id": "p", "version": "1", "steps": [
            {"id": "a", "handler": "x", "onFailure": "retry"}, {"id": "b", "handler": "x", "dependsOn": ["a"]},
        ],
    })
}

#[test]
fn a_snapshot_tells_status_substatus_message_and_progress() {
    let mut world = World::started(chain());
    world.begin("a").unwrap();
    world.pause().unwrap();
    let snapshot = projected(&world).snapshot(world.now.plus_millis(400));
    assert_eq!(snapshot.status, Some(RunStatus::Paused));
    assert_eq!(snapshot.substatus, Some(RunSubstatus::Draining));
    assert_eq!(snapshot.message, "waiting for 1 step in flight");
    assert_eq!(snapshot.last_event_seq, world.log.len() as u64);
    assert_eq!(snapshot.progress.counts.running, 1);
    assert_eq!(snapshot.progress.elapsed_ms, 400);
    assert_eq!(snapshot.engine_run_ref.as_deref(), Some("mock://run"));
    assert_eq!(snapshot.steps.len(), 2);
}

#[test]
fn old_attempts_stay_with_their_errors() {
    let mut world = World::started(chain());
    world.begin("a").unwrap();
    world.fail_try("a").unwrap();
    world.fail_for_good("a").unwrap();
    world.succeed("a");
    let snapshot = projected(&world).snapshot(world.now);
    let step = &snapshot.steps[0];
    assert_eq!((step.status, step.logical_attempt_id), (StepStatus::Success, 2));
    assert_eq!(step.error, None);
    let statuses: Vec<StepStatus> = step.attempts.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [StepStatus::Failed, StepStatus::Success]);
    let first = &step.attempts[0];
    assert_eq!(first.error.as_ref().unwrap().code, "BadRequest");
    assert!(!first.error.as_ref().unwrap().retryable);
    assert_eq!((first.retries, first.engine_attempt_id), (1, Some(1)));
}

#[test]
fn durations_use_when_things_happened_and_never_run_backwards() {
    let mut world = World::started(chain());
    let (start, end) = (world.now.plus_millis(100), world.now.plus_millis(40));
    world.begin("a").unwrap();
    Arc::make_mut(world.log.last_mut().unwrap()).occurred_at = Some(start);
    world.complete("a").unwrap();
    let completed = world.log.len() - 1;
    Arc::make_mut(&mut world.log[completed]).occurred_at = Some(end);
    let step = projected(&world).snapshot(world.now).steps.remove(0);
    assert_eq!((step.started_at, step.completed_at), (Some(start), Some(start)), "clamped under clock skew");
}

#[test]
fn a_finished_run_tells_its_outcome_duration_and_artifacts() {
    let mut world = World::started(chain());
    let artifact = ArtifactRef {
        uri: "file:///tmp/report".into(),
        kind: "report".into(),
        sha256: None,
        size_bytes: Some(3),
        expires_at: None,
    };
    world.begin("a").unwrap();
    let completed = StepCompleted { artifacts: vec![artifact.clone()], ..StepCompleted::default() };
    world.report("a", Report::Completed(completed)).unwrap();
    world.now = world.now.plus_millis(250);
    world.succeed("b");
    let snapshot = projected(&world).snapshot(world.now.plus_millis(99_999));
    assert_eq!(snapshot.outcome.unwrap().as_str(), "SUCCESS");
    assert_eq!(snapshot.total_duration_ms, Some(250));
    assert_eq!(snapshot.progress.elapsed_ms, 250);
    assert!((snapshot.progress.percent - 100.0).abs() < f64::EPSILON);
    assert_eq!(snapshot.artifacts, std::slice::from_ref(&artifact));
    assert_eq!(snapshot.steps[0].artifacts, [artifact]);
}

#[test]
fn a_failed_run_tells_its_root_cause() {
    let mut world =
        World::started(json!({"id": "p", "version": "1", "steps": [{"id": "a", "handler": "x"}]}));
    world.fail("a");
    let snapshot = projected(&world).snapshot(world.now);
    assert_eq!(snapshot.error.unwrap().code, "STEP_FAILED");
    assert_eq!(snapshot.root_cause.unwrap().step_id, id("a"));
}

#[test]
fn pauses_do_not_count_for_the_estimate() {
    let mut world = World::started(chain());
    world.now = world.now.plus_millis(1000);
    world.succeed("a");
    world.pause().unwrap();
    world.now = world.now.plus_millis(50_000);
    let snapshot = projected(&world).snapshot(world.now);
    assert_eq!(snapshot.progress.elapsed_ms, 51_000);
    assert_eq!(snapshot.progress.estimated_remaining_ms, Some(1000));
}

fn events(world: &World, from: usize, to: usize) -> Vec<Event> {
    world.log[from..to].iter().map(|event| (**event).clone()).collect()
}

fn finished() -> World {
    let mut world = World::started(chain());
    world.succeed("a");
    world.succeed("b");
    world
}

#[test]
fn a_gap_marks_the_reader_stale_and_nothing_is_applied_until_resync() {
    let world = finished();
    let mut projector = Projector::new(world.run.plan().clone());
    assert_eq!(projector.advance(&events(&world, 0, 4)), Advance::Applied(Vec::new()));
    let Advance::Gap(request, alert) = projector.advance(&events(&world, 5, 6)) else { panic!("no gap") };
    assert_eq!(request, ResyncRequest::FromSnapshot { snapshot_seq: 4 });
    assert_eq!(alert.code, "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED");
    assert_eq!(projector.freshness(), Freshness::Stale { seen: 6 });
    assert_eq!(projector.projection().last_event_seq(), 4);
    assert!(matches!(projector.advance(&events(&world, 4, 5)), Advance::Gap(..)), "stale until a resync");

    let unchanged = ResyncReply { snapshot: None, events: events(&world, 0, 4) };
    assert_eq!(projector.resync(unchanged).unwrap(), Resync::StillStale, "the watermark must advance");
    let not_far_enough = ResyncReply { snapshot: None, events: events(&world, 4, 5) };
    assert_eq!(projector.resync(not_far_enough).unwrap(), Resync::StillStale, "and past the gap");
    let rest = ResyncReply { snapshot: None, events: events(&world, 5, 7) };
    assert_eq!(projector.resync(rest).unwrap(), Resync::Done);
    assert_eq!(projector.freshness(), Freshness::Fresh);
    assert_eq!(projector.advance(&events(&world, 7, world.log.len())), Advance::Applied(Vec::new()));
    assert_eq!(projector.projection().snapshot(world.now), projected(&world).snapshot(world.now));
}

#[test]
fn a_full_resync_rebuilds_and_a_stored_snapshot_is_continued() {
    let world = finished();
    let plan = world.run.plan().clone();
    let early = {
        let mut projection = Projection::new(plan.clone());
        world.log[..6].iter().for_each(|event| drop(projection.apply(event)));
        projection.record()
    };
    let stored: ProjectionRecord = serde_json::from_str(&serde_json::to_string(&early).unwrap()).unwrap();
    let length = world.log.len();
    for reply in [
        ResyncReply { snapshot: None, events: events(&world, 0, length) },
        ResyncReply { snapshot: Some(stored), events: events(&world, 6, length) },
    ] {
        let mut projector = Projector::new(plan.clone());
        projector.advance(&events(&world, 0, 2));
        assert!(matches!(projector.advance(&events(&world, 3, 4)), Advance::Gap(..)));
        assert_eq!(projector.resync(reply).unwrap(), Resync::Done);
        assert_eq!(projector.projection().snapshot(world.now), projected(&world).snapshot(world.now));
    }
}

#[test]
fn a_gap_that_the_store_confirms_is_no_gap() {
    let mut world = finished();
    for event in world.log.iter_mut().skip(5) {
        Arc::make_mut(event).run_seq += 10;
    }
    let mut projector = Projector::new(world.run.plan().clone());
    assert!(matches!(projector.advance(&events(&world, 0, world.log.len())), Advance::Gap(..)));
    let reply = ResyncReply { snapshot: None, events: events(&world, 0, world.log.len()) };
    assert_eq!(projector.resync(reply).unwrap(), Resync::Done);
    assert_eq!(projector.projection().run().state().status(), Some(RunStatus::Completed));
}

#[test]
fn a_snapshot_of_another_plan_is_refused() {
    let record = projected(&finished()).record();
    let other = compile(json!({"id": "p", "version": "1", "steps": [{"id": "z", "handler": "x"}]}));
    assert_eq!(Projection::restore(other, record).unwrap_err().code(), Code::PlanHashMismatch);
}

#[test]
fn a_step_that_seems_to_start_before_its_dependency_raises_an_alert_and_resolves_itself() {
    let world = finished();
    let place = |kind: &str, step: &str| {
        world.log.iter().position(|event| crate::support::name(event) == format!("{kind}({step}#1)")).unwrap()
    };
    let (completed, started) = (place("StepCompleted", "a"), place("StepStarted", "b"));
    let mut log = events(&world, 0, world.log.len());
    log.swap(completed, started);
    log[completed].run_seq = completed as u64 + 1;
    log[started].run_seq = started as u64 + 1;
    let mut projector = Projector::new(world.run.plan().clone());
    let Advance::Applied(alerts) = projector.advance(&log) else { panic!("no gap here") };
    assert_eq!(alerts.iter().map(|alert| alert.code).collect::<Vec<_>>(), ["PROJECTOR_CAUSAL_VIOLATION"]);
    assert_eq!(projector.projection().run().state().status(), Some(RunStatus::Completed));
}

#[test]
fn a_projection_more_than_five_seconds_behind_raises_an_alert() {
    let newest = Timestamp::from_millis(0);
    assert_eq!(MachineryAlert::lag(newest, newest.plus_millis(5000)), None);
    assert_eq!(MachineryAlert::lag(newest, newest.plus_millis(5001)).unwrap().code, "PROJECTOR_LAG_HIGH");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn projecting_in_parts_with_repeats_equals_projecting_at_once(
        scenario in scenarios(6, Wanted { failures: true, continue_on_partial_failure: false, delays: true }),
        choices in prop::collection::vec(0usize..64, 1..60), cuts in prop::collection::vec(0usize..400, 1..6),
    ) {
        let mut world = World::started(scenario.plan.clone());
        let mut next = 0;
        world.play(&scenario, |_| { next += 1; choices[next % choices.len()] });
        let log = events(&world, 0, world.log.len());
        let whole = projected(&world);
        let mut projection = Projection::new(world.run.plan().clone());
        for cut in cuts {
            // A reader that crashed starts again from an earlier place.
            for event in &log[..cut % (log.len() + 1)] {
                projection.apply(event);
            }
            let text = serde_json::to_string(&projection.record()).unwrap();
            let record: ProjectionRecord = serde_json::from_str(&text).unwrap();
            projection = Projection::restore(world.run.plan().clone(), record).unwrap();
        }
        for event in &log {
            projection.apply(event);
        }
        prop_assert_eq!(projection.snapshot(world.now), whole.snapshot(world.now), "{}", world.story());
        for step in &whole.snapshot(world.now).steps {
            let terminal = world.step(step.step_id.as_str());
            prop_assert_eq!(step.status, terminal);
        }
    }
}
