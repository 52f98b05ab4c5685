//! Kills and restarts, and other processes on the same store.

use client::Ask;
use engine_core::StepId;
use engine_core::event::run::{PauseCause, RunPaused};
use engine_core::event::step::{StepError, StepFailed};
use engine_core::event::{Draft, Event, EventType, Kind, Subject};
use engine_core::failure::FailureClass;
use engine_core::machine::RunStatus;
use engine_core::port::StartRequest;
use engine_core::port::store::{AppendAs, AppendRequest, Appended};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::world::TestRun;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("durability", Durability;
    a_lost_worker_is_no_failed_try => ["WORKER-9", "WORKER-10", "WORKER-11"] needs [Need::Can(Fault::Kill)],
    what_has_ended_is_not_done_again_after_a_kill => ["CORE-20"] needs [Need::Can(Fault::Kill)],
    a_pause_outlives_its_process => ["CORE-20"] needs [Need::Can(Fault::Kill)],
    a_pause_behind_a_failure_that_nobody_had_seen_holds_it => ["RUN-34"] needs [Need::Can(Fault::Kill)],
    only_the_holder_of_the_lease_drives_a_run => ["START-4"] needs [Need::Can(Fault::AnotherProcess)],
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

/// Writes into the log of a run that nobody drives.
async fn write(world: &World, run: &TestRun, author: &str, draft: Draft, append_as: AppendAs) -> Outcome {
    let request = AppendRequest {
        tenant_id: world.client().scope().tenant_id.clone(),
        run_id: run.run_id.clone(),
        drafts: vec![draft],
        emitted_by: author.into(),
        append_as,
        fence: None,
    };
    let appended = world.subject().store.append(request).await?;
    ensure!(matches!(appended, Appended::Stored(_)), "what was written by hand met a conflict: {appended:?}");
    Ok(())
}

async fn a_pause_behind_a_failure_that_nobody_had_seen_holds_it(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("b", 1).await?;
    world.kill().await?;
    let seen = run.events().await?;
    // A worker told of the failure, and a driver paused that had not heard of it; then both were gone.
    let worker = run.until_step(EventType::StepStarted, "b").await?.emitted_by;
    let error = StepError::new(FailureClass::Permanent, "WORKER_LOST", "its worker was lost too often");
    let failed = StepFailed { error, tries: 1, losses: 0, manual: None };
    let failed = Draft::step(Subject::new(StepId::new("b")?, 1), failed);
    write(world, &run, &worker, failed, AppendAs::Worker).await?;
    let paused = RunPaused {
        pause_number: 1,
        cause: PauseCause::Signal,
        in_flight: 1,
        immediate: false,
        caused_by_step: None,
        signal_id: None,
        reason: None,
    };
    let decisions = seen.iter().filter(|event| event.body.kind() == Kind::Decision).count() as u64;
    let folded_through = seen.len() as u64;
    let append_as = AppendAs::Decision { expected: decisions, nothing_after: None, folded_through };
    write(world, &run, "conformance", Draft::run(paused), append_as).await?;
    world.restart().await?;
    run.until(EventType::RunDrained).await?;
    let ended = |event: &Event| client::read::ends_a_run(event);
    run.never(1_000, "an end", ended).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(
        (snapshot.status, snapshot.substatus.as_ref().map(|substatus| substatus.as_str())),
        (Some(RunStatus::Paused), Some("WAITING_FOR_HUMAN")),
        "what the run shows"
    );
    ensure!(run.step("b").await?.held, "a person must retry or skip the step");
    run.accept(Ask::retry(StepId::new("b")?, false)).await?;
    world.open_gate("b");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "b#2.1", "c#1.1"], "the calls");
    Ok(())
}

async fn only_the_holder_of_the_lease_drives_a_run(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("b", 1).await?;
    let elsewhere = world.from_another_process().await?;
    let tenant_id = world.client().scope().tenant_id.clone();
    let request = StartRequest { tenant_id, run_id: run.run_id.clone(), fresh: None };
    // Whatever it answers: the run is another's.
    let _ = elsewhere.client().engine().start(request).await;
    run.never(1_000, "a second delivery", |event| event.body.event_type() == Some(EventType::StepRetried))
        .await?;
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "c#1.1"], "the calls");
    Ok(())
}
