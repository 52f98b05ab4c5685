//! One decider: what a log means, what follows from it, who writes what. Most of it is judged by the checkers, which fold
//! the log of every case in many ways; the runs here leave what they need.

use client::{Ask, Completion};
use engine_core::StepId;
use engine_core::decider::Run;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::{Value, json};

use crate::case::cases;
use crate::world::run::json as written;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("core", Core;
    a_log_has_one_meaning => [
        "CORE-3", "CORE-4", "CORE-5", "CORE-6", "CORE-7", "CORE-8", "CORE-9", "CORE-14", "CORE-17", "CORE-19",
        "CORE-30", "STEP-2", "ATTEMPT-4", "ATTEMPT-7",
    ],
    siblings_in_another_order_end_alike => ["CORE-9", "CORE-40"],
    a_release_comes_at_once_and_stays => ["CORE-10", "CORE-11", "CORE-12", "SLOT-4", "SLOT-8"],
    a_release_is_acted_on_once => ["CORE-13"],
    what_follows_stands_in_the_log_before_anybody_acts => ["CORE-15", "CORE-16"],
    outputs_stay_out_of_the_state => ["CORE-18"],
    every_event_has_its_kind_and_its_writer => ["CORE-25", "CORE-26", "CORE-31", "COND-4", "STEP-1"],
    json_is_written_as_the_contract_says => ["CORE-1", "CORE-2"],
);

async fn a_log_has_one_meaning(world: &World) -> Outcome {
    let plan = "
id: eventful
version: 1.0.0
limits: {runTimeoutMs: 3600000}
steps:
  - {id: a, handler: script, retry: {maxAttempts: 4, initialBackoffMs: 10}, with: {fail: {class: transient, times: 2}, value: {}}, compensation: {handler: undo}}
  - {id: b, handler: script, dependsOn: [a], onFailure: retry, maxRetries: 1, with: {fail: {class: permanent, times: 1}}}
  - {id: c, handler: script, dependsOn: [b], onFailure: skip, with: {fail: {class: permanent}}}
  - {id: d, handler: script, dependsOn: [c], onFailure: pause, with: {fail: {class: permanent}}}
  - {id: e, handler: script, dependsOn: [d]}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    let paused = run.snapshot().await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(
        (paused.status, paused.last_event_seq),
        (Some(RunStatus::Paused), run.until(EventType::RunDrained).await?.run_seq),
        "the snapshot while it was paused"
    );
    let attempts: Vec<StepStatus> =
        run.step("c").await?.attempts.iter().map(|attempt| attempt.status).collect();
    ensure_eq!(attempts, [StepStatus::Failed, StepStatus::Skipped], "the attempts of what was skipped");
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["rootCause"]["stepId"], "d", "the root cause");
    Ok(())
}

async fn siblings_in_another_order_end_alike(world: &World) -> Outcome {
    let plan = "
id: siblings
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {gate: g}}
  - {id: b, handler: script, with: {gate: g, fail: {class: permanent}}}
  - {id: c, handler: script, onFailure: retry, maxRetries: 1, with: {gate: g, fail: {class: permanent, times: 1}}}
  - {id: end, handler: script, dependsOn: [a, c, {step: b, required: false}]}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 3).await?;
    world.open_gate_for("g", 4);
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "PARTIAL", "the outcome");
    Ok(())
}

async fn a_release_comes_at_once_and_stays(world: &World) -> Outcome {
    let plan = "
id: next-please
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1}
steps:
  - {id: a, handler: script}
  - {id: ask, handler: script, completion: manual}
  - {id: z, handler: script}
";
    let run = world.start(plan).await?;
    // Whoever waits for a person holds no slot, so the next one goes on before the person comes.
    run.until_step(EventType::StepCompleted, "z").await?;
    let completion = run.completion("ask", Completion::succeeded().output(json!({}))).await?;
    run.accept(completion).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "ask#1.1", "z#1.1"], "the calls");
    Ok(())
}

async fn a_release_is_acted_on_once(world: &World) -> Outcome {
    let plan = "
id: once
version: 1.0.0
mode: graph
steps:
  - {id: long, handler: script, with: {gate: long}}
  - {id: short, handler: script, with: {gate: short}}
";
    let run = world.start(plan).await?;
    world.at_gate("long", 1).await?;
    world.at_gate("short", 1).await?;
    // Each of these makes the driver look again at what is released.
    run.accept(Ask::pause()).await?;
    run.accept(Ask::resume()).await?;
    world.open_gate("short");
    run.until_step(EventType::StepCompleted, "short").await?;
    run.accept(Ask::retry(StepId::new("short")?, false)).await?;
    world.open_gate("short");
    world.at_gate("short", 2).await?;
    world.open_gate_for("long", 2);
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("long").len(), 1, "the calls of what went on all the time");
    ensure_eq!(run.count(EventType::StepRetried).await?, 0, "the tries that were given up");
    Ok(())
}

async fn what_follows_stands_in_the_log_before_anybody_acts(world: &World) -> Outcome {
    let plan = "
id: follows
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {value: {}}, compensation: {handler: undo}}
  - {id: lost, handler: script, dependsOn: [a], with: {fail: {class: permanent}}}
  - {id: behind, handler: script, dependsOn: [lost]}
  - {id: further, handler: script, dependsOn: [behind]}
  - {id: busy, handler: script, with: {gate: g}}
  - {id: again, handler: script, dependsOn: [{step: lost, required: false}], onFailure: retry, maxRetries: 1, with: {fail: {class: permanent, times: 1}}}
  - {id: over, handler: script, dependsOn: [again], onFailure: skip, with: {fail: {class: permanent}}}
  - {id: stop, handler: script, dependsOn: [over], onFailure: pause, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    run.until(EventType::RunPaused).await?;
    world.open_gate("g");
    run.until(EventType::RunDrained).await?;
    run.never(1_000, "anything more", |event| event.body.event_type() == Some(EventType::RunResumed)).await?;
    let events = run.events().await?;
    let folded = Run::fold(world.client().plan_of(&run.run_id).await?, &events)?;
    ensure_eq!(folded.settle(), [], "what still follows while everybody waits for a person");
    let lines = run.lines().await?;
    let place = |line: &str| {
        let found = lines.iter().position(|found| found == line);
        found.ok_or_else(|| Stop::Fail(format!("{line} does not stand in the log: {lines:?}")))
    };
    for (cause, effect) in [
        ("StepFailed lost#1", "StepSkipped behind#1"),
        ("StepFailed lost#1", "StepSkipped further#1"),
        ("StepFailed again#1", "StepRetryRequested again#2"),
        ("StepFailed over#1", "StepSkipped over#2"),
        ("StepFailed stop#1", "RunPaused"),
        ("RunPaused", "RunDrained"),
    ] {
        let between = &lines[place(cause)? + 1..place(effect)?];
        ensure!(
            between.iter().all(|line| !line.starts_with("StepStarted")),
            "between {cause} and {effect} somebody acted: {between:?}"
        );
    }
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await
}

async fn outputs_stay_out_of_the_state(world: &World) -> Outcome {
    let text = "an output that nobody decides by, and that stands in its event alone";
    let plan = format!(
        "id: light\nversion: 1.0.0\nsteps:\n  - {{id: a, handler: script, with: {{value: '{text}'}}}}\n  - {{id: b, handler: \
         script, completion: manual, with: {{value: '{text}'}}}}\n"
    );
    let run = world.start(&plan).await?;
    run.until(EventType::StepWaiting).await?;
    let completion = run.completion("b", Completion::succeeded().output(json!({ "said": text }))).await?;
    run.accept(completion).await?;
    run.ends(RunStatus::Completed).await?;
    let events = run.events().await?;
    let folded = Run::fold(world.client().plan_of(&run.run_id).await?, &events)?;
    let state = serde_json::to_string(folded.state())
        .map_err(|cause| Stop::Fail(format!("the state cannot be written: {cause}")))?;
    ensure!(!state.contains(text), "the state holds an output: {state}");
    let told =
        events.iter().filter(|event| written(event).is_ok_and(|event| event.to_string().contains(text)));
    ensure!(told.count() >= 4, "two ends, a wait and the end of the run hold it");
    Ok(())
}

async fn every_event_has_its_kind_and_its_writer(world: &World) -> Outcome {
    let plan = "
id: writers
version: 1.0.0
mode: graph
limits: {runTimeoutMs: 60000}
steps:
  - {id: not, handler: script, when: 'input.never'}
  - {id: asks, handler: script, completion: manual, with: {review: look}}
  - {id: tries, handler: script, retry: {initialBackoffMs: 10}, with: {fail: {class: transient, times: 1}}}
  - {id: waits, handler: script, with: {gate: g}}
  - {id: later, handler: script, dependsOn: [waits]}
";
    let run = world.start_with(plan, |start| start.input(json!({}))).await?;
    world.at_gate("g", 1).await?;
    run.until(EventType::StepWaiting).await?;
    world.pass(50).await?;
    run.until_step(EventType::StepCompleted, "tries").await?;
    run.refuse(Ask::resume(), engine_core::Code::RunNotPaused).await?;
    run.accept(Ask::pause()).await?;
    run.accept(Ask::resume()).await?;
    let completion = run.completion("asks", Completion::succeeded().output(json!({}))).await?;
    run.accept(completion).await?;
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.event(EventType::StepSkipped).await?["reason"], "condition_false", "the skip");
    Ok(())
}

async fn json_is_written_as_the_contract_says(world: &World) -> Outcome {
    let plan = "
id: written
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10}, with: {fail: {class: transient, times: 1}}}
  - {id: b, handler: script, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    run.accept(Ask::pause()).await?;
    let meanwhile = run.snapshot().await?;
    run.accept(Ask::resume()).await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    let mut told: Vec<Value> = run.events().await?.iter().map(written).collect::<Result<_, Stop>>()?;
    for snapshot in [meanwhile, run.snapshot().await?] {
        let snapshot = serde_json::to_value(snapshot)
            .map_err(|cause| Stop::Fail(format!("a snapshot cannot be written: {cause}")))?;
        told.push(snapshot);
    }
    let mut seen = 0;
    for document in &told {
        seen += fields(document)?;
    }
    ensure!(seen > 100, "only {seen} fields were looked at");
    Ok(())
}

/// Looks at every field of a document, what users put into it left out; says how many there are.
fn fields(document: &Value) -> Result<usize, Stop> {
    let mut count = 0;
    let mut todo = vec![document];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(items) => todo.extend(items),
            Value::Object(object) => {
                for (name, value) in object {
                    count += 1;
                    let camel = name.starts_with(|first: char| first.is_ascii_lowercase())
                        && name.chars().all(|letter| letter.is_ascii_alphanumeric());
                    ensure!(camel, "{name} is no name of a field: {document}");
                    field(name, value)?;
                    if !["value", "input", "details"].contains(&name.as_str()) {
                        todo.push(value);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(count)
}

fn field(name: &str, value: &Value) -> Outcome {
    let Some(text) = value.as_str() else { return Ok(()) };
    let upper = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    match name {
        "status" | "substatus" | "signalType" => {
            ensure!(text.chars().all(upper), "{name} is {text:?}");
        }
        "eventType" => {
            let pascal = text.starts_with(|first: char| first.is_ascii_uppercase())
                && text.chars().all(|letter| letter.is_ascii_alphanumeric());
            ensure!(pascal, "{name} is {text:?}");
        }
        _ if name.ends_with("At") => {
            let shape: String =
                text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
            ensure_eq!(shape, "0000-00-00T00:00:00.000Z", "{name}, which is {text}");
        }
        _ => {}
    }
    Ok(())
}
