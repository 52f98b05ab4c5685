//! Envelopes, and that an ended run stays as it is.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("log", Core;
    every_event_has_its_envelope => ["EVENT-1", "EVENT-2", "CORE-1", "CORE-2", "STORE-1", "STORE-2", "KEY-1", "KEY-2", "VERSION-9"],
    an_ended_run_refuses_every_signal_and_stays => ["SIGNAL-10", "RUN-2", "EVENT-10"],
    a_signal_is_decided_once => ["SIGNAL-6"],
    the_snapshot_tells_what_the_log_tells => ["SNAP-1", "SNAP-2", "SNAP-4", "SNAP-6"],
);

const PAIR: &str = "
id: pair
version: 2.0.0
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, dependsOn: [a]}
";

async fn every_event_has_its_envelope(world: &World) -> Outcome {
    let run = world.start_with(PAIR, |start| start.correlation_id("trace-9")).await?;
    run.ends(RunStatus::Completed).await?;
    for (event, place) in run.events().await?.iter().zip(1_u64..) {
        let told = crate::world::run::json(event)?;
        ensure_eq!(told["runSeq"], place, "runSeq");
        ensure_eq!(told["runId"], run.run_id.as_str(), "runId");
        ensure_eq!(told["correlationId"], "trace-9", "correlationId");
        ensure_eq!(told["planVersion"], "2.0.0", "planVersion");
        ensure_eq!(told["schemaVersion"], "1.0", "schemaVersion");
        for field in ["eventType", "eventId", "emittedBy"] {
            ensure!(told[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {told}");
        }
        let key = told["idempotencyKey"].as_str().unwrap_or_default();
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        ensure!(key.len() == 64 && key.bytes().all(hex), "idempotencyKey: {key}");
        let at = told["emittedAt"].as_str().unwrap_or_default();
        ensure!(at.len() == 24 && at.ends_with('Z') && at.as_bytes()[19] == b'.', "emittedAt: {at}");
        let of_a_step = event.body.type_name().starts_with("Step");
        ensure_eq!(told["stepId"].is_string(), of_a_step, "whether {} names a step", event.body.type_name());
        ensure_eq!(told["logicalAttemptId"].is_u64(), of_a_step, "whether it names an attempt");
    }
    Ok(())
}

async fn an_ended_run_refuses_every_signal_and_stays(world: &World) -> Outcome {
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    let step = StepId::new("a")?;
    for ask in [
        Ask::pause(),
        Ask::resume(),
        Ask::cancel(),
        Ask::approve(),
        Ask::retry(step.clone(), true),
        Ask::skip(step),
    ] {
        run.refuse(ask, Code::RunTerminal).await?;
    }
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Completed), "the status after all that");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn a_signal_is_decided_once(world: &World) -> Outcome {
    let plan = "
id: gated
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    let pause = || Ok::<_, crate::Stop>(Ask::pause().with_id(engine_core::SignalId::new("p1")?));
    let first = run.accept(pause()?).await?;
    run.accept(Ask::resume()).await?;
    let before = run.events().await?;
    let again = run.accept(pause()?).await?;
    ensure_eq!(again, first, "the place of the decision");
    ensure_eq!(run.events().await?, before, "the log after the signal came again");
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Running), "the status");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::RunPaused).await?, 1, "the pauses");
    Ok(())
}

async fn the_snapshot_tells_what_the_log_tells(world: &World) -> Outcome {
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    let events = run.events().await?;
    let snapshot = run.snapshot().await?;
    let told = serde_json::to_value(&snapshot)
        .map_err(|cause| crate::Stop::Fail(format!("a snapshot cannot be written: {cause}")))?;
    ensure_eq!(told["runId"], run.run_id.as_str(), "runId");
    ensure_eq!(told["status"], "COMPLETED", "status");
    ensure!(told["message"].is_string(), "message: {told}");
    ensure_eq!(told["lastEventSeq"], events.len(), "lastEventSeq");
    let started = run.event(EventType::RunStarted).await?;
    ensure_eq!(told["engineRunRef"], started["engineRunRef"], "engineRunRef");
    ensure_eq!(told["startedAt"], started["startedAt"], "startedAt");
    ensure!(told["completedAt"].is_string() && told["totalDurationMs"].is_u64(), "its end: {told}");
    ensure!(told["artifacts"].is_array() && told["progress"].is_object(), "artifacts and progress: {told}");
    ensure_eq!(told["steps"].as_array().map(Vec::len), Some(2), "the steps");
    let step = &told["steps"][0];
    for field in ["stepId", "status", "logicalAttemptId", "startedAt", "completedAt", "attempts"] {
        ensure!(!step[field].is_null(), "{field} of a step: {step}");
    }
    Ok(())
}
