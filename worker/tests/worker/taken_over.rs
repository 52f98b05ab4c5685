//! Steps that were taken over from another run: their outputs stand in that run's log.

use engine_core::decider::{Report, Stimulus, origin};
use engine_core::event::run::{Origin, OriginType};
use engine_core::event::step::StepError;
use engine_core::signal::Signal;
use engine_core::{RunId, Timestamp};
use serde_json::{Value, json};

use crate::data::echo;
use crate::support::{World, value};

fn plan() -> Value {
    json!({"id": "p", "version": "1", "steps": [
        {"id": "a", "handler": "echo", "with": {"n": 41}},
        {"id": "m", "handler": "echo", "with": {"asked": true}, "completion": "manual", "dependsOn": ["a"]},
        {"id": "b", "handler": "echo", "dependsOn": ["m"], "retry": {"maxAttempts": 1},
         "with": {"n": "${ steps.a.output.n }", "asked": "${ steps.m.output.asked }"}},
    ]})
}

async fn fail_b(world: &World, worker: &worker::Worker, run: &RunId) {
    let ready = world.ready(worker, run, "b").await;
    world.report(run, "b", Report::Started(ready.started().clone())).await;
    let error = StepError::classified("BadRequest", None, "no");
    world.report(run, "b", Report::Failed { error, started_at: None, ended_at: None }).await;
}

async fn rerun(world: &World, source: &RunId) -> RunId {
    let history = world.history(source).await;
    let reused = origin::rerun_failed(history.run(), &history.code().plan).unwrap();
    assert_eq!(reused.len(), 2);
    let origin = Origin { origin_type: OriginType::Rerun, source_run_id: source.clone(), step: None, reused };
    world.start_plan(plan(), json!(null), Some(origin)).await
}

#[tokio::test]
async fn outputs_are_found_over_several_reruns_and_after_a_person_completed_the_step() {
    let world = World::memory();
    let worker = world.worker(echo());
    let first = world.start_plan(plan(), json!(null), None).await;
    world.complete(&worker, &first, "a").await;
    let Report::Waiting(waiting) = world.complete(&worker, &first, "m").await else { panic!("not waiting") };
    let signal = json!({
        "signalId": "s1", "type": "COMPLETE_STEP", "actor": "ada", "stepId": "m",
        "completion": {
            "completionToken": waiting.completion_token, "outcome": "Succeeded", "actorUserId": "ada",
            "completedAtIso": Timestamp::from_millis(0),
        },
    });
    let signal = Signal::from_json(&signal).unwrap();
    world.decide(&first, Stimulus::Signal(Box::new(signal))).await;
    let expected = json!({"n": 41, "asked": true});
    assert_eq!(value(world.execute(&worker, &first, "b").await), expected);
    fail_b(&world, &worker, &first).await;

    let second = rerun(&world, &first).await;
    assert_eq!(value(world.execute(&worker, &second, "b").await), expected);
    fail_b(&world, &worker, &second).await;
    let third = rerun(&world, &second).await;
    assert_eq!(value(world.execute(&worker, &third, "b").await), expected);
}
