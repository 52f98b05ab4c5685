//! Handlers that ask for a person's eyes.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};

use crate::case::cases;
use crate::{Outcome, World, ensure_eq};

cases!("review", Manual;
    a_request_is_recorded_with_number_reason_and_context => ["REVIEW-1", "REVIEW-3"],
    a_request_does_not_end_its_attempt => ["REVIEW-5"],
    a_request_pauses_the_run_where_the_plan_says_so => ["REVIEW-2"],
    a_resume_acknowledges_the_review => ["REVIEW-4"],
);

const LOOKS: &str = "
id: looks
version: 1.0.0
steps:
  - {id: a, handler: script, with: {review: odd numbers, gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";

async fn a_request_is_recorded_with_number_reason_and_context(world: &World) -> Outcome {
    let run = world.start(LOOKS).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    let review = run.event(EventType::HumanReviewRequested).await?;
    ensure_eq!(review["stepId"], "a", "who asks");
    ensure_eq!(review["number"], 1, "its number");
    ensure_eq!(review["reason"], "odd numbers", "its reason");
    ensure_eq!(review["context"]["attempt"], 1, "its context");
    ensure_eq!(run.count(EventType::RunPaused).await?, 0, "the pauses that nobody asked for");
    Ok(())
}

async fn a_request_does_not_end_its_attempt(world: &World) -> Outcome {
    let run = world.start(LOOKS).await?;
    world.at_gate("a", 1).await?;
    run.until(EventType::HumanReviewRequested).await?;
    ensure_eq!(run.step("a").await?.status, StepStatus::Running, "the attempt after it asked");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn a_request_pauses_the_run_where_the_plan_says_so(world: &World) -> Outcome {
    let plan = LOOKS.replace("steps:", "failure: {pauseOnHumanReview: true}\nsteps:");
    let run = world.start(&plan).await?;
    run.until(EventType::RunPaused).await?;
    let paused = run.event(EventType::RunPaused).await?;
    ensure_eq!(paused["cause"], "human_review", "the cause");
    ensure_eq!(paused["causedByStep"], "a", "the step");
    ensure_eq!(paused["inFlight"], 1, "what is in flight");
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.never(60_000, "anything of the next step", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "b")
    })
    .await?;
    let substatus = run.snapshot().await?.substatus.map(|substatus| substatus.as_str());
    ensure_eq!(substatus, Some("WAITING_FOR_HUMAN"), "the substatus once drained");
    Ok(())
}

async fn a_resume_acknowledges_the_review(world: &World) -> Outcome {
    let plan = "
id: last
version: 1.0.0
failure: {pauseOnHumanReview: true}
steps:
  - {id: a, handler: script, with: {review: odd numbers}}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    run.never(60_000, "an end that nobody acknowledged", |event| {
        event.body.event_type() == Some(EventType::RunCompleted)
    })
    .await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::RunPaused).await?, 1, "the pauses");
    Ok(())
}
