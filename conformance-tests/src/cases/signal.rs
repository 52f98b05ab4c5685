//! What every signal goes through, whatever it asks.

use std::time::Duration;

use client::{Ask, Decision};
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::signal::{ManualCompletion, ManualOutcome, Signal};
use engine_core::{Code, SignalId, StepId};
use serde_json::json;

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("signal", Control;
    an_accepted_signal_tells_who_what_and_why => ["SIGNAL-1"],
    a_refused_signal_tells_who_what_and_why_not => ["SIGNAL-1", "SIGNAL-5"],
    a_malformed_signal_leaves_nothing => ["SIGNAL-2", "COMPLETE-3"],
    a_text_that_is_no_signal_is_refused => ["SIGNAL-2", "SIGNAL-1"],
    the_effects_stand_beside_the_acceptance => ["SIGNAL-5"],
    before_its_start_a_run_takes_approve_and_cancel_only => ["SIGNAL-11"],
    a_step_that_is_not_in_the_plan_is_not_found => ["SIGNAL-13"],
    a_signal_outlives_whoever_took_it => ["SIGNAL-4", "SIGNAL-7"]
        needs [Need::Can(Fault::Kill), Need::Can(Fault::AnotherProcess)],
);

const GATED: &str = "
id: gated
version: 1.0.0
steps:
  - {id: a, handler: script, timeoutMs: 86400000, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";

fn completion(world: &World) -> ManualCompletion {
    ManualCompletion {
        schema_version: 1,
        completion_token: "token".to_owned(),
        outcome: ManualOutcome::Succeeded,
        actor_user_id: "grace".to_owned(),
        completed_at_iso: world.now(),
        notes: None,
        evidence_refs: Vec::new(),
    }
}

async fn an_accepted_signal_tells_who_what_and_why(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause().by("grace").because("lunch").with_id(SignalId::new("s-1")?)).await?;
    let accepted = run.event(EventType::SignalAccepted).await?;
    for (field, value) in
        [("signalId", "s-1"), ("signalType", "PAUSE"), ("actor", "grace"), ("reason", "lunch")]
    {
        ensure_eq!(accepted[field], value, "{field}");
    }
    run.accept(Ask::resume()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn a_refused_signal_tells_who_what_and_why_not(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let decision = run.ask(Ask::resume().by("grace").with_id(SignalId::new("s-1")?)).await?;
    let Decision::Rejected { code, message } = decision else {
        return Err(Stop::Fail(format!("a resume of a running run is answered by {decision:?}")));
    };
    ensure_eq!(code, "RUN_NOT_PAUSED", "the code");
    let rejected = run.event(EventType::SignalRejected).await?;
    for (field, value) in
        [("signalId", "s-1"), ("signalType", "RESUME"), ("actor", "grace"), ("code", "RUN_NOT_PAUSED")]
    {
        ensure_eq!(rejected[field], value, "{field}");
    }
    ensure!(!message.is_empty() && rejected["message"] == message, "a message for people: {rejected}");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn a_malformed_signal_leaves_nothing(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let good = completion(world);
    let complete = |completion: ManualCompletion| -> Result<Ask, Stop> {
        Ok(Ask::complete(StepId::new("a")?, completion, None))
    };
    let odd = ManualOutcome::Other("Perhaps".into());
    for ask in [
        Ask::pause().by(" "),
        complete(ManualCompletion { schema_version: 2, ..good.clone() })?,
        complete(ManualCompletion { completion_token: String::new(), ..good.clone() })?,
        complete(ManualCompletion { outcome: odd, ..good.clone() })?,
        complete(ManualCompletion { actor_user_id: " ".to_owned(), ..good })?,
    ] {
        run.refuse_at_the_door(ask, Code::SignalInvalidPayload).await?;
    }
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn a_text_that_is_no_signal_is_refused(_: &World) -> Outcome {
    for text in [
        json!({"type": "PAUSE", "actor": "ada"}),
        json!({"signalId": "s", "actor": "ada"}),
        json!({"signalId": "s", "type": "PAUSE"}),
        json!({"signalId": "s", "type": "EXPLODE", "actor": "ada"}),
        json!({"signalId": "s", "type": "RETRY_STEP", "actor": "ada"}),
        json!({"signalId": "s", "type": "PAUSE", "actor": "ada", "mode": "slowly"}),
    ] {
        match Signal::from_json(&text) {
            Ok(_) => return Err(Stop::Fail(format!("{text} is taken for a signal"))),
            Err(error) => ensure_eq!(error.code(), Code::SignalInvalidPayload, "the code for {text}"),
        }
    }
    Ok(())
}

async fn the_effects_stand_beside_the_acceptance(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let accepted = run.accept(Ask::pause()).await?;
    let lines = run.lines().await?;
    let place = usize::try_from(accepted).unwrap_or_default();
    ensure_eq!(lines[place - 1..], ["SignalAccepted", "RunPaused"], "the acceptance and its effect");
    run.accept(Ask::skip(StepId::new("b")?)).await?;
    let lines = run.lines().await?;
    ensure_eq!(lines[lines.len() - 2..], ["SignalAccepted", "StepSkipped b#1"], "another one");
    Ok(())
}

async fn before_its_start_a_run_takes_approve_and_cancel_only(world: &World) -> Outcome {
    let run = world.start(&GATED.replace("version:", "approval: required\nversion:")).await?;
    let step = StepId::new("a")?;
    for ask in [
        Ask::pause(),
        Ask::resume(),
        Ask::retry(step.clone(), true),
        Ask::skip(step.clone()),
        Ask::complete(step, completion(world), None),
    ] {
        run.refuse(ask, Code::RunNotStarted).await?;
    }
    run.accept(Ask::approve()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    let other = world.start(&GATED.replace("version:", "approval: required\nversion:")).await?;
    other.accept(Ask::cancel()).await?;
    other.ends(RunStatus::Cancelled).await
}

async fn a_step_that_is_not_in_the_plan_is_not_found(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let ghost = StepId::new("ghost")?;
    run.refuse(Ask::retry(ghost.clone(), true), Code::StepNotFound).await?;
    run.refuse(Ask::skip(ghost.clone()), Code::StepNotFound).await?;
    run.refuse(Ask::complete(ghost, completion(world), None), Code::StepNotFound).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn a_signal_outlives_whoever_took_it(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    world.kill().await?;
    let elsewhere = world.from_another_process().await?;
    let asked = elsewhere.client().submit(&run.run_id, Ask::pause()).await?;
    let early = elsewhere.client().decision(&asked, Duration::from_millis(50)).await?;
    ensure_eq!(early, Decision::Undecided { signal_id: asked.signal_id.clone() }, "the answer meanwhile");
    world.kill().await?;
    world.restart().await?;
    run.until(EventType::RunPaused).await?;
    let late = world.client().decision(&asked, Duration::from_secs(20)).await?;
    ensure!(matches!(late, Decision::Accepted { .. }), "the decision in the end: {late:?}");
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await
}
