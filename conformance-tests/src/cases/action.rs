//! What follows a final failure.

use client::Ask;
use engine_core::event::{Body, Event, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::port::Capability;
use serde_json::json;

use crate::case::cases;
use crate::harness::Need;
use crate::{Outcome, World, ensure_eq};

cases!("action", Control;
    a_steps_word_goes_before_its_handlers_and_the_plans => ["ACTION-1"],
    a_skipped_failure_lets_dependents_go_on => ["ACTION-3", "ATTEMPT-4", "PARTIAL-3"],
    a_retried_failure_gets_so_many_attempts => ["ACTION-4", "ATTEMPT-3"],
    without_a_number_three_attempts_follow => ["ACTION-4"],
    a_reassigned_failure_goes_from_agent_to_agent => ["ACTION-5", "ATTEMPT-3"],
    a_failure_that_pauses_holds_everything_new => ["ACTION-6"],
    fail_fast_cancels_what_is_in_flight => ["ACTION-10"] needs [Need::Has(Capability::FailFastCancel)],
    without_the_ability_fail_fast_lets_it_finish => ["ACTION-11"] needs [Need::Lacks(Capability::FailFastCancel)],
    later_failures_do_not_change_the_root_cause => ["ACTION-13", "RUN-26"],
    one_failure_too_many_ends_the_run => ["ACTION-16", "RUN-25", "PARTIAL-2"],
    no_attempt_follows_a_failure_in_a_failing_run => ["ACTION-8"],
);

async fn a_steps_word_goes_before_its_handlers_and_the_plans(world: &World) -> Outcome {
    let plan = "
id: words
version: 1.0.0
mode: graph
failure: {default: skip, overrides: {other: retry}, maxRetries: 1}
steps:
  - {id: by-plan, handler: script, with: {fail: {class: permanent}}}
  - {id: by-handler, handler: other, with: {fail: {class: permanent, times: 1}}}
  - {id: by-step, handler: other, onFailure: skip, with: {fail: {class: permanent}}}
  - {id: by-fallback, handler: other, fallback: spare, with: {fail: {class: permanent}}}
  - {id: spare, handler: script}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    for (step, attempt, status) in [
        ("by-plan", 2, StepStatus::Skipped),
        ("by-handler", 2, StepStatus::Success),
        ("by-step", 2, StepStatus::Skipped),
        ("by-fallback", 1, StepStatus::Failed),
        ("spare", 1, StepStatus::Success),
    ] {
        let seen = run.step(step).await?;
        ensure_eq!((seen.logical_attempt_id, seen.status), (attempt, status), "the end of {step}");
    }
    Ok(())
}

async fn a_skipped_failure_lets_dependents_go_on(world: &World) -> Outcome {
    let plan = "
id: skipped
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: skip, with: {fail: {class: permanent}}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let skipped = run.event(EventType::StepSkipped).await?;
    ensure_eq!(skipped["reason"], "failure_policy", "why");
    ensure_eq!(skipped["logicalAttemptId"], 2, "the attempt that is skipped");
    ensure_eq!(run.count(EventType::StepRetryRequested).await?, 0, "the retries that it took");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "PARTIAL", "the outcome");
    Ok(())
}

async fn a_retried_failure_gets_so_many_attempts(world: &World) -> Outcome {
    let plan = "
id: retried
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: retry, maxRetries: 2, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#2.1", "a#3.1"], "the calls");
    ensure_eq!(run.event(EventType::StepRetryRequested).await?["reason"], "retry", "why it is done again");
    ensure_eq!(run.event(EventType::RunFailed).await?["rootCause"]["logicalAttemptId"], 3, "the last one");
    Ok(())
}

async fn without_a_number_three_attempts_follow(world: &World) -> Outcome {
    let plan = "
id: by-default
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: retry, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#2.1", "a#3.1", "a#4.1"], "the calls");
    Ok(())
}

async fn a_reassigned_failure_goes_from_agent_to_agent(world: &World) -> Outcome {
    let plan = "
id: handed-on
version: 1.0.0
steps:
  - {id: a, handler: script, agents: [first, second, third], onFailure: reassign, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let given: Vec<(u32, Option<String>)> = world
        .visits_of("a")
        .iter()
        .map(|visit| (visit.attempt, visit.agent.as_ref().map(ToString::to_string)))
        .collect();
    let expected = [(1, "first"), (2, "second"), (3, "third")];
    ensure_eq!(given, expected.map(|(attempt, agent)| (attempt, Some(agent.to_owned()))), "who was given it");
    let requested = run.event(EventType::StepRetryRequested).await?;
    ensure_eq!(requested["reason"], "reassign", "why it is done again");
    ensure_eq!(requested["agent"], "second", "who is next");
    Ok(())
}

async fn a_failure_that_pauses_holds_everything_new(world: &World) -> Outcome {
    let plan = "
id: held
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1}
steps:
  - {id: bad, handler: script, onFailure: pause, with: {fail: {class: permanent, times: 1}}}
  - {id: ready, handler: script}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    run.never(60_000, "anything of the step that was ready", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "ready")
    })
    .await?;
    let paused = run.event(EventType::RunPaused).await?;
    ensure_eq!(paused["cause"], "step_failed", "the cause");
    ensure_eq!(paused["causedByStep"], "bad", "the step");
    let substatus = run.snapshot().await?.substatus.map(|substatus| substatus.as_str());
    ensure_eq!(substatus, Some("WAITING_FOR_HUMAN"), "the substatus");
    run.accept(Ask::retry(engine_core::StepId::new("bad")?, true)).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["bad#1.1", "bad#2.1", "ready#1.1"], "the calls");
    Ok(())
}

/// One step that fails at gate `bad`, and one at gate `slow`.
const FAIL_FAST: &str = "
id: fast
version: 1.0.0
mode: graph
failure: {failFast: cancel}
steps:
  - {id: bad, handler: script, with: {gate: bad, fail: {class: permanent}}}
  - {id: slow, handler: script, with: {gate: slow}}
";

async fn fail_fast_cancels_what_is_in_flight(world: &World) -> Outcome {
    let run = world.start(FAIL_FAST).await?;
    world.at_gate("bad", 1).await?;
    world.at_gate("slow", 1).await?;
    world.open_gate("bad");
    run.ends(RunStatus::Failed).await?;
    let cancelled = run.event(EventType::StepCancelled).await?;
    ensure_eq!(cancelled["stepId"], "slow", "who is cancelled");
    ensure_eq!(cancelled["reason"], "RUN_FAILING", "why");
    ensure_eq!(cancelled["forced"], false, "it heard in time");
    Ok(())
}

async fn without_the_ability_fail_fast_lets_it_finish(world: &World) -> Outcome {
    let run = world.start(FAIL_FAST).await?;
    world.at_gate("bad", 1).await?;
    world.at_gate("slow", 1).await?;
    world.open_gate("bad");
    run.until(EventType::StepFailed).await?;
    run.never(10_000, "a cancellation or an end", |event| {
        matches!(event.body, Body::StepCancelled(_) | Body::RunFailed(_))
    })
    .await?;
    world.open_gate("slow");
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.step("slow").await?.status, StepStatus::Success, "what was in flight");
    Ok(())
}

async fn later_failures_do_not_change_the_root_cause(world: &World) -> Outcome {
    let plan = "
id: two-fail
version: 1.0.0
mode: graph
steps:
  - {id: a-later, handler: script, with: {gate: later, fail: {class: permanent, code: Later}}}
  - {id: first, handler: script, with: {gate: first, fail: {class: permanent, code: First}}}
";
    let run = world.start(plan).await?;
    world.at_gate("later", 1).await?;
    world.open_gate("first");
    run.until_step(EventType::StepFailed, "first").await?;
    world.open_gate("later");
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["rootCause"]["stepId"], "first", "the root cause");
    ensure_eq!(failed["rootCause"]["code"], "First", "its code");
    let steps: Vec<_> =
        failed["failedSteps"].as_array().into_iter().flatten().map(|step| &step["stepId"]).collect();
    ensure_eq!(json!(steps), json!(["first", "a-later"]), "the failed steps, in the order of the log");
    Ok(())
}

async fn one_failure_too_many_ends_the_run(world: &World) -> Outcome {
    let plan = "
id: enough
version: 1.0.0
limits: {maxFailures: 2}
failure: {default: skip, continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {fail: {class: permanent}}}
  - {id: b, handler: script, with: {fail: {class: permanent}}}
  - {id: c, handler: script, with: {fail: {class: permanent}}}
  - {id: d, handler: script}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["code"], "MAX_FAILURES", "the code");
    ensure_eq!(failed["rootCause"]["stepId"], "c", "the one that was too many");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "c#1.1"], "the calls");
    Ok(())
}

async fn no_attempt_follows_a_failure_in_a_failing_run(world: &World) -> Outcome {
    let plan = "
id: no-more
version: 1.0.0
mode: graph
steps:
  - {id: bad, handler: script, with: {gate: bad, fail: {class: permanent}}}
  - {id: again, handler: script, onFailure: retry, with: {gate: again, fail: {class: permanent}}}
  - {id: served, handler: script, fallback: spare, with: {gate: served, fail: {class: permanent}}}
  - {id: spare, handler: script}
";
    let run = world.start(plan).await?;
    world.at_gate("again", 1).await?;
    world.at_gate("served", 1).await?;
    world.open_gate("bad");
    run.until_step(EventType::StepFailed, "bad").await?;
    world.open_gate("again");
    run.until_step(EventType::StepFailed, "again").await?;
    world.open_gate("served");
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.visits().len(), 3, "the calls");
    let new = |event: &&Event| matches!(event.body, Body::StepRetryRequested(_));
    ensure_eq!(run.events().await?.iter().filter(new).count(), 0, "the new attempts");
    Ok(())
}
