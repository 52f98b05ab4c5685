//! Steps that stand in for one that failed.

use client::Ask;
use engine_core::event::{Body, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::{Outcome, World, ensure_eq};

cases!("fallback", Control;
    a_fallback_begins_when_its_step_has_failed => ["FALLBACK-1", "FALLBACK-2", "FALLBACK-3", "PARTIAL-3"],
    a_fallback_that_is_not_needed_is_skipped => ["FALLBACK-6", "FALLBACK-1"],
    a_fallback_that_fails_leaves_the_failure_to_its_step => ["FALLBACK-4", "RUN-26"],
    a_fallback_that_stops_by_itself_counts_as_failed => ["FALLBACK-5"],
    a_fallback_that_its_condition_skips_counts_as_failed => ["FALLBACK-5"],
    a_fallback_that_a_person_skips_counts_as_failed => ["FALLBACK-5"],
    a_step_is_not_retried_while_its_fallback_runs => ["FALLBACK-7"],
    a_retried_step_gets_its_fallback_back => ["RETRYSTEP-4"],
    a_retried_fallback_takes_the_dependents_of_its_step_along => ["FALLBACK-8", "RETRYSTEP-4"],
);

/// A step that fails at gate `main`, its fallback at gate `spare`, and one that needs the step.
const SERVED: &str = "
id: served
version: 1.0.0
steps:
  - {id: main, handler: script, fallback: spare, with: {gate: main, fail: {class: permanent, code: Broken}}}
  - {id: spare, handler: script, with: {gate: spare, value: {from: spare}}}
  - {id: next, handler: script, dependsOn: [main], with: {note: '${ steps.main.output }'}}
";

async fn a_fallback_begins_when_its_step_has_failed(world: &World) -> Outcome {
    let run = world.start(SERVED).await?;
    world.at_gate("main", 1).await?;
    run.never(60_000, "anything of the fallback", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "spare")
    })
    .await?;
    world.open_gate("main");
    world.at_gate("spare", 1).await?;
    world.open_gate("spare");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["main#1.1", "spare#1.1", "next#1.1"], "the calls");
    ensure_eq!(world.visits_of("next")[0].input["note"]["from"], "spare", "whose output the dependent sees");
    let main = run.step("main").await?;
    ensure_eq!(main.status, StepStatus::Failed, "the step that failed");
    ensure_eq!(main.resolved_by, Some(StepId::new("spare")?), "who stands in for it");
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "SUCCESS", "the outcome");
    Ok(())
}

async fn a_fallback_that_is_not_needed_is_skipped(world: &World) -> Outcome {
    let plan = "
id: unneeded
version: 1.0.0
steps:
  - {id: main, handler: script, fallback: spare}
  - {id: spare, handler: script}
  - {id: keep, handler: script, dependsOn: [main], with: {gate: keep}}
";
    let run = world.start(plan).await?;
    world.at_gate("keep", 1).await?;
    let skipped = run.until_step(EventType::StepSkipped, "spare").await?;
    ensure_eq!(crate::world::run::json(&skipped)?["reason"], "fallback_not_needed", "why");
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("spare").len(), 0, "the calls of the fallback");
    Ok(())
}

async fn root_cause_is_main(world: &World, plan: &str, calls_of_spare: usize) -> Outcome {
    let run = world.start(plan).await?;
    world.open_gate("main");
    world.open_gate("spare");
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["rootCause"]["stepId"], "main", "the root cause");
    ensure_eq!(failed["rootCause"]["code"], "Broken", "its code");
    ensure_eq!(world.visits_of("spare").len(), calls_of_spare, "the calls of the fallback");
    ensure_eq!(world.visits_of("next").len(), 0, "the calls of the dependent");
    Ok(())
}

async fn a_fallback_that_fails_leaves_the_failure_to_its_step(world: &World) -> Outcome {
    let plan = SERVED.replace("value: {from: spare}", "fail: {class: permanent, code: SpareBroken}");
    root_cause_is_main(world, &plan, 1).await
}

async fn a_fallback_that_stops_by_itself_counts_as_failed(world: &World) -> Outcome {
    let plan = SERVED.replace("value: {from: spare}", "fail: {class: cancelled}");
    root_cause_is_main(world, &plan, 1).await
}

async fn a_fallback_that_its_condition_skips_counts_as_failed(world: &World) -> Outcome {
    let plan = SERVED.replace("id: spare,", "id: spare, when: '`false`',");
    root_cause_is_main(world, &plan, 0).await
}

async fn a_fallback_that_a_person_skips_counts_as_failed(world: &World) -> Outcome {
    let run = world.start(SERVED).await?;
    world.at_gate("main", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("main");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::skip(StepId::new("spare")?)).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["rootCause"]["stepId"], "main", "the root cause");
    ensure_eq!(world.entries(), ["main#1.1"], "the calls");
    Ok(())
}

async fn a_step_is_not_retried_while_its_fallback_runs(world: &World) -> Outcome {
    let run = world.start(SERVED).await?;
    world.open_gate("main");
    world.at_gate("spare", 1).await?;
    for cascade in [true, false] {
        run.refuse(Ask::retry(StepId::new("main")?, cascade), Code::DependentInFlight).await?;
    }
    world.open_gate("spare");
    run.ends(RunStatus::Completed).await
}

/// The same with a step that keeps the run from its end.
fn kept() -> String {
    format!("{SERVED}  - {{id: keep, handler: script, with: {{gate: keep}}}}\n")
}

async fn a_retried_step_gets_its_fallback_back(world: &World) -> Outcome {
    let run = world.start(&kept()).await?;
    world.open_gate("main");
    world.open_gate("spare");
    run.until_step(EventType::StepCompleted, "next").await?;
    run.accept(Ask::retry(StepId::new("main")?, true)).await?;
    let mut retried = Vec::new();
    for event in run.events().await? {
        if let (Body::StepRetryRequested(_), Some(subject)) = (&event.body, &event.subject) {
            retried.push(subject.step.to_string());
        }
    }
    ensure_eq!(retried, ["main", "next", "spare"], "the new attempts");
    world.open_gate("main");
    world.open_gate("spare");
    world.entered("next", 2).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("spare").len(), 2, "the calls of the fallback");
    Ok(())
}

async fn a_retried_fallback_takes_the_dependents_of_its_step_along(world: &World) -> Outcome {
    let run = world.start(&kept()).await?;
    world.open_gate("main");
    world.open_gate("spare");
    run.until_step(EventType::StepCompleted, "next").await?;
    run.accept(Ask::retry(StepId::new("spare")?, true)).await?;
    world.open_gate("spare");
    world.entered("next", 2).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("main").len(), 1, "the calls of the step it serves");
    ensure_eq!(run.step("next").await?.logical_attempt_id, 2, "the attempts of the dependent");
    Ok(())
}
