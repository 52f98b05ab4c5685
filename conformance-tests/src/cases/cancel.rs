//! Cancel, grace.

use client::Ask;
use engine_core::Code;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};

use crate::case::cases;
use crate::history::Left;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("cancel", Control;
    a_cancel_stops_what_runs_and_what_waits => ["CANCEL-2", "CANCEL-3", "CANCEL-7", "CANCEL-8", "RUN-28"],
    a_deaf_handler_is_cut_off_after_the_grace => ["CANCEL-4", "CANCEL-5", "RUN-19", "STEP-7"],
    an_outcome_within_the_grace_stands => ["CANCEL-9"],
    nothing_is_released_after_a_cancel => ["CANCEL-1"],
    a_cancel_replaces_a_failure_in_progress => ["CANCEL-10", "RUN-28"],
    a_cancel_of_a_paused_run_ends_it => ["CANCEL-1", "CANCEL-2", "CANCEL-8"],
    a_second_cancel_is_accepted_and_changes_nothing => ["CANCEL-12"],
    what_a_cancelled_attempt_held_is_free => ["CANCEL-6"],
    a_cancel_before_the_start_ends_the_run => ["CANCEL-13"],
    an_ending_run_takes_nothing_but_cancel => ["SIGNAL-12"],
);

const CHAIN: &str = "
id: chain
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";

/// The first step does not hear; the second would follow it.
const DEAF: &str = "
id: deaf
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a, deaf: true}}
  - {id: b, handler: script, dependsOn: [a]}
";

async fn a_cancel_stops_what_runs_and_what_waits(world: &World) -> Outcome {
    let plan = "
id: both
version: 1.0.0
mode: graph
steps:
  - {id: runs, handler: script, with: {gate: a}}
  - {id: waits, handler: script, completion: manual}
  - {id: next, handler: script, dependsOn: [runs, waits]}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.until(EventType::StepWaiting).await?;
    run.accept(Ask::cancel().by("grace").because("not wanted")).await?;
    run.ends(RunStatus::Cancelled).await?;
    let cancelled = run.event(EventType::RunCancelled).await?;
    ensure_eq!(cancelled["actor"], "grace", "who asked for it");
    ensure_eq!(cancelled["reason"], "not wanted", "why");
    ensure_eq!(cancelled["counts"]["cancelled"], 3, "the steps that are cancelled");
    for step in ["runs", "waits", "next"] {
        let step = run.step(step).await?;
        ensure_eq!(step.status, StepStatus::Cancelled, "{}", step.step_id);
    }
    let left = world.visits_of("runs")[0].left.clone();
    ensure_eq!(left, Some(Left::Failed("CANCELLED".to_owned())), "the handler heard");
    Ok(())
}

async fn a_deaf_handler_is_cut_off_after_the_grace(world: &World) -> Outcome {
    let run = world.start(DEAF).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::cancel()).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(
        snapshot.substatus.map(|substatus| substatus.as_str()),
        Some("CANCELLING"),
        "the run meanwhile"
    );
    let step = run.step("a").await?;
    ensure_eq!(step.substatus.map(|substatus| substatus.as_str()), Some("CANCELLING"), "the step meanwhile");
    run.never(4_000, "the end of the step", |event| {
        event.body.event_type() == Some(EventType::StepCancelled)
            && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "a")
    })
    .await?;
    world.pass(1_000).await?;
    run.ends(RunStatus::Cancelled).await?;
    let cut_off = run.until_step(EventType::StepCancelled, "a").await?;
    ensure_eq!(crate::world::run::json(&cut_off)?["forced"], true, "whether it was cut off");
    Ok(())
}

async fn an_outcome_within_the_grace_stands(world: &World) -> Outcome {
    let run = world.start(DEAF).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::cancel()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.step("a").await?.status, StepStatus::Success, "the step that ended in time");
    ensure_eq!(run.step("b").await?.status, StepStatus::Cancelled, "the step that did not begin");
    Ok(())
}

async fn nothing_is_released_after_a_cancel(world: &World) -> Outcome {
    let run = world.start(DEAF).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::cancel()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    ensure_eq!(run.count(EventType::StepStarted).await?, 1, "the starts");
    Ok(())
}

async fn what_a_cancelled_attempt_held_is_free(world: &World) -> Outcome {
    let plan = "
id: one-slot
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1}
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, agent: anna, with: {fail: {class: cancelled}}}
  - {id: b, handler: script, agent: anna}
";
    let run = world.start(plan).await?;
    run.until_step(EventType::StepCancelled, "a").await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls: the second has the slot of the first");
    Ok(())
}

async fn a_second_cancel_is_accepted_and_changes_nothing(world: &World) -> Outcome {
    let run = world.start(DEAF).await?;
    world.at_gate("a", 1).await?;
    let first = run.accept(Ask::cancel().by("grace")).await?;
    let before = run.events().await?;
    let second = run.accept(Ask::cancel().by("ada")).await?;
    ensure!(second > first, "the second is decided on its own");
    ensure_eq!(run.events().await?.len(), before.len() + 1, "the log grows by its acceptance alone");
    world.open_gate("a");
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.event(EventType::RunCancelled).await?["actor"], "grace", "whose cancel it was");
    Ok(())
}

async fn a_cancel_before_the_start_ends_the_run(world: &World) -> Outcome {
    let run = world.start(&CHAIN.replace("version:", "approval: required\nversion:")).await?;
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.count(EventType::RunStarted).await?, 0, "the starts");
    ensure!(world.entries().is_empty(), "no handler is called");
    Ok(())
}

async fn an_ending_run_takes_nothing_but_cancel(world: &World) -> Outcome {
    let run = world.start(DEAF).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::cancel()).await?;
    let step = engine_core::StepId::new("b")?;
    for ask in [Ask::pause(), Ask::resume(), Ask::retry(step.clone(), true), Ask::skip(step)] {
        run.refuse(ask, Code::RunEnding).await?;
    }
    run.accept(Ask::cancel()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Cancelled).await
}

async fn a_cancel_replaces_a_failure_in_progress(world: &World) -> Outcome {
    let plan = "
id: failing
version: 1.0.0
mode: graph
steps:
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: keep, handler: script, with: {gate: keep}}
";
    let run = world.start(plan).await?;
    world.at_gate("keep", 1).await?;
    run.until(EventType::StepFailed).await?;
    run.accept(Ask::cancel().by("grace").because("enough")).await?;
    run.ends(RunStatus::Cancelled).await?;
    let cancelled = run.event(EventType::RunCancelled).await?;
    ensure_eq!(cancelled["actor"], "grace", "who asked for it");
    ensure_eq!(run.step("keep").await?.status, StepStatus::Cancelled, "what was in flight");
    Ok(())
}

async fn a_cancel_of_a_paused_run_ends_it(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.step("a").await?.status, StepStatus::Success, "what had ended");
    ensure_eq!(run.step("b").await?.status, StepStatus::Cancelled, "what had not begun");
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}
