//! SKIP_STEP: the run goes on without a step.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("skip_step", Control;
    a_step_that_has_not_begun_is_left_out => ["SKIPSTEP-1"],
    a_failed_step_is_skipped_by_an_attempt_of_its_own => ["SKIPSTEP-2", "ATTEMPT-2", "ATTEMPT-4", "ATTEMPT-5"],
    a_cancelled_step_is_skipped_too => ["SKIPSTEP-2", "ATTEMPT-4"],
    what_a_skip_makes_ready_waits_for_the_resume => ["RESUME-4", "PAUSE-2"],
    a_step_in_flight_is_not_skipped => ["SKIPSTEP-3"],
    a_step_that_waits_for_a_person_is_not_skipped => ["SKIPSTEP-3"],
    a_done_or_skipped_step_is_not_skipped => ["SKIPSTEP-4"],
);

const CHAIN: &str = "
id: chain
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
  - {id: c, handler: script, dependsOn: [b]}
";

fn skip(step: &str) -> Result<Ask, Stop> {
    Ok(Ask::skip(StepId::new(step)?))
}

async fn a_step_that_has_not_begun_is_left_out(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(skip("b")?).await?;
    let skipped = run.event(EventType::StepSkipped).await?;
    ensure_eq!(skipped["stepId"], "b", "who is skipped");
    ensure_eq!(skipped["logicalAttemptId"], 1, "which attempt");
    ensure_eq!(skipped["reason"], "operator", "why");
    ensure!(skipped["signalId"].is_string(), "it names the signal: {skipped}");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "c#1.1"], "the calls");
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "SUCCESS", "the outcome");
    Ok(())
}

async fn a_failed_step_is_skipped_by_an_attempt_of_its_own(world: &World) -> Outcome {
    skipped_after("permanent", StepStatus::Failed, world).await
}

async fn a_cancelled_step_is_skipped_too(world: &World) -> Outcome {
    skipped_after("cancelled", StepStatus::Cancelled, world).await
}

async fn skipped_after(class: &str, status: StepStatus, world: &World) -> Outcome {
    let plan = format!(
        "
id: given-up
version: 1.0.0
steps:
  - {{id: a, handler: script, onFailure: pause, with: {{fail: {{class: {class}}}}}}}
  - {{id: b, handler: script, dependsOn: [a]}}
"
    );
    let run = world.start(&plan).await?;
    run.until(EventType::RunDrained).await?;
    run.accept(skip("a")?).await?;
    let skipped = run.event(EventType::StepSkipped).await?;
    ensure_eq!(skipped["logicalAttemptId"], 2, "the attempt that is skipped");
    ensure_eq!(skipped["reason"], "operator", "why");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::StepRetryRequested).await?, 0, "the retries that it took");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    let attempts: Vec<(u32, StepStatus)> = run
        .step("a")
        .await?
        .attempts
        .iter()
        .map(|attempt| (attempt.logical_attempt_id, attempt.status))
        .collect();
    ensure_eq!(attempts, [(1, status), (2, StepStatus::Skipped)], "the attempts in the snapshot");
    Ok(())
}

async fn what_a_skip_makes_ready_waits_for_the_resume(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.accept(skip("b")?).await?;
    run.never(60_000, "the start of what is ready now", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "c")
    })
    .await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "c#1.1"], "the calls");
    Ok(())
}

async fn a_step_in_flight_is_not_skipped(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.refuse(skip("a")?, Code::StepInFlight).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn a_step_that_waits_for_a_person_is_not_skipped(world: &World) -> Outcome {
    let plan = "
id: asks
version: 1.0.0
steps:
  - {id: ask, handler: script, completion: manual}
";
    let run = world.start(plan).await?;
    run.until(EventType::StepWaiting).await?;
    run.refuse(skip("ask")?, Code::StepInFlight).await?;
    run.accept(run.completion("ask", client::Completion::succeeded()).await?).await?;
    run.ends(RunStatus::Completed).await
}

async fn a_done_or_skipped_step_is_not_skipped(world: &World) -> Outcome {
    let plan = "
id: over
version: 1.0.0
mode: graph
steps:
  - {id: done, handler: script}
  - {id: idle, handler: script, when: 'input.go'}
  - {id: keep, handler: script, with: {gate: keep}}
";
    let run = world.start_with(plan, |start| start.input(serde_json::json!({"go": false}))).await?;
    world.at_gate("keep", 1).await?;
    run.until_step(EventType::StepCompleted, "done").await?;
    run.until_step(EventType::StepSkipped, "idle").await?;
    run.refuse(skip("done")?, Code::StepTerminal).await?;
    run.refuse(skip("idle")?, Code::StepTerminal).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await
}
