//! Classes of failures, tries, and what a failed run says.

use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};

use crate::case::cases;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("failure", Core;
    a_permanent_failure_is_final_and_ends_the_run => ["RETRY-3", "ACTION-2", "ACTION-15", "RUN-24", "RUN-26"],
    a_transient_failure_is_tried_again_until_it_succeeds => ["RETRY-1", "ATTEMPT-8", "TIME-8", "RETRY-6"],
    tries_end_with_max_attempts => ["RETRY-1", "RETRY-2", "RUN-25"],
    a_try_that_takes_too_long_is_a_timeout => ["FAIL-6", "RETRY-8"],
    a_failing_run_lets_what_is_in_flight_finish => ["ACTION-7", "ACTION-8", "ACTION-9", "ACTION-14"],
);

async fn a_permanent_failure_is_final_and_ends_the_run(world: &World) -> Outcome {
    let plan = "
id: broken
version: 1.0.0
steps:
  - {id: a, handler: script, with: {fail: {class: permanent, code: ValidationError}}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["code"], "STEP_FAILED", "the run's code");
    ensure_eq!(failed["rootCause"]["stepId"], "a", "the root cause");
    ensure_eq!(failed["rootCause"]["code"], "ValidationError", "its code");
    ensure!(
        failed["message"].as_str().is_some_and(|text| text.contains('a')),
        "a message for people: {failed}"
    );
    let step = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["rootCause"]["runSeq"], step["runSeq"], "the place of the root cause");
    ensure_eq!(step["error"]["class"], "permanent", "the class of the step's error");
    let blocked = run.step("b").await?;
    ensure_eq!(blocked.status, StepStatus::Pending, "what was never released");
    Ok(())
}

async fn a_transient_failure_is_tried_again_until_it_succeeds(world: &World) -> Outcome {
    let plan = "
id: flaky
version: 1.0.0
steps:
  - id: a
    handler: script
    retry: {maxAttempts: 4, initialBackoffMs: 100, backoffMultiplier: 2.0, maxBackoffMs: 150}
    with: {fail: {class: transient, code: ECONNREFUSED, times: 3}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2", "a#1.3", "a#1.4"], "the calls");
    let events = run.events().await?;
    let retried: Vec<_> =
        events.iter().filter(|event| event.body.event_type() == Some(EventType::StepRetried)).collect();
    let mut delays = Vec::new();
    for event in &retried {
        let told = crate::world::run::json(event)?;
        ensure_eq!(told["error"]["code"], "ECONNREFUSED", "the code of a failed try");
        ensure_eq!(told["error"]["class"], "transient", "the class of a failed try");
        ensure!(told["startedAt"].is_string() && told["endedAt"].is_string(), "start and end: {told}");
        delays.push(told["delayMs"].as_u64().unwrap_or_default());
    }
    ensure_eq!(delays, [100, 150, 150], "the delays: doubled, and at most the bound");
    let completed = run.until(EventType::StepCompleted).await?;
    let waited = completed.happened_at().millis_since(retried[0].emitted_at);
    ensure!(waited >= 400, "the delays last: only {waited} ms passed");
    Ok(())
}

async fn tries_end_with_max_attempts(world: &World) -> Outcome {
    let plan = "
id: hopeless
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10}, with: {fail: {class: transient}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2", "a#1.3"], "three tries, the first included");
    ensure_eq!(run.count(EventType::StepRetried).await?, 2, "the tries that another follows");
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["tries"], 3, "the tries that failed");
    ensure_eq!(run.event(EventType::RunFailed).await?["code"], "STEP_FAILED", "the run's code");
    Ok(())
}

async fn a_try_that_takes_too_long_is_a_timeout(world: &World) -> Outcome {
    let plan = "
id: slow
version: 1.0.0
steps:
  - {id: a, handler: script, timeoutMs: 300, retry: {maxAttempts: 1}, with: {gate: never, deaf: true}}
";
    let run = world.start(plan).await?;
    world.at_gate("never", 1).await?;
    world.pass(300).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["code"], "STEP_TIMEOUT", "the code");
    ensure_eq!(failed["error"]["class"], "timeout", "the class");
    Ok(())
}

async fn a_failing_run_lets_what_is_in_flight_finish(world: &World) -> Outcome {
    let plan = "
id: failing
version: 1.0.0
mode: graph
limits: {maxConcurrency: 2}
steps:
  - {id: bad, handler: script, with: {gate: bad, fail: {class: permanent}}}
  - {id: good, handler: script, with: {gate: good, fail: {class: transient, times: 1}}, retry: {initialBackoffMs: 50}}
  - {id: idle, handler: script}
";
    let run = world.start(plan).await?;
    world.at_gate("bad", 1).await?;
    world.at_gate("good", 1).await?;
    world.open_gate("bad");
    run.until_step(EventType::StepFailed, "bad").await?;
    run.never(1_000, "a release or an end", |event| {
        let idle = event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "idle");
        idle || event.body.event_type() == Some(EventType::RunFailed)
    })
    .await?;
    world.open_gate_for("good", 2);
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.step("good").await?.status, StepStatus::Success, "what was in flight, its retry included");
    ensure_eq!(run.step("idle").await?.status, StepStatus::Pending, "what was not");
    ensure_eq!(run.event(EventType::RunFailed).await?["rootCause"]["stepId"], "bad", "the root cause");
    Ok(())
}
