//! What a run and its steps show while they go on, and what becomes of failures in a paused run.

use client::{Ask, Completion};
use engine_core::StepId;
use engine_core::event::{Body, Event, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::projection::{Projection, RunSnapshot};
use serde_json::json;

use crate::case::cases;
use crate::world::TestRun;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("state", Core;
    every_prefix_of_a_log_is_projected_alike => ["SNAP-7", "RUN-12", "RUN-15", "STEP-4", "STEP-5", "KEY-3"],
    a_run_goes_only_along_its_edges => ["RUN-1"],
    waiting_for_a_person_shows => ["RUN-10", "RUN-11", "RUN-18", "STEP-6"],
    a_failure_that_waits_for_a_person_shows => ["RUN-17", "RUN-9"],
    compensating_shows => ["RUN-20"],
    a_failure_in_a_paused_run_waits => ["RUN-4", "RUN-5", "RUN-7"],
    a_retry_rescues_a_failure_in_a_paused_run => ["RUN-6", "ATTEMPT-5"],
    a_skip_rescues_a_failure_in_a_paused_run => ["RUN-6"],
    failed_steps_stand_in_the_order_of_the_log => ["RUN-27"],
    a_run_has_a_time_ordered_id => ["START-1"],
    a_changed_plan_leaves_runs_alone => ["CORE-23"],
    a_blocked_step_names_its_cause => ["GRAPH-5"],
    a_lost_branch_leaves_the_others_alone => ["GRAPH-6", "GRAPH-7"],
    dependencies_are_required_unless_they_say_otherwise => ["GRAPH-1", "GRAPH-4"],
    a_fallback_is_no_part_of_the_sequence => ["GRAPH-11"],
    a_local_step_leaves_the_same_events => ["DISPATCH-3"],
    a_local_step_has_ten_seconds => ["DISPATCH-5"],
    a_failed_step_keeps_its_progress => ["STEP-9"],
    a_step_that_succeeded_is_done => ["STEP-8"],
    progress_of_a_run_counts_its_steps => ["SNAP-3"],
);

/// Whether an event ends its run.
fn ends(event: &Event) -> bool {
    matches!(event.body, Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_))
}

fn substatus(snapshot: &RunSnapshot) -> Option<&str> {
    snapshot.substatus.as_ref().map(|substatus| substatus.as_str())
}

async fn every_prefix_of_a_log_is_projected_alike(world: &World) -> Outcome {
    let plan = "
id: eventful
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10}, compensation: {handler: undo}, with: {fail: {class: transient, times: 1}, value: {}}}
  - {id: b, handler: script, dependsOn: [a], onFailure: pause, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Failed).await?;
    let (plan, now) = (world.client().plan_of(&run.run_id).await?, world.now());
    let events = run.events().await?;
    let mut carried = Projection::new(plan.clone());
    let mut earlier: Option<RunSnapshot> = None;
    let (mut seen, mut of_a_step) = (Vec::new(), Vec::new());
    for (length, event) in (1..).zip(&events) {
        let before = earlier.clone();
        carried.apply(event);
        ensure_eq!(earlier, before, "the snapshot before, after place {length}");
        let mut whole = Projection::new(plan.clone());
        for event in &events[..length] {
            whole.apply(event);
        }
        let snapshot = carried.snapshot(now);
        ensure_eq!(snapshot, whole.snapshot(now), "the projection of {length} events at once and one by one");
        seen.push((
            snapshot.status.map(|status| status.to_string()),
            substatus(&snapshot).map(str::to_owned),
        ));
        let step = snapshot.steps.iter().find(|step| step.step_id.as_str() == "a");
        of_a_step
            .extend(step.and_then(|step| step.substatus.as_ref()).map(|shown| shown.as_str().to_owned()));
        earlier = Some(snapshot);
    }
    let known = ["QUEUED", "VALIDATING", "DRAINING", "WAITING_FOR_HUMAN", "CANCELLING", "COMPENSATING"];
    for (status, shown) in &seen {
        ensure!(shown.as_deref().is_none_or(|shown| known.contains(&shown)), "{status:?} shows {shown:?}");
    }
    let approved = (Some("APPROVED".to_owned()), Some("QUEUED".to_owned()));
    ensure!(seen.contains(&approved), "an approved run is queued: {seen:?}");
    for shown in ["QUEUED", "RETRYING"] {
        ensure!(
            of_a_step.iter().any(|found| found == shown),
            "a step shows {shown} on its way: {of_a_step:?}"
        );
    }
    Ok(())
}

/// The way of a run from status to status, as the contract's table has it.
const EDGES: [(&str, &str, &str); 15] = [
    ("", "RunQueued", "PENDING"),
    ("PENDING", "RunApproved", "APPROVED"),
    ("PENDING", "RunFailed", "FAILED"),
    ("PENDING", "RunCancelled", "CANCELLED"),
    ("APPROVED", "RunStarted", "RUNNING"),
    ("APPROVED", "RunFailed", "FAILED"),
    ("APPROVED", "RunCancelled", "CANCELLED"),
    ("RUNNING", "RunPaused", "PAUSED"),
    ("RUNNING", "RunCompleted", "COMPLETED"),
    ("RUNNING", "RunFailed", "FAILED"),
    ("RUNNING", "RunCancelled", "CANCELLED"),
    ("PAUSED", "RunDrained", "PAUSED"),
    ("PAUSED", "RunResumed", "RUNNING"),
    ("PAUSED", "RunCompleted", "COMPLETED"),
    ("PAUSED", "RunCancelled", "CANCELLED"),
];

/// Follows a run's log along the table; gives the statuses on the way.
async fn way(run: &TestRun) -> Result<Vec<&'static str>, Stop> {
    let mut way = vec![""];
    for event in run.events().await? {
        let (before, on) = (way.last().copied().unwrap_or_default(), event.body.type_name());
        if !EDGES.iter().any(|(_, known, _)| *known == on) {
            continue;
        }
        let Some((_, _, after)) = EDGES.iter().find(|(from, known, _)| *from == before && *known == on)
        else {
            return Err(Stop::Fail(format!("there is no way from {before:?} by {on}")));
        };
        way.push(after);
    }
    let shown = run.snapshot().await?.status.map(|status| status.to_string());
    ensure_eq!(shown.as_deref(), way.last().copied(), "the status that the run shows");
    Ok(way.split_off(1))
}

async fn a_run_goes_only_along_its_edges(world: &World) -> Outcome {
    let plan = "
id: ways
version: 1.0.0
approval: required
steps:
  - {id: a, handler: script, with: {gate: way}}
  - {id: b, handler: script, dependsOn: [a], with: {fail: {class: permanent, times: 1}}}
";
    let start = async |request: &str| world.start_with(plan, |start| start.request_id(request)).await;
    let unwanted = start("unwanted").await?;
    unwanted.accept(Ask::cancel()).await?;
    unwanted.ends(RunStatus::Cancelled).await?;
    ensure_eq!(way(&unwanted).await?, ["PENDING", "CANCELLED"], "the way of a run that nobody wanted");

    let paused = start("paused").await?;
    paused.accept(Ask::approve()).await?;
    world.at_gate("way", 1).await?;
    paused.accept(Ask::pause()).await?;
    paused.accept(Ask::cancel()).await?;
    paused.ends(RunStatus::Cancelled).await?;
    ensure_eq!(
        way(&paused).await?,
        ["PENDING", "APPROVED", "RUNNING", "PAUSED", "CANCELLED"],
        "the way of a run that was cancelled while it was paused"
    );

    let broken = start("broken").await?;
    broken.accept(Ask::approve()).await?;
    world.at_gate("way", 2).await?;
    world.open_gate("way");
    broken.until_step(EventType::StepFailed, "b").await?;
    broken.ended().await?;
    ensure_eq!(
        way(&broken).await?,
        ["PENDING", "APPROVED", "RUNNING", "FAILED"],
        "the way of a run that failed"
    );

    let given_up = failed_while_paused(world, "").await?;
    given_up.accept(Ask::resume()).await?;
    given_up.ended().await?;
    ensure_eq!(
        way(&given_up).await?,
        ["PENDING", "APPROVED", "RUNNING", "PAUSED", "PAUSED", "RUNNING", "FAILED"],
        "the way of a run that failed while it was paused"
    );
    Ok(())
}

async fn waiting_for_a_person_shows(world: &World) -> Outcome {
    let plan = "
id: signed
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, completion: manual}
  - {id: b, handler: script, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    run.until(EventType::StepWaiting).await?;
    ensure_eq!(substatus(&run.snapshot().await?), None, "the substatus while another step goes on");
    world.open_gate("g");
    run.until_step(EventType::StepCompleted, "b").await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(snapshot.status, Some(RunStatus::Running), "the status");
    ensure_eq!(substatus(&snapshot), Some("WAITING_FOR_HUMAN"), "the substatus");
    ensure!(!snapshot.message.is_empty(), "it says so in words");
    let step = run.step("a").await?;
    ensure_eq!(
        step.substatus.as_ref().map(|shown| shown.as_str()),
        Some("WAITING_FOR_MANUAL_COMPLETION"),
        "the step's substatus"
    );
    let completion = run.completion("a", Completion::succeeded().output(json!({}))).await?;
    run.accept(completion).await?;
    run.ends(RunStatus::Completed).await
}

async fn a_failure_that_waits_for_a_person_shows(world: &World) -> Outcome {
    let plan = "
id: stuck
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: pause, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.until(EventType::RunDrained).await?;
    run.never(1_000, "an end", ends).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(
        (snapshot.status, substatus(&snapshot)),
        (Some(RunStatus::Paused), Some("WAITING_FOR_HUMAN")),
        "what it shows"
    );
    run.accept(Ask::skip(StepId::new("a")?)).await?;
    run.ends(RunStatus::Completed).await
}

async fn compensating_shows(world: &World) -> Outcome {
    let plan = "
id: undone
version: 1.0.0
steps:
  - {id: a, handler: script, with: {value: {gate: u}}, compensation: {handler: undo}}
  - {id: b, handler: script, dependsOn: [a], with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("u", 1).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(
        (snapshot.status, substatus(&snapshot)),
        (Some(RunStatus::Running), Some("COMPENSATING")),
        "what it shows"
    );
    world.open_gate("u");
    run.ends(RunStatus::Failed).await
}

/// A run whose only step at work failed while it was paused.
async fn failed_while_paused(world: &World, times: &str) -> Result<TestRun, Stop> {
    let plan = format!(
        "id: held\nversion: 1.0.0\nsteps:\n  - {{id: a, handler: script, with: {{gate: g, fail: {{class: \
         permanent{times}}}}}}}\n  - {{id: b, handler: script, dependsOn: [a]}}\n"
    );
    let run = world.start(&plan).await?;
    world.at_gate("g", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("g");
    run.until(EventType::RunDrained).await?;
    run.never(1_000, "an end", ends).await?;
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Paused), "the status after the failure");
    Ok(run)
}

async fn a_failure_in_a_paused_run_waits(world: &World) -> Outcome {
    let run = failed_while_paused(world, "").await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(
        (&failed["code"], &failed["rootCause"]["stepId"]),
        (&json!("STEP_FAILED"), &json!("a")),
        "why"
    );
    let lines = run.lines().await?;
    let place = |line: &str| lines.iter().position(|found| found == line);
    ensure!(place("RunResumed") < place("RunFailed"), "it failed once it was resumed: {lines:?}");
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}

async fn a_retry_rescues_a_failure_in_a_paused_run(world: &World) -> Outcome {
    let run = failed_while_paused(world, ", times: 1").await?;
    run.accept(Ask::retry(StepId::new("a")?, false)).await?;
    world.open_gate("g");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#2.1", "b#1.1"], "the calls");
    let step = run.step("a").await?;
    let statuses: Vec<StepStatus> = step.attempts.iter().map(|attempt| attempt.status).collect();
    ensure_eq!(statuses, [StepStatus::Failed, StepStatus::Success], "the attempts in the snapshot");
    Ok(())
}

async fn a_skip_rescues_a_failure_in_a_paused_run(world: &World) -> Outcome {
    let run = failed_while_paused(world, "").await?;
    run.accept(Ask::skip(StepId::new("a")?)).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn failed_steps_stand_in_the_order_of_the_log(world: &World) -> Outcome {
    let plan = "
id: two-failures
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, with: {gate: a, fail: {class: permanent}}}
  - {id: b, handler: script, with: {gate: b, fail: {class: permanent}}}
  - {id: c, handler: script, with: {gate: c}}
";
    let run = world.start(plan).await?;
    for gate in ["a", "b", "c"] {
        world.at_gate(gate, 1).await?;
    }
    world.open_gate("b");
    run.until_step(EventType::StepFailed, "b").await?;
    world.open_gate("a");
    run.until_step(EventType::StepFailed, "a").await?;
    world.open_gate("c");
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::RunFailed).await?;
    let steps: Vec<&str> = failed["failedSteps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["stepId"].as_str())
        .collect();
    ensure_eq!(steps, ["b", "a"], "the steps that failed");
    Ok(())
}

async fn a_run_has_a_time_ordered_id(world: &World) -> Outcome {
    let plan = "id: numbered\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n";
    let mut ids = Vec::new();
    for request in ["one", "two", "three"] {
        let run = world.start_with(plan, |start| start.request_id(request)).await?;
        run.ends(RunStatus::Completed).await?;
        let id: uuid::Uuid =
            run.run_id.as_str().parse().map_err(|cause| Stop::Fail(format!("{}: {cause}", run.run_id)))?;
        ensure_eq!(id.get_version_num(), 7, "the version of {id}");
        ids.push(id);
    }
    ensure!(ids.is_sorted(), "later runs have later ids: {ids:?}");
    Ok(())
}

async fn a_changed_plan_leaves_runs_alone(world: &World) -> Outcome {
    let plan = "
id: changing
version: 1.0.0
approval: required
steps:
  - {id: a, handler: script, with: {value: old}}
";
    let old = world.start_with(plan, |start| start.request_id("old")).await?;
    let changed = plan.replace("value: old", "value: new").replace("approval: required\n", "");
    let new = world.start_with(&changed, |start| start.request_id("new")).await?;
    new.ends(RunStatus::Completed).await?;
    old.accept(Ask::approve()).await?;
    old.ends(RunStatus::Completed).await?;
    for (run, expected) in [(&old, "old"), (&new, "new")] {
        let output = run.event(EventType::RunCompleted).await?["output"]["value"]["a"].clone();
        ensure_eq!(output, expected, "what the {expected} run left");
    }
    Ok(())
}

async fn a_blocked_step_names_its_cause(world: &World) -> Outcome {
    let plan = "
id: blocked
version: 1.0.0
mode: graph
steps:
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: next, handler: script, dependsOn: [bad]}
  - {id: busy, handler: script, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    run.until_step(EventType::StepFailed, "bad").await?;
    let next = run.step("next").await?;
    ensure_eq!(next.status, StepStatus::Pending, "its status");
    ensure_eq!(next.blocked_by, [StepId::new("bad")?], "what blocks it");
    world.open_gate("g");
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.count(EventType::StepSkipped).await?, 0, "the skips: the run does not go past it");
    Ok(())
}

async fn a_lost_branch_leaves_the_others_alone(world: &World) -> Outcome {
    let plan = "
id: branches
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: child, handler: script, dependsOn: [bad]}
  - {id: grandchild, handler: script, dependsOn: [child]}
  - {id: other, handler: script}
  - {id: others-child, handler: script, dependsOn: [other]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    for step in ["child", "grandchild"] {
        let step = run.step(step).await?;
        ensure_eq!(step.status, StepStatus::Skipped, "{}", step.step_id);
        let reason = step.skip_reason.as_ref().map(|reason| reason.as_str());
        ensure_eq!(reason, Some("dependency_failed"), "why {} was skipped", step.step_id);
    }
    ensure_eq!(run.step("others-child").await?.status, StepStatus::Success, "the other branch");
    Ok(())
}

async fn dependencies_are_required_unless_they_say_otherwise(world: &World) -> Outcome {
    let plan = "
id: forms
version: 1.0.0
failure: {continueOnPartialFailure: true}
steps:
  - {id: bad, handler: script, onFailure: retry, maxRetries: 1, with: {gate: g, fail: {class: permanent}}}
  - {id: plain, handler: script, dependsOn: [bad]}
  - {id: object, handler: script, dependsOn: [{step: bad}]}
  - {id: said, handler: script, dependsOn: [{step: bad, required: true}]}
  - {id: optional, handler: script, dependsOn: [{step: bad, required: false}]}
";
    let run = world.start(plan).await?;
    world.open_gate("g");
    world.at_gate("g", 2).await?;
    // The first attempt has failed, and another is at work: nobody goes on yet.
    run.never(500, "a start behind a failure that is not resolved", |event| {
        event.body.event_type() == Some(EventType::StepStarted)
            && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "optional")
    })
    .await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["bad#1.1", "bad#2.1", "optional#1.1"], "the calls");
    Ok(())
}

async fn a_fallback_is_no_part_of_the_sequence(world: &World) -> Outcome {
    let plan = "
id: spare
version: 1.0.0
steps:
  - {id: a, handler: script, fallback: f}
  - {id: f, handler: script}
  - {id: b, handler: script, input: {from: previousStep, transform: '{note: step}'}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    ensure_eq!(world.visits_of("b")[0].input["note"], "a", "whose output the next step is given");
    Ok(())
}

async fn a_local_step_leaves_the_same_events(world: &World) -> Outcome {
    let plan = |dispatch: &str, step: &str| {
        format!(
            "id: here\nversion: 1.0.0\n{dispatch}\nsteps:\n  - {{id: a, handler: script, retry: {{initialBackoffMs: 10}}, \
             with: {{fail: {{class: transient, times: 1}}, value: 1}}{step}}}\n  - {{id: b, handler: script}}\n"
        )
    };
    let mut logs = Vec::new();
    for (request, dispatch, step) in [
        ("queued", "", ""),
        ("plan", "dispatch: local", ""),
        ("step", "dispatch: queued", ", dispatch: local"),
    ] {
        let run = world.start_with(&plan(dispatch, step), |start| start.request_id(request)).await?;
        run.ends(RunStatus::Completed).await?;
        logs.push(run.lines().await?);
    }
    ensure_eq!(logs[1], logs[0], "the log of a plan whose steps are local");
    ensure_eq!(logs[2], logs[0], "the log with one local step");
    Ok(())
}

async fn a_local_step_has_ten_seconds(world: &World) -> Outcome {
    let plan = "
id: brief
version: 1.0.0
steps:
  - {id: a, handler: script, dispatch: local, retry: {maxAttempts: 1}, with: {gate: g, deaf: true}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    run.never(9_000, "a timeout before its time", |event| {
        event.body.event_type() == Some(EventType::StepFailed)
    })
    .await?;
    world.pass(1_500).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.event(EventType::StepFailed).await?["error"]["class"], "timeout", "how it failed");
    Ok(())
}

async fn a_failed_step_keeps_its_progress(world: &World) -> Outcome {
    let plan = "
id: moving
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: well, handler: script, with: {progress: [0.25], gate: g}}
  - {id: badly, handler: script, with: {progress: [0.5], gate: g, fail: {class: permanent}}}
  - {id: at-once, handler: script, with: {progress: [0.75], fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 2).await?;
    world.open_gate_for("g", 2);
    run.ends(RunStatus::Completed).await?;
    let progress = world.client().step_progress(&run.run_id).await?;
    let of =
        |step: &str| progress.iter().find(|found| found.step_id.as_str() == step).map(|found| found.done);
    ensure_eq!(of("badly"), Some(0.5), "the progress of a step that failed");
    ensure_eq!(of("at-once"), Some(0.75), "the progress of a step that failed as soon as it had told it");
    ensure_eq!(run.events().await?.len(), 10, "the events: none tells of progress");
    Ok(())
}

async fn a_step_that_succeeded_is_done(world: &World) -> Outcome {
    let plan = "
id: bounded
version: 1.0.0
mode: graph
steps:
  - {id: quarter, handler: script, with: {progress: [0.25], gate: q}}
  - {id: wild, handler: script, with: {progress: [7.5], gate: w}}
  - {id: shy, handler: script, with: {progress: [-3.0], gate: w}}
";
    let run = world.start(plan).await?;
    world.at_gate("q", 1).await?;
    world.at_gate("w", 2).await?;
    for (step, done) in [("quarter", 0.25), ("wild", 1.0), ("shy", 0.0)] {
        run.until_progress(step, done).await?;
    }
    world.open_gate("q");
    run.until_step(EventType::StepCompleted, "quarter").await?;
    run.until_progress("quarter", 1.0).await?;
    world.open_gate_for("w", 2);
    run.ends(RunStatus::Completed).await
}

async fn progress_of_a_run_counts_its_steps(world: &World) -> Outcome {
    let plan = "
id: halfway
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, with: {gate: g}}
  - {id: c, handler: script, dependsOn: [b]}
  - {id: d, handler: script, when: 'input.never'}
";
    let run = world.start_with(plan, |start| start.input(json!({}))).await?;
    world.at_gate("g", 1).await?;
    run.until_step(EventType::StepCompleted, "a").await?;
    run.until_step(EventType::StepSkipped, "d").await?;
    world.pass(700).await?;
    let told = serde_json::to_value(run.snapshot().await?.progress)
        .map_err(|cause| Stop::Fail(format!("progress cannot be written: {cause}")))?;
    for (field, expected) in
        [("/counts/succeeded", 1), ("/counts/running", 1), ("/counts/pending", 1), ("/counts/skipped", 1)]
    {
        ensure_eq!(told.pointer(field), Some(&json!(expected)), "{field} of {told}");
    }
    ensure_eq!(told["percent"].as_f64(), Some(50.0), "percent of {told}");
    ensure!(told["elapsedMs"].as_u64().is_some_and(|elapsed| elapsed >= 700), "the time so far: {told}");
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    let told = serde_json::to_value(run.snapshot().await?.progress)
        .map_err(|cause| Stop::Fail(format!("progress cannot be written: {cause}")))?;
    ensure_eq!(told["percent"].as_f64(), Some(100.0), "percent at the end");
    Ok(())
}
