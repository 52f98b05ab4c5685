//! Kills and restarts, and other processes on the same store.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::{Outcome, World, ensure_eq};

cases!("durability", Durability;
    a_lost_worker_is_no_failed_try => ["WORKER-9", "WORKER-10", "WORKER-11"] needs [Need::Can(Fault::Kill)],
    what_has_ended_is_not_done_again_after_a_kill => ["CORE-20"] needs [Need::Can(Fault::Kill)],
    a_pause_outlives_its_process => ["CORE-20"] needs [Need::Can(Fault::Kill)],
    a_signal_from_another_process_is_decided => ["SIGNAL-9"] needs [Need::Can(Fault::AnotherProcess)],
);

const CHAIN: &str = "
id: chain
version: 1.0.0
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, timeoutMs: 86400000, with: {gate: b}}
  - {id: c, handler: script}
";

async fn a_lost_worker_is_no_failed_try(world: &World) -> Outcome {
    let plan = "
id: mortal
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {maxAttempts: 1}, with: {die: 1}}
";
    let run = world.start(plan).await?;
    world.entered("a", 1).await?;
    world.restart().await?;
    run.ends(RunStatus::Completed).await?;
    let lost = run.event(EventType::StepRetried).await?;
    ensure_eq!(lost["workerLost"], true, "what the second delivery says of the first");
    ensure_eq!(lost["error"]["code"], "WORKER_LOST", "its code");
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2"], "the calls");
    Ok(())
}

async fn what_has_ended_is_not_done_again_after_a_kill(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("b", 1).await?;
    world.kill().await?;
    world.restart().await?;
    world.at_gate("b", 2).await?;
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "b#1.2", "c#1.1"], "the calls");
    ensure_eq!(run.count(EventType::StepStarted).await?, 3, "the starts");
    Ok(())
}

async fn a_pause_outlives_its_process(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("b", 1).await?;
    run.accept(Ask::pause()).await?;
    world.kill().await?;
    world.restart().await?;
    world.at_gate("b", 2).await?;
    world.open_gate("b");
    run.until(EventType::RunDrained).await?;
    run.never(60_000, "the start of the next step", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "c")
    })
    .await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await
}

async fn a_signal_from_another_process_is_decided(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("b", 1).await?;
    let elsewhere = run.seen_by(&world.from_another_process().await?);
    elsewhere.accept(Ask::pause()).await?;
    world.open_gate("b");
    run.until(EventType::RunDrained).await?;
    elsewhere.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "c#1.1"], "the calls");
    Ok(())
}
