//! Numbers of attempts and tries, what a handler is given, and workers that are lost.

use client::Ask;
use engine_core::event::{Body, EventType};
use engine_core::machine::RunStatus;
use engine_core::port::store::{ClaimRequest, LeaseRequest};
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::{Outcome, World, ensure, ensure_eq};

cases!("attempts", Durability;
    a_handler_is_told_both_numbers_and_one_token => ["WORKER-18", "ATTEMPT-6", "ATTEMPT-8"],
    an_attempt_starts_and_ends_once_whatever_is_lost =>
        ["ATTEMPT-6", "ATTEMPT-9", "ATTEMPT-10", "ATTEMPT-11", "WORKER-2", "WORKER-1"] needs [Need::Can(Fault::Kill)],
    too_many_losses_are_a_permanent_failure => ["WORKER-12"] needs [Need::Can(Fault::Kill)],
    where_the_plan_says_so_one_loss_is_a_failure => ["WORKER-13"] needs [Need::Can(Fault::Kill)],
    whatever_is_released_is_called => ["WORKER-1"],
    whoever_runs_a_step_holds_it => ["WORKER-5", "WORKER-8"],
    losses_are_not_counted_as_tries => ["WORKER-11"] needs [Need::Can(Fault::Kill)],
    a_try_that_failed_before_a_kill_counts_after_it => ["WORKER-14"] needs [Need::Can(Fault::Kill)],
    an_end_that_is_recorded_is_not_worked_for_again => ["CORE-20", "RESUME-3"] needs [Need::Can(Fault::Kill)],
);

async fn a_handler_is_told_both_numbers_and_one_token(world: &World) -> Outcome {
    let plan = "
id: numbers
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: retry, maxRetries: 1, retry: {maxAttempts: 2, initialBackoffMs: 10}, with: {fail: {class: transient, times: 3}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2", "a#2.1", "a#2.2"], "attempt and try of each call");
    let tokens: Vec<String> = world.visits_of("a").into_iter().map(|visit| visit.token).collect();
    ensure!(tokens.iter().all(|token| !token.is_empty()), "each call has a token: {tokens:?}");
    ensure!(tokens.iter().all(|token| *token == tokens[0]), "the same for the same input: {tokens:?}");
    let mut numbers = Vec::new();
    for event in run.events().await? {
        if let (Body::StepRetried(retried), Some(subject)) = (&event.body, &event.subject) {
            numbers.push((subject.attempt, subject.engine_attempt));
            ensure!(
                retried.started_at.is_some() && retried.ended_at.is_some() && retried.delay_ms == 10,
                "start, end and delay of a try: {retried:?}"
            );
        }
    }
    ensure_eq!(numbers, [(1, Some(1)), (2, Some(1))], "attempt and try of each StepRetried");
    Ok(())
}

async fn an_attempt_starts_and_ends_once_whatever_is_lost(world: &World) -> Outcome {
    let plan = "
id: mortal
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {maxAttempts: 1}, with: {die: 2}}
  - {id: b, handler: script}
";
    let run = world.start(plan).await?;
    world.entered("a", 1).await?;
    world.restart().await?;
    world.entered("a", 2).await?;
    world.restart().await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2", "a#1.3", "b#1.1"], "the calls");
    ensure_eq!(run.count(EventType::StepStarted).await?, 2, "the starts");
    ensure_eq!(run.count(EventType::StepCompleted).await?, 2, "the ends");
    ensure_eq!(run.count(EventType::StepRetried).await?, 2, "the tries that were lost");
    Ok(())
}

async fn too_many_losses_are_a_permanent_failure(world: &World) -> Outcome {
    let plan = "
id: mortal
version: 1.0.0
steps:
  - {id: a, handler: script, maxLosses: 1, with: {die: 2}}
";
    let run = world.start(plan).await?;
    world.entered("a", 1).await?;
    world.restart().await?;
    world.entered("a", 2).await?;
    world.restart().await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["code"], "WORKER_LOST", "the code");
    ensure_eq!(failed["error"]["class"], "permanent", "the class");
    ensure_eq!(failed["losses"], 2, "the losses");
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2"], "the calls");
    Ok(())
}

async fn where_the_plan_says_so_one_loss_is_a_failure(world: &World) -> Outcome {
    let plan = "
id: fragile
version: 1.0.0
steps:
  - {id: a, handler: script, onWorkerLost: fail, with: {die: 1}}
";
    let run = world.start(plan).await?;
    world.entered("a", 1).await?;
    world.restart().await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["code"], "WORKER_LOST", "the code");
    ensure_eq!(failed["error"]["class"], "permanent", "the class");
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}

async fn an_end_that_is_recorded_is_not_worked_for_again(world: &World) -> Outcome {
    let plan = "
id: recorded
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    world.kill().await?;
    world.restart().await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn whatever_is_released_is_called(world: &World) -> Outcome {
    let plan = "
id: three
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script}
  - {id: b, handler: script}
  - {id: c, handler: script}
  - {id: d, handler: script, dependsOn: [a, b, c]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let mut entries = world.entries();
    entries.sort();
    ensure_eq!(entries, ["a#1.1", "b#1.1", "c#1.1", "d#1.1"], "the calls");
    Ok(())
}

async fn whoever_runs_a_step_holds_it(world: &World) -> Outcome {
    let run = world
        .start("id: held\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {gate: g}}\n")
        .await?;
    world.at_gate("g", 1).await?;
    let event = run.until(EventType::StepStarted).await?;
    let Body::StepStarted(started) = &event.body else { return Ok(()) };
    ensure!(!started.worker.is_empty(), "StepStarted names its worker");
    let (store, run_id) = (&world.subject().store, run.run_id.clone());
    let (who, duration_ms) = ("somebody-else".to_owned(), 1_000);
    // Where an engine has the runs themselves, the lease of the run stands in for claims on its attempts.
    let taken = match world.subject().engine.lease() {
        Some(_) => store.lease(LeaseRequest { run_id, holder: who, duration_ms }).await.map(|_| ()),
        None => {
            let until = started.claim_until;
            ensure!(until.is_some_and(|until| until > event.emitted_at), "how long it holds: {until:?}");
            let step_id = StepId::new("a")?;
            store.claim(ClaimRequest { run_id, step_id, attempt: 1, worker: who, duration_ms }).await
        }
    };
    let refused = taken.err().map(|error| error.code());
    ensure_eq!(refused, Some(Code::LeaseHeld), "the answer to somebody else who wants it");
    world.open_gate("g");
    run.ends(RunStatus::Completed).await
}

async fn losses_are_not_counted_as_tries(world: &World) -> Outcome {
    let plan = "
id: mortal
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10}, with: {die: 1, fail: {class: transient, times: 2}}}
";
    let run = world.start(plan).await?;
    world.entered("a", 1).await?;
    world.restart().await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(
        world.entries(),
        ["a#1.1", "a#1.2", "a#1.3"],
        "the calls: one lost, one failed, one that did it"
    );
    Ok(())
}

async fn a_try_that_failed_before_a_kill_counts_after_it(world: &World) -> Outcome {
    let plan = "
id: counted
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 2000}, with: {fail: {class: transient, times: 3}}}
";
    let still = world.hold_time();
    let run = world.start(plan).await?;
    run.until(EventType::StepRetried).await?;
    world.kill().await?;
    drop(still);
    world.restart().await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.visits_of("a").len(), 2, "the calls");
    ensure_eq!(run.event(EventType::StepFailed).await?["tries"], 2, "the tries, as the log counts them");
    Ok(())
}
