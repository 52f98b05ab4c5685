//! Order, joins, conditions.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("graph", Core;
    a_sequence_runs_in_the_order_of_its_list => ["GRAPH-8", "GRAPH-9", "GRAPH-10"],
    explicit_order_goes_before_the_list => ["GRAPH-10"],
    a_join_waits_for_every_branch => ["GRAPH-12"],
    branches_run_at_once_up_to_the_limit => ["SLOT-1", "SLOT-4", "SLOT-5"],
    a_false_condition_skips_without_a_call => ["COND-2", "COND-4", "GRAPH-2"],
    an_optional_dependency_lets_a_failed_step_pass => ["GRAPH-2", "GRAPH-3", "PARTIAL-1", "PARTIAL-3"],
    a_sequence_goes_on_past_a_step_that_is_lost => ["GRAPH-9"],
    priorities_go_from_urgent_to_low => ["SLOT-5", "SLOT-6"],
);

async fn a_sequence_runs_in_the_order_of_its_list(world: &World) -> Outcome {
    let plan = "
id: sequence
version: 1.0.0
steps:
  - {id: c, handler: script}
  - {id: a, handler: script}
  - {id: b, handler: script}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["c#1.1", "a#1.1", "b#1.1"], "the calls");
    let steps: Vec<String> = run.lines().await?.into_iter().filter(|line| line.starts_with("Step")).collect();
    let expected = ["StepStarted c#1", "StepCompleted c#1", "StepStarted a#1", "StepCompleted a#1"];
    ensure_eq!(steps[..4], expected, "each ends before the next begins");
    Ok(())
}

async fn explicit_order_goes_before_the_list(world: &World) -> Outcome {
    let plan = "
id: ordered
version: 1.0.0
steps:
  - {id: last, handler: script, order: 3}
  - {id: first, handler: script, order: 1}
  - {id: second, handler: script, order: 2}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["first#1.1", "second#1.1", "last#1.1"], "the calls");
    Ok(())
}

async fn a_join_waits_for_every_branch(world: &World) -> Outcome {
    let plan = "
id: diamond
version: 1.0.0
steps:
  - {id: start, handler: script}
  - {id: left, handler: script, dependsOn: [start], with: {gate: left}}
  - {id: right, handler: script, dependsOn: [start], with: {gate: right}}
  - {id: join, handler: script, dependsOn: [left, right]}
";
    let run = world.start(plan).await?;
    world.at_gate("left", 1).await?;
    world.at_gate("right", 1).await?;
    world.open_gate("left");
    run.until_step(EventType::StepCompleted, "left").await?;
    run.never(1_000, "the start of the join", |event| {
        event.body.event_type() == Some(EventType::StepStarted)
            && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "join")
    })
    .await?;
    world.open_gate("right");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries().last().map(String::as_str), Some("join#1.1"), "the last call");
    Ok(())
}

async fn branches_run_at_once_up_to_the_limit(world: &World) -> Outcome {
    let plan = "
id: wide
version: 1.0.0
mode: graph
limits: {maxConcurrency: 2}
steps:
  - {id: low, handler: script, priority: 3, with: {gate: g}}
  - {id: b, handler: script, with: {gate: g}}
  - {id: a, handler: script, with: {gate: g}}
  - {id: urgent, handler: script, priority: 0, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 2).await?;
    run.never(1_000, "a third start", |event| {
        event.body.event_type() == Some(EventType::StepStarted)
            && !event.subject.as_ref().is_some_and(|subject| ["urgent", "b"].contains(&subject.step.as_str()))
    })
    .await?;
    let mut first: Vec<String> = world.entries();
    first.sort();
    ensure_eq!(first, ["b#1.1", "urgent#1.1"], "the two that go first: by priority, then by place");
    world.open_gate("g");
    world.at_gate("g", 3).await?;
    ensure_eq!(world.entries()[2], "a#1.1", "who gets the slot that is free");
    world.open_gate("g");
    world.at_gate("g", 4).await?;
    ensure_eq!(world.entries()[3], "low#1.1", "who comes last");
    world.open_gate_for("g", 2);
    run.ends(RunStatus::Completed).await
}

async fn a_false_condition_skips_without_a_call(world: &World) -> Outcome {
    let plan = "
id: choosy
version: 1.0.0
mode: graph
steps:
  - {id: never, handler: script, when: 'input.go'}
  - {id: after, handler: script, dependsOn: [never]}
";
    let run = world.start_with(plan, |start| start.input(serde_json::json!({"go": false}))).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["after#1.1"], "the calls");
    let skipped = run.event(EventType::StepSkipped).await?;
    ensure_eq!(skipped["reason"], "condition_false", "the reason");
    ensure_eq!(run.step("never").await?.status, StepStatus::Skipped, "the step's status");
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "SUCCESS", "the outcome");
    Ok(())
}

async fn an_optional_dependency_lets_a_failed_step_pass(world: &World) -> Outcome {
    let plan = "
id: optional
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: needs, handler: script, dependsOn: [bad]}
  - {id: would-like, handler: script, dependsOn: [{step: bad, required: false}]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let mut entries = world.entries();
    entries.sort();
    ensure_eq!(entries, ["bad#1.1", "would-like#1.1"], "the calls");
    let skipped = run.step("needs").await?;
    ensure!(
        skipped.status == StepStatus::Skipped
            && skipped.skip_reason.as_ref().map(|reason| reason.as_str()) == Some("dependency_failed"),
        "a step whose need failed is skipped: {skipped:?}"
    );
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "PARTIAL", "the outcome");
    Ok(())
}

async fn a_sequence_goes_on_past_a_step_that_is_lost(world: &World) -> Outcome {
    let plan = "
id: onwards
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: a, handler: script, with: {fail: {class: permanent}}}
  - {id: b, handler: script, with: {note: '${ steps.a.status }'}}
  - {id: c, handler: script, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "c#1.1"], "the calls");
    ensure_eq!(world.visits_of("b")[0].input["note"], "FAILED", "what the next one sees of the one before");
    // The last one depends on the first, although nobody has said so.
    run.refuse(Ask::retry(StepId::new("a")?, true), Code::DependentInFlight).await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "PARTIAL", "the outcome");
    Ok(())
}

async fn priorities_go_from_urgent_to_low(world: &World) -> Outcome {
    let plan = "
id: ranks
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1}
steps:
  - {id: low, handler: script, priority: 3}
  - {id: unsaid, handler: script}
  - {id: normal, handler: script, priority: 2}
  - {id: high, handler: script, priority: 1}
  - {id: urgent, handler: script, priority: 0}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(
        world.entries(),
        ["urgent#1.1", "high#1.1", "unsaid#1.1", "normal#1.1", "low#1.1"],
        "the calls: what says nothing is normal"
    );
    Ok(())
}
