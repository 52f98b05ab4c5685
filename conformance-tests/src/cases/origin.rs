//! Runs made from runs: reruns, copies, links, archives; and checkpoints.

use client::{Ask, Rerun, RerunFrom, Started};
use engine_core::event::{Event, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::{CheckpointId, Code, Error, StepId};
use serde_json::{Value, json};

use crate::case::cases;
use crate::world::TestRun;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("origin", Core;
    a_rerun_of_what_failed_takes_over_what_ended_well => ["ORIGIN-1", "ORIGIN-2", "ORIGIN-4", "ORIGIN-5", "ORIGIN-6", "ORIGIN-7"],
    what_was_skipped_for_a_failure_is_done_again => ["ORIGIN-7"],
    a_rerun_from_the_start_takes_over_nothing => ["ORIGIN-1", "ORIGIN-4"],
    a_rerun_needs_an_ended_source => ["ORIGIN-3"],
    a_changed_step_is_not_taken_over => ["ORIGIN-8"],
    a_copy_does_everything_again => ["ORIGIN-2", "ORIGIN-9"],
    a_copy_of_a_step_takes_what_belongs_to_it => ["ORIGIN-10"],
    a_link_takes_over_every_step => ["ORIGIN-2", "ORIGIN-5", "ORIGIN-6", "ORIGIN-12"],
    an_archive_holds_the_outputs_itself => ["ORIGIN-2", "ORIGIN-12", "ORIGIN-14"],
    only_a_completed_run_is_linked_or_archived => ["ORIGIN-11"],
    checkpoints_are_made_listed_and_pruned => ["CHECKPOINT-2", "CHECKPOINT-3"],
    no_checkpoint_is_made_unasked => ["CHECKPOINT-1"],
    a_restore_is_a_run_of_its_own => ["CHECKPOINT-3", "CHECKPOINT-4", "ORIGIN-4"],
);

const HALF: &str = "
id: half
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: {n: 1}}}
  - {id: chosen, handler: script, dependsOn: [a], when: 'input.never'}
  - {id: bad, handler: script, dependsOn: [chosen], with: {note: '${ steps.a.output.n }', fail: {class: permanent, times: 1}}}
  - {id: after, handler: script, dependsOn: [bad]}
";

fn made(world: &World, started: Result<Started, Error>) -> Result<TestRun, Stop> {
    let started = started?;
    ensure!(started.fresh, "it is a run of its own");
    Ok(world.track(started.run_id, started.fresh))
}

fn refusal<T>(answer: Result<T, Error>, code: Code, what: &str) -> Outcome {
    match answer {
        Ok(_) => Err(Stop::Fail(format!("{what} was taken"))),
        Err(error) => {
            ensure_eq!(error.code(), code, "the code of {what}");
            Ok(())
        }
    }
}

/// A run of half that has failed.
async fn failed(world: &World) -> Result<TestRun, Stop> {
    let run = world.start_with(HALF, |start| start.input(json!({}))).await?;
    run.ends(RunStatus::Failed).await?;
    Ok(run)
}

/// The `script` counts calls in a run, so the step that failed in the source fails in a rerun too.
async fn a_rerun_of_what_failed_takes_over_what_ended_well(world: &World) -> Outcome {
    let source = failed(world).await?;
    let before = source.events().await?;
    let calls = world.entries().len();
    let run = made(world, world.client().rerun(&source.run_id, Rerun::default()).await)?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries()[calls..], ["bad#1.1"], "the calls of the rerun");
    let seen = world.visits_of("bad");
    ensure_eq!(seen[1].input["note"], 1, "what the step sees of the step that was taken over");
    let origin = run.event(EventType::RunQueued).await?["origin"].clone();
    ensure_eq!(origin["type"], "rerun", "its type");
    ensure_eq!(origin["sourceRunId"], source.run_id.as_str(), "its source");
    let reused: Vec<(&Value, &Value, &Value)> = origin["reused"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| (&step["stepId"], &step["status"], &step["logicalAttemptId"]))
        .collect();
    let (one, success, skipped) = (json!(1), json!("SUCCESS"), json!("SKIPPED"));
    let (a, chosen) = (json!("a"), json!("chosen"));
    ensure_eq!(reused, [(&a, &success, &one), (&chosen, &skipped, &one)], "the steps that were taken over");
    let place = source.until_step(EventType::StepCompleted, "a").await?.run_seq;
    ensure_eq!(origin["reused"][0]["runSeq"], place, "the place of the first in the source's log");
    for (step, reused) in [("a", true), ("chosen", true), ("bad", false), ("after", false)] {
        ensure_eq!(run.step(step).await?.reused, reused, "whether {step} was taken over");
    }
    let lines = run.lines().await?;
    ensure!(
        !lines.iter().any(|line| line.contains(" a#") || line.contains(" chosen#")),
        "no event: {lines:?}"
    );
    ensure_eq!(source.events().await?, before, "the log of the source");
    Ok(())
}

async fn what_was_skipped_for_a_failure_is_done_again(world: &World) -> Outcome {
    let plan = "
id: partial
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: child, handler: script, dependsOn: [bad]}
  - {id: good, handler: script}
  - {id: late, handler: script, dependsOn: [{step: bad, required: false}]}
";
    let source = world.start(plan).await?;
    source.ends(RunStatus::Completed).await?;
    let run = made(world, world.client().rerun(&source.run_id, Rerun::default()).await)?;
    run.ends(RunStatus::Completed).await?;
    let reused: Vec<String> = run
        .snapshot()
        .await?
        .steps
        .into_iter()
        .filter(|step| step.reused)
        .map(|step| step.step_id.to_string())
        .collect();
    ensure_eq!(reused, ["good"], "who is taken over: nobody behind what is done again");
    Ok(())
}

async fn a_rerun_from_the_start_takes_over_nothing(world: &World) -> Outcome {
    let plan =
        "id: echo\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {value: '${ input }'}}\n";
    let source = world.start_with(plan, |start| start.input(json!("first"))).await?;
    source.ends(RunStatus::Completed).await?;
    let before = source.events().await?;
    for (input, expected) in [(None, "first"), (Some(json!("second")), "second")] {
        let rerun = Rerun { from: RerunFrom::Start, input, ..Rerun::default() };
        let run = made(world, world.client().rerun(&source.run_id, rerun).await)?;
        run.ends(RunStatus::Completed).await?;
        let output = run.event(EventType::RunCompleted).await?["output"]["value"]["a"].clone();
        ensure_eq!(output, expected, "what it left");
        ensure!(!run.step("a").await?.reused, "nothing is taken over");
    }
    let late = Rerun { input: Some(json!("third")), ..Rerun::default() };
    refusal(
        world.client().rerun(&source.run_id, late).await,
        Code::OriginInvalid,
        "another input behind steps that were done with the old one",
    )?;
    ensure_eq!(world.entries().len(), 3, "the calls");
    ensure_eq!(source.events().await?, before, "the log of the source");
    Ok(())
}

async fn a_rerun_needs_an_ended_source(world: &World) -> Outcome {
    let plan = "id: live\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {gate: g}}\n";
    let source = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    for from in [RerunFrom::Start, RerunFrom::Failed] {
        let rerun = Rerun { from, ..Rerun::default() };
        let answer = world.client().rerun(&source.run_id, rerun).await;
        refusal(answer, Code::OriginInvalid, "a rerun of a run that goes on")?;
    }
    ensure_eq!(world.list().await?.len(), 1, "the runs");
    world.open_gate("g");
    source.ends(RunStatus::Completed).await
}

async fn a_changed_step_is_not_taken_over(world: &World) -> Outcome {
    let source = failed(world).await?;
    let changed = world.plan(&HALF.replace("value: {n: 1}", "value: {n: 2}"))?;
    let rerun = Rerun { plan: Some(changed), ..Rerun::default() };
    refusal(
        world.client().rerun(&source.run_id, rerun).await,
        Code::PlanChanged,
        "a rerun with a changed step",
    )?;
    ensure_eq!(world.list().await?.len(), 1, "the runs");
    let mended = world.plan(&HALF.replace("fail: {class: permanent, times: 1}", "value: 9"))?;
    let rerun = Rerun { plan: Some(mended), ..Rerun::default() };
    let run = made(world, world.client().rerun(&source.run_id, rerun).await)?;
    run.ends(RunStatus::Completed).await?;
    ensure!(
        run.step("a").await?.reused,
        "a change of what is done again keeps nothing from being taken over"
    );
    Ok(())
}

async fn a_copy_does_everything_again(world: &World) -> Outcome {
    let plan =
        "id: twice\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n  - {id: b, handler: script}\n";
    let source = world.start(plan).await?;
    source.ends(RunStatus::Completed).await?;
    let before = source.events().await?;
    let run = made(world, world.client().copy(&source.run_id, None, None, None).await)?;
    run.ends(RunStatus::Completed).await?;
    let queued = run.event(EventType::RunQueued).await?;
    ensure_eq!(queued["origin"]["type"], "copy", "its type");
    ensure_eq!(queued["origin"]["sourceRunId"], source.run_id.as_str(), "its source");
    ensure!(
        queued["origin"]["reused"].as_array().is_none_or(Vec::is_empty),
        "nothing is taken over: {queued}"
    );
    ensure_eq!(
        queued["planRef"]["sha256"],
        before.first().map(crate::world::run::json).transpose()?.unwrap_or_default()["planRef"]["sha256"],
        "its plan"
    );
    ensure_eq!(world.entries().len(), 4, "the calls");
    ensure_eq!(source.events().await?, before, "the log of the source");
    Ok(())
}

async fn a_copy_of_a_step_takes_what_belongs_to_it(world: &World) -> Outcome {
    let plan = "
id: family
version: 1.0.0
steps:
  - {id: root, handler: script}
  - {id: chosen, handler: script, dependsOn: [root]}
  - {id: child, handler: script, dependsOn: [chosen, aunt]}
  - {id: aunt, handler: script, dependsOn: [root]}
  - {id: grandchild, handler: script, dependsOn: [child]}
  - {id: stranger, handler: script}
";
    let source = world.start(plan).await?;
    source.ends(RunStatus::Completed).await?;
    let calls = world.entries().len();
    let run =
        made(world, world.client().copy(&source.run_id, Some(StepId::new("chosen")?), None, None).await)?;
    run.ends(RunStatus::Completed).await?;
    let mut entries = world.entries().split_off(calls);
    entries.sort();
    ensure_eq!(entries, ["aunt#1.1", "child#1.1", "chosen#1.1", "root#1.1"], "the calls of the copy");
    let ghost = world.client().copy(&source.run_id, Some(StepId::new("ghost")?), None, None).await;
    refusal(ghost, Code::StepNotFound, "a copy of a step that is not there")
}

const DONE: &str = "
id: done
version: 1.0.0
result: '{n: steps.a.output.n}'
steps:
  - {id: a, handler: script, with: {value: {n: 7}}}
  - {id: chosen, handler: script, dependsOn: [a], when: 'input.never'}
";

async fn a_link_takes_over_every_step(world: &World) -> Outcome {
    let source = world.start_with(DONE, |start| start.input(json!({}))).await?;
    source.ends(RunStatus::Completed).await?;
    let run = made(world, world.client().link(&source.run_id, None).await)?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    let origin = run.event(EventType::RunQueued).await?["origin"].clone();
    ensure_eq!(
        (&origin["type"], &origin["sourceRunId"]),
        (&json!("link"), &json!(source.run_id)),
        "its origin"
    );
    ensure!(origin["reused"][0]["output"].is_null(), "the outputs stay with the source: {origin}");
    let snapshot = run.snapshot().await?;
    ensure!(snapshot.steps.iter().all(|step| step.reused), "every step is taken over");
    let statuses: Vec<StepStatus> = snapshot.steps.iter().map(|step| step.status).collect();
    ensure_eq!(statuses, [StepStatus::Success, StepStatus::Skipped], "as it ended");
    let output = run.event(EventType::RunCompleted).await?["output"]["value"].clone();
    ensure_eq!(output, json!({"n": 7}), "the output, of the source's outputs");
    ensure_eq!(run.lines().await?, ["RunQueued", "RunApproved", "RunStarted", "RunCompleted"], "its log");
    Ok(())
}

async fn an_archive_holds_the_outputs_itself(world: &World) -> Outcome {
    let source = world.start_with(DONE, |start| start.input(json!({}))).await?;
    source.ends(RunStatus::Completed).await?;
    let run = made(world, world.client().archive(&source.run_id, None).await)?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    let origin = run.event(EventType::RunQueued).await?["origin"].clone();
    ensure_eq!(origin["type"], "archive", "its type");
    ensure_eq!(origin["reused"][0]["output"]["value"], json!({"n": 7}), "the output, in the archive itself");
    let output = run.event(EventType::RunCompleted).await?["output"]["value"].clone();
    ensure_eq!(output, json!({"n": 7}), "its own output");
    Ok(())
}

async fn only_a_completed_run_is_linked_or_archived(world: &World) -> Outcome {
    let source = failed(world).await?;
    refusal(world.client().link(&source.run_id, None).await, Code::OriginInvalid, "a link to a failed run")?;
    refusal(
        world.client().archive(&source.run_id, None).await,
        Code::OriginInvalid,
        "an archive of a failed run",
    )?;
    let plan = "id: live\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {gate: g}}\n";
    let live = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    refusal(
        world.client().link(&live.run_id, None).await,
        Code::OriginInvalid,
        "a link to a run that goes on",
    )?;
    ensure_eq!(world.list().await?.len(), 2, "the runs");
    live.accept(Ask::cancel()).await?;
    live.ends(RunStatus::Cancelled).await
}

async fn checkpoints_are_made_listed_and_pruned(world: &World) -> Outcome {
    let plan = "id: saved\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {gate: g}}\n  - {id: b, handler: script, with: {gate: g}}\n";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    let first = world.client().checkpoint(&run.run_id, Some(CheckpointId::new("first")?)).await?;
    let created = run.event(EventType::CheckpointCreated).await?;
    ensure_eq!(created["checkpointId"], "first", "the checkpoint in the log");
    for (field, expected) in [
        ("upToSeq", json!(first.up_to_seq)),
        ("sizeBytes", json!(first.size_bytes)),
        ("sha256", json!(first.sha256)),
    ] {
        ensure_eq!(created[field], expected, "{field} of CheckpointCreated");
    }
    ensure_eq!(first.up_to_seq + 1, created["runSeq"].as_u64().unwrap_or_default(), "up to where it holds");
    let same = world.client().checkpoint(&run.run_id, Some(CheckpointId::new("first")?)).await?;
    ensure_eq!(same, first, "the same checkpoint again");
    world.open_gate("g");
    world.at_gate("g", 2).await?;
    let second = world.client().checkpoint(&run.run_id, Some(CheckpointId::new("second")?)).await?;
    let listed: Vec<String> = world
        .client()
        .checkpoints(&run.run_id)
        .await?
        .iter()
        .map(|found| found.checkpoint_id.to_string())
        .collect();
    ensure_eq!(listed, ["second", "first"], "the checkpoints, newest first");
    let gone = world.client().prune_checkpoints(&run.run_id, 1).await?;
    ensure_eq!(gone, [CheckpointId::new("first")?], "what was pruned");
    ensure_eq!(world.client().checkpoints(&run.run_id).await?, [second], "what is left");
    let lost = world.client().restore(&run.run_id, CheckpointId::new("first")?).await;
    refusal(lost, Code::NotFound, "a checkpoint that was pruned")?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await
}

async fn no_checkpoint_is_made_unasked(world: &World) -> Outcome {
    let plan = "id: long\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, timeoutMs: 3600000, with: {gate: g}}\n";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    let made = |event: &Event| event.body.event_type() == Some(EventType::CheckpointCreated);
    run.never(700_000, "a checkpoint", made).await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::CheckpointCreated).await?, 0, "the checkpoints of the whole run");
    Ok(())
}

async fn a_restore_is_a_run_of_its_own(world: &World) -> Outcome {
    let plan = "id: restored\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n  - {id: b, handler: script, with: {gate: g}}\n";
    let source = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.client().checkpoint(&source.run_id, Some(CheckpointId::new("half")?)).await?;
    let before = source.events().await?;
    let run = made(world, world.client().restore(&source.run_id, CheckpointId::new("half")?).await)?;
    world.at_gate("g", 2).await?;
    ensure_eq!(source.events().await?, before, "the log of the source");
    ensure_eq!(source.snapshot().await?.status, Some(RunStatus::Running), "the status of the source");
    world.open_gate_for("g", 2);
    for run in [&source, &run] {
        run.ends(RunStatus::Completed).await?;
    }
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "b#1.1"], "the calls: what had ended is taken over");
    ensure!(run.step("a").await?.reused, "the step that had ended is taken over");
    Ok(())
}
