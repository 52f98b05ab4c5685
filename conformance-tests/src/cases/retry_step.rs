//! RETRY_STEP: an ended step is done again, and with cascade everything that depends on it.

use client::Ask;
use engine_core::event::{Body, Event, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::port::SignalRequest;
use engine_core::signal::Signal;
use engine_core::{Code, StepId};
use serde_json::json;

use crate::case::cases;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("retry_step", Control;
    in_a_diamond_one_branch_and_the_join_are_done_again =>
        ["RETRYSTEP-4", "RETRYSTEP-7", "ATTEMPT-1", "ATTEMPT-2", "ATTEMPT-3", "SIGNAL-5"],
    inside_a_fork_what_runs_beside_it_goes_on => ["RETRYSTEP-3", "RETRYSTEP-4"],
    twice_makes_two_attempts_and_forgets_none => ["RETRYSTEP-4", "ATTEMPT-1", "ATTEMPT-5"],
    after_a_pause_it_waits_for_the_resume => ["RESUME-4", "PAUSE-2"],
    a_dependent_in_flight_makes_it_refused => ["RETRYSTEP-3"],
    a_dependent_that_waits_for_a_person_makes_it_refused => ["RETRYSTEP-3"],
    without_cascade_what_has_ended_stays => ["RETRYSTEP-5"],
    cascade_goes_without_saying => ["RETRYSTEP-2"],
    a_step_that_has_not_ended_is_not_retried => ["RETRYSTEP-1"],
    every_kind_of_end_can_be_retried => ["RETRYSTEP-7"],
    the_counts_of_retries_begin_again => ["RETRYSTEP-6"],
    the_chain_of_agents_begins_again => ["RETRYSTEP-6"],
);

/// A diamond, and a step at gate `keep` that keeps the run from ending.
const DIAMOND: &str = "
id: diamond
version: 1.0.0
steps:
  - {id: start, handler: script}
  - {id: left, handler: script, dependsOn: [start]}
  - {id: right, handler: script, dependsOn: [start]}
  - {id: join, handler: script, dependsOn: [left, right]}
  - {id: keep, handler: script, with: {gate: keep}}
";

fn ends_well(event: &Event, step: &str, attempt: u32) -> bool {
    matches!(event.body, Body::StepCompleted(_))
        && event
            .subject
            .as_ref()
            .is_some_and(|subject| subject.step.as_str() == step && subject.attempt == attempt)
}

fn retry(step: &str) -> Result<Ask, Stop> {
    Ok(Ask::retry(StepId::new(step)?, true))
}

async fn in_a_diamond_one_branch_and_the_join_are_done_again(world: &World) -> Outcome {
    let run = world.start(DIAMOND).await?;
    world.at_gate("keep", 1).await?;
    run.until_step(EventType::StepCompleted, "join").await?;
    let accepted = run.accept(retry("left")?.by("grace")).await?;
    run.until_event("the second join", |event| ends_well(event, "join", 2)).await?;
    let events = run.events().await?;
    let place = usize::try_from(accepted).unwrap_or_default();
    let batch = [crate::world::run::json(&events[place])?, crate::world::run::json(&events[place + 1])?];
    for (told, step, reason) in [(&batch[0], "left", "signal"), (&batch[1], "join", "cascade")] {
        ensure_eq!(told["eventType"], "StepRetryRequested", "what stands beside the acceptance");
        ensure_eq!(told["stepId"], step, "whose new attempt it is");
        ensure_eq!(told["logicalAttemptId"], 2, "its number");
        ensure_eq!(told["reason"], reason, "its reason");
        ensure!(told["signalId"].is_string(), "it names the signal: {told}");
    }
    ensure_eq!(batch[1]["causedByStep"], "left", "which step takes the join along");
    ensure_eq!(run.count(EventType::StepRetryRequested).await?, 2, "the new attempts");
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    let again: Vec<String> = world.entries().into_iter().filter(|entry| entry.contains("#2")).collect();
    ensure_eq!(again, ["left#2.1", "join#2.1"], "the calls that were made again, in order");
    ensure_eq!(run.step("right").await?.logical_attempt_id, 1, "the sibling's attempts");
    Ok(())
}

async fn inside_a_fork_what_runs_beside_it_goes_on(world: &World) -> Outcome {
    let plan = "
id: fork
version: 1.0.0
steps:
  - {id: start, handler: script}
  - {id: left, handler: script, dependsOn: [start]}
  - {id: after-left, handler: script, dependsOn: [left]}
  - {id: right, handler: script, dependsOn: [start], with: {gate: right}}
  - {id: join, handler: script, dependsOn: [after-left, right]}
";
    let run = world.start(plan).await?;
    world.at_gate("right", 1).await?;
    run.until_step(EventType::StepCompleted, "after-left").await?;
    run.accept(retry("left")?).await?;
    run.until_event("the second half of the fork", |event| ends_well(event, "after-left", 2)).await?;
    ensure_eq!(
        run.count(EventType::StepRetryRequested).await?,
        2,
        "the new attempts: the join has not begun"
    );
    world.open_gate("right");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("right").len(), 1, "the calls of the other branch");
    ensure_eq!(world.visits_of("join").len(), 1, "the calls of the join");
    ensure_eq!(run.step("join").await?.logical_attempt_id, 1, "the attempts of the join");
    Ok(())
}

async fn twice_makes_two_attempts_and_forgets_none(world: &World) -> Outcome {
    let run = world.start(DIAMOND).await?;
    world.at_gate("keep", 1).await?;
    run.until_step(EventType::StepCompleted, "join").await?;
    run.accept(retry("join")?).await?;
    run.until_event("the second attempt", |event| ends_well(event, "join", 2)).await?;
    run.accept(retry("join")?).await?;
    run.until_event("the third attempt", |event| ends_well(event, "join", 3)).await?;
    let step = run.step("join").await?;
    let attempts: Vec<(u32, StepStatus)> =
        step.attempts.iter().map(|attempt| (attempt.logical_attempt_id, attempt.status)).collect();
    let all = [(1, StepStatus::Success), (2, StepStatus::Success), (3, StepStatus::Success)];
    ensure_eq!(attempts, all, "the attempts in the snapshot");
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await
}

async fn after_a_pause_it_waits_for_the_resume(world: &World) -> Outcome {
    let plan = "
id: mended
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: pause, with: {fail: {class: permanent, times: 1}}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    run.accept(retry("a")?).await?;
    run.never(60_000, "a start before the resume", |event| {
        matches!(event.body, Body::StepStarted(_))
            && event.subject.as_ref().is_some_and(|subject| subject.attempt == 2)
    })
    .await?;
    ensure_eq!(run.step("a").await?.status, StepStatus::Pending, "the new attempt meanwhile");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#2.1", "b#1.1"], "the calls");
    Ok(())
}

async fn a_dependent_in_flight_makes_it_refused(world: &World) -> Outcome {
    let plan = "
id: busy
version: 1.0.0
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, dependsOn: [a]}
  - {id: c, handler: script, dependsOn: [b], with: {gate: c}}
";
    let run = world.start(plan).await?;
    world.at_gate("c", 1).await?;
    run.refuse(retry("a")?, Code::DependentInFlight).await?;
    run.refuse(retry("b")?, Code::DependentInFlight).await?;
    world.open_gate("c");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "c#1.1"], "the calls");
    Ok(())
}

async fn a_dependent_that_waits_for_a_person_makes_it_refused(world: &World) -> Outcome {
    let plan = "
id: asks
version: 1.0.0
steps:
  - {id: a, handler: script}
  - {id: ask, handler: script, dependsOn: [a], completion: manual}
";
    let run = world.start(plan).await?;
    run.until(EventType::StepWaiting).await?;
    run.refuse(retry("a")?, Code::DependentInFlight).await?;
    let done = run.completion("ask", client::Completion::succeeded()).await?;
    run.accept(done).await?;
    run.ends(RunStatus::Completed).await
}

async fn without_cascade_what_has_ended_stays(world: &World) -> Outcome {
    let run = world.start(DIAMOND).await?;
    world.at_gate("keep", 1).await?;
    run.until_step(EventType::StepCompleted, "join").await?;
    run.accept(Ask::retry(StepId::new("left")?, false)).await?;
    run.until_event("the second attempt", |event| ends_well(event, "left", 2)).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::StepRetryRequested).await?, 1, "the new attempts");
    ensure_eq!(world.visits_of("join").len(), 1, "the calls of the dependent");
    Ok(())
}

async fn cascade_goes_without_saying(world: &World) -> Outcome {
    let run = world.start(DIAMOND).await?;
    world.at_gate("keep", 1).await?;
    run.until_step(EventType::StepCompleted, "join").await?;
    let told = json!({"signalId": "as-written", "type": "RETRY_STEP", "actor": "ada", "stepId": "left"});
    let request = SignalRequest {
        tenant_id: world.client().scope().tenant_id.clone(),
        run_id: run.run_id.clone(),
        signal: Signal::from_json(&told)?,
    };
    world.subject().engine.signal(request).await?;
    run.until_event("the second attempt", |event| ends_well(event, "left", 2)).await?;
    run.until_event("the second join", |event| ends_well(event, "join", 2)).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await
}

async fn a_step_that_has_not_ended_is_not_retried(world: &World) -> Outcome {
    let plan = "
id: early
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.refuse(retry("a")?, Code::StepNotTerminal).await?;
    run.refuse(retry("b")?, Code::StepNotTerminal).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn every_kind_of_end_can_be_retried(world: &World) -> Outcome {
    let plan = "
id: ends
version: 1.0.0
mode: graph
failure: {default: pause}
steps:
  - {id: succeeded, handler: script}
  - {id: skipped, handler: script, when: 'input.go'}
  - {id: failed, handler: script, with: {fail: {class: permanent, times: 1}}}
  - {id: cancelled, handler: script, with: {fail: {class: cancelled, times: 1}}}
";
    let run = world.start_with(plan, |start| start.input(json!({"go": false}))).await?;
    for (kind, step) in [
        (EventType::StepCompleted, "succeeded"),
        (EventType::StepSkipped, "skipped"),
        (EventType::StepFailed, "failed"),
        (EventType::StepCancelled, "cancelled"),
    ] {
        run.until_step(kind, step).await?;
        run.accept(retry(step)?).await?;
    }
    run.until(EventType::RunPaused).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    for (step, status) in [
        ("succeeded", StepStatus::Success),
        ("skipped", StepStatus::Skipped),
        ("failed", StepStatus::Success),
        ("cancelled", StepStatus::Success),
    ] {
        let seen = run.step(step).await?;
        ensure_eq!((seen.logical_attempt_id, seen.status), (2, status), "the second attempt of {step}");
    }
    Ok(())
}

async fn the_counts_of_retries_begin_again(world: &World) -> Outcome {
    let plan = "
id: fresh
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, onFailure: retry, maxRetries: 1, with: {fail: {class: permanent, times: 3}}}
  - {id: keep, handler: script, with: {gate: keep}}
";
    let run = world.start(plan).await?;
    world.at_gate("keep", 1).await?;
    run.until_event("the second failure", |event| fails(event, 2)).await?;
    run.never(1_000, "a third attempt by itself", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.attempt == 3)
    })
    .await?;
    run.accept(retry("a")?).await?;
    run.until_event("a success in the end", |event| ends_well(event, "a", 4)).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await
}

fn fails(event: &Event, attempt: u32) -> bool {
    matches!(event.body, Body::StepFailed(_))
        && event.subject.as_ref().is_some_and(|subject| subject.attempt == attempt)
}

async fn the_chain_of_agents_begins_again(world: &World) -> Outcome {
    let plan = "
id: handed-on
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, agents: [first, second], onFailure: reassign, with: {fail: {class: permanent, times: 3}}}
  - {id: keep, handler: script, with: {gate: keep}}
";
    let run = world.start(plan).await?;
    world.at_gate("keep", 1).await?;
    run.until_event("the failure of the last agent", |event| fails(event, 2)).await?;
    run.accept(retry("a")?).await?;
    run.until_event("a success in the end", |event| ends_well(event, "a", 4)).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Completed).await?;
    let agents: Vec<String> = world
        .visits_of("a")
        .iter()
        .map(|visit| visit.agent.as_ref().map_or("nobody".to_owned(), ToString::to_string))
        .collect();
    ensure_eq!(agents, ["first", "second", "first", "second"], "who was given it");
    Ok(())
}
