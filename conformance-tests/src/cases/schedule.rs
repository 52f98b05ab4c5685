//! Agents and slots, delays, timers, and the time that a run may take.

use client::Ask;
use engine_core::StepId;
use engine_core::event::{Event, EventType};
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::{Value, json};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::world::run::json as written;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("schedule", Schedule;
    a_full_agent_holds_nobody_else_back => ["SLOT-2", "SLOT-7"],
    limits_count_within_one_run => ["SLOT-3"],
    every_ready_step_has_its_turn => ["SLOT-8", "SLOT-5"],
    a_delay_counts_from_the_dependencies => ["GRAPH-13", "TIME-1", "TIME-2", "TIME-3", "TRIGGER-3"],
    a_step_waits_for_its_time => ["GRAPH-14", "TIME-2"],
    a_waiting_step_holds_no_slot => ["GRAPH-15"],
    a_retry_does_not_wait_again_but_a_cascade_does => ["GRAPH-16", "TIME-4", "TIME-6"],
    a_backoff_is_no_timer => ["TIME-7", "TIME-8"],
    a_slot_is_held_through_a_backoff => ["SLOT-4", "CORE-41"],
    there_are_four_timers => ["TIME-5"],
    progress_is_published_twice_a_second => ["STEP-10"] needs [Need::Can(Fault::PassTime)],
    a_run_timeout_cancels_undoes_and_fails => ["RUN-29", "RUN-32", "RUN-33"],
    a_run_timeout_does_not_wait_for_the_deaf => ["RUN-32"],
    a_pause_stops_the_run_timeout => ["RUN-31"],
    a_run_in_time_is_not_touched => ["RUN-29"],
);

fn starts(event: &Event, step: &str) -> bool {
    event.body.event_type() == Some(EventType::StepStarted)
        && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == step)
}

fn attempt_of(event: &Event, event_type: EventType, step: &str, attempt: u32) -> bool {
    event.body.event_type() == Some(event_type)
        && event
            .subject
            .as_ref()
            .is_some_and(|subject| subject.step.as_str() == step && subject.attempt == attempt)
}

async fn a_full_agent_holds_nobody_else_back(world: &World) -> Outcome {
    let plan = "
id: agents
version: 1.0.0
mode: graph
limits: {perAgent: 1}
steps:
  - {id: a1, handler: script, agent: anna, priority: 0, with: {gate: g}}
  - {id: a2, handler: script, agent: anna, priority: 0, with: {gate: g}}
  - {id: b1, handler: script, agent: bert, with: {gate: g}}
  - {id: n1, handler: script, priority: 3, with: {gate: g}}
  - {id: n2, handler: script, priority: 3, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 4).await?;
    run.never(1_000, "a second step of a full agent", |event| starts(event, "a2")).await?;
    let mut entries = world.entries();
    entries.sort();
    ensure_eq!(entries, ["a1#1.1", "b1#1.1", "n1#1.1", "n2#1.1"], "who goes while an agent is full");
    ensure_eq!(
        world.visits_of("a1")[0].agent.as_ref().map(|agent| agent.as_str()),
        Some("anna"),
        "its agent"
    );
    world.open_gate_for("g", 4);
    world.at_gate("g", 5).await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await
}

async fn limits_count_within_one_run(world: &World) -> Outcome {
    let plan = "
id: apart
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1, perAgent: 1}
steps:
  - {id: a, handler: script, agent: anna, with: {gate: g}}
";
    let first = world.start_with(plan, |start| start.request_id("one")).await?;
    let second = world.start_with(plan, |start| start.request_id("two")).await?;
    world.at_gate("g", 2).await?;
    world.open_gate_for("g", 2);
    first.ends(RunStatus::Completed).await?;
    second.ends(RunStatus::Completed).await
}

async fn every_ready_step_has_its_turn(world: &World) -> Outcome {
    let mut plan = "id: crowd\nversion: 1.0.0\nmode: graph\nlimits: {maxConcurrency: 1}\nsteps:\n".to_owned();
    plan.push_str("  - {id: low, handler: script, priority: 3}\n");
    for number in 1..=6 {
        plan.push_str(&format!("  - {{id: u{number}, handler: script, priority: 0}}\n"));
        plan.push_str(&format!(
            "  - {{id: v{number}, handler: script, priority: 0, dependsOn: [u{number}]}}\n"
        ));
    }
    let run = world.start(&plan).await?;
    run.ends(RunStatus::Completed).await?;
    let entries = world.entries();
    ensure_eq!(entries.len(), 13, "the calls");
    ensure_eq!(entries.last().map(String::as_str), Some("low#1.1"), "who comes last, but comes");
    Ok(())
}

fn timers(events: &[Event]) -> Result<Vec<Value>, crate::Stop> {
    let fired = events.iter().filter(|event| event.body.event_type() == Some(EventType::TimerFired));
    fired.map(written).collect()
}

async fn a_delay_counts_from_the_dependencies(world: &World) -> Outcome {
    let plan = "
id: delayed
version: 1.0.0
steps:
  - {id: a, handler: script, with: {waitMs: 300}}
  - {id: late, handler: script, dependsOn: [a], schedule: {delayMs: 400}}
  - {id: beside, handler: script, dependsOn: [a]}
  - {id: after, handler: script, dependsOn: [late]}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let ready = run.until_step(EventType::StepCompleted, "a").await?;
    let late = run.until_step(EventType::StepStarted, "late").await?;
    let beside = run.until_step(EventType::StepCompleted, "beside").await?;
    let due = ready.emitted_at.plus_millis(400);
    ensure!(late.emitted_at >= due, "{} is before {due}", late.emitted_at);
    ensure!(beside.run_seq < late.run_seq, "a step beside it does not wait");
    let fired = timers(&run.events().await?)?;
    ensure_eq!(fired.len(), 1, "the timers");
    ensure_eq!(fired[0]["dueAt"], json!(due), "when it was due: so long after its dependency ended");
    ensure!(fired[0]["runSeq"].as_u64() < Some(late.run_seq), "the timer comes before the start");
    let entries = world.entries();
    ensure_eq!(entries[2..], ["late#1.1", "after#1.1"], "the last calls");
    Ok(())
}

async fn a_step_waits_for_its_time(world: &World) -> Outcome {
    let _still = world.hold_time();
    let at = world.now().plus_millis(5_000);
    let plan = format!(
        "id: appointed\nversion: 1.0.0\nmode: graph\nsteps:\n  - {{id: a, handler: script, schedule: {{at: '{at}'}}}}\n  \
         - {{id: past, handler: script, schedule: {{at: '2020-01-01T00:00:00.000Z'}}}}\n"
    );
    let run = world.start(&plan).await?;
    run.until_step(EventType::StepCompleted, "past").await?;
    drop(_still);
    run.ends(RunStatus::Completed).await?;
    let started = run.until_step(EventType::StepStarted, "a").await?;
    ensure!(started.emitted_at >= at, "{} is before {at}", started.emitted_at);
    let due: Vec<Value> =
        timers(&run.events().await?)?.into_iter().map(|fired| fired["dueAt"].clone()).collect();
    ensure!(due.contains(&json!(at)), "a timer was due at the time that the plan names: {due:?}");
    Ok(())
}

async fn a_waiting_step_holds_no_slot(world: &World) -> Outcome {
    let plan = "
id: unheld
version: 1.0.0
mode: graph
limits: {maxConcurrency: 1}
steps:
  - {id: later, handler: script, priority: 0, schedule: {delayMs: 300}}
  - {id: now, handler: script, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    ensure_eq!(world.entries(), ["now#1.1"], "who has the only slot while the other waits for its delay");
    world.pass(400).await?;
    run.until(EventType::TimerFired).await?;
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["now#1.1", "later#1.1"], "the calls");
    Ok(())
}

async fn a_retry_does_not_wait_again_but_a_cascade_does(world: &World) -> Outcome {
    let plan = "
id: again
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, schedule: {delayMs: 300}}
  - {id: b, handler: script, dependsOn: [a], schedule: {delayMs: 300}}
  - {id: keep, handler: script, timeoutMs: 900000, with: {gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.pass(400).await?;
    run.until_step(EventType::StepCompleted, "a").await?;
    world.pass(400).await?;
    run.until_step(EventType::StepCompleted, "b").await?;
    run.accept(Ask::retry(StepId::new("a")?, true)).await?;
    // Nobody lets time pass: the step itself does not wait again.
    let done = |event: &Event| attempt_of(event, EventType::StepCompleted, "a", 2);
    let ready = run.until_event("the second end of a", done).await?;
    run.never(100, "b before its delay", |event| attempt_of(event, EventType::StepStarted, "b", 2)).await?;
    world.pass(400).await?;
    let start = |event: &Event| attempt_of(event, EventType::StepStarted, "b", 2);
    let again = run.until_event("the second start of b", start).await?;
    ensure!(again.emitted_at >= ready.emitted_at.plus_millis(300), "the cascade waits: {}", again.emitted_at);
    world.open_gate("g");
    run.ends(RunStatus::Completed).await?;
    let fired = timers(&run.events().await?)?;
    let ids: std::collections::BTreeSet<&str> =
        fired.iter().filter_map(|fired| fired["timerId"].as_str()).collect();
    ensure_eq!((fired.len(), ids.len()), (3, 3), "the timers, and their ids: one each");
    Ok(())
}

async fn a_backoff_is_no_timer(world: &World) -> Outcome {
    let plan = "
id: patient
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 150, backoffMultiplier: 1}, with: {fail: {class: transient, times: 2}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries().len(), 3, "the tries");
    ensure!(timers(&run.events().await?)?.is_empty(), "no timer tells of a backoff");
    let events = run.events().await?;
    let (first, last) = (&events[3], &events[events.len() - 2]);
    ensure!(last.emitted_at >= first.emitted_at.plus_millis(300), "both backoffs were waited out");
    Ok(())
}

async fn a_run_timeout_cancels_undoes_and_fails(world: &World) -> Outcome {
    let plan = "
id: hurried
version: 1.0.0
limits: {runTimeoutMs: 400}
steps:
  - {id: a, handler: script, compensation: {handler: undo}, with: {value: {}}}
  - {id: b, handler: script, dependsOn: [a], with: {gate: g}}
  - {id: c, handler: script, dependsOn: [b]}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.pass(500).await?;
    run.ends(RunStatus::Failed).await?;
    let cancelled = written(&run.until_step(EventType::StepCancelled, "b").await?)?;
    ensure_eq!(cancelled["reason"], "RUN_TIMEOUT", "why b was cancelled");
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["code"], "RUN_TIMEOUT", "the run's code");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "a#1.1 (undo)"], "the calls: c never, a undone");
    let started = run.event(EventType::RunStarted).await?;
    let fired = timers(&run.events().await?)?;
    let since: engine_core::Timestamp = serde_json::from_value(started["emittedAt"].clone())
        .map_err(|cause| crate::Stop::Fail(cause.to_string()))?;
    ensure_eq!(fired[0]["dueAt"], json!(since.plus_millis(400)), "when it was due: counted from RunStarted");
    let lines = run.lines().await?;
    let place = |line: &str| lines.iter().position(|found| found == line);
    ensure!(
        place("StepCancelled b#1") < place("CompensationStarted a#1"),
        "first cancelled, then undone: {lines:?}"
    );
    ensure!(place("CompensationCompleted a#1") < place("RunFailed"), "undone before the end: {lines:?}");
    Ok(())
}

async fn a_run_timeout_does_not_wait_for_the_deaf(world: &World) -> Outcome {
    let plan = "
id: deaf
version: 1.0.0
limits: {runTimeoutMs: 300}
steps:
  - {id: a, handler: script, with: {gate: g, deaf: true}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.pass(400).await?;
    run.until(EventType::TimerFired).await?;
    ensure_eq!(run.count(EventType::StepCancelled).await?, 0, "the cancellations within the grace");
    world.pass(5_500).await?;
    run.ends(RunStatus::Failed).await?;
    let cancelled = run.event(EventType::StepCancelled).await?;
    ensure_eq!(
        (&cancelled["reason"], &cancelled["forced"]),
        (&json!("RUN_TIMEOUT"), &json!(true)),
        "how it was"
    );
    ensure_eq!(run.event(EventType::RunFailed).await?["code"], "RUN_TIMEOUT", "the run's code");
    Ok(())
}

async fn a_pause_stops_the_run_timeout(world: &World) -> Outcome {
    let plan = "
id: rested
version: 1.0.0
limits: {runTimeoutMs: 1000}
steps:
  - {id: a, handler: script, timeoutMs: 900000, with: {gate: g}}
";
    let timed_out = |event: &Event| event.body.event_type() == Some(EventType::StepCancelled);
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.pass(600).await?;
    run.accept(Ask::pause()).await?;
    run.never(5_000, "a timeout while paused", timed_out).await?;
    run.accept(Ask::resume()).await?;
    run.never(200, "a timeout before its time", timed_out).await?;
    world.pass(400).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.event(EventType::RunFailed).await?["code"], "RUN_TIMEOUT", "what was left runs out");
    Ok(())
}

async fn a_run_in_time_is_not_touched(world: &World) -> Outcome {
    let plan = "
id: timely
version: 1.0.0
limits: {runTimeoutMs: 6000}
steps:
  - {id: a, handler: script, with: {waitMs: 200}}
  - {id: b, handler: script, with: {waitMs: 200}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let before = run.events().await?;
    world.pass(8_000).await?;
    ensure_eq!(run.events().await?, before, "the log long after the time that it had");
    ensure_eq!(run.step("b").await?.status, StepStatus::Success, "its last step");
    Ok(())
}

async fn a_slot_is_held_through_a_backoff(world: &World) -> Outcome {
    let plan = "
id: tenacious
version: 1.0.0
mode: graph
limits: {perAgent: 1}
steps:
  - {id: a1, handler: script, agent: anna, priority: 0, retry: {initialBackoffMs: 300}, with: {fail: {class: transient, times: 1}}}
  - {id: a2, handler: script, agent: anna}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a1#1.1", "a1#1.2", "a2#1.1"], "the calls");
    Ok(())
}

async fn there_are_four_timers(world: &World) -> Outcome {
    let plan = "
id: timed
version: 1.0.0
mode: graph
limits: {runTimeoutMs: 4000}
steps:
  - {id: late, handler: script, schedule: {delayMs: 300}, retry: {initialBackoffMs: 20}, with: {fail: {class: transient, times: 1}}}
  - {id: deaf, handler: script, with: {gate: g, deaf: true}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    world.pass(400).await?;
    run.until_step(EventType::StepCompleted, "late").await?;
    world.pass(3_700).await?;
    run.until_event("the timeout", |event| {
        event.body.event_type() == Some(EventType::TimerFired) && event.run_seq > 7
    })
    .await?;
    world.pass(5_000).await?;
    run.ends(RunStatus::Failed).await?;
    let began = run.until(EventType::RunStarted).await?.emitted_at;
    let fired = timers(&run.events().await?)?;
    ensure_eq!(fired.len(), 3, "the timers of a run that takes too long: {fired:?}");
    let asked_to_stop: engine_core::Timestamp = serde_json::from_value(fired[1]["emittedAt"].clone())
        .map_err(|cause| crate::Stop::Fail(format!("emittedAt of a timer: {cause}")))?;
    for (fired, due, what) in [
        (&fired[0], began.plus_millis(300), "the step delay"),
        (&fired[1], began.plus_millis(4_000), "the run timeout"),
        (&fired[2], asked_to_stop.plus_millis(5_000), "the cancel grace"),
    ] {
        ensure_eq!(fired["dueAt"], json!(due), "when {what} is due");
    }
    let plan = "
id: drained
version: 1.0.0
limits: {drainTimeoutMs: 400}
steps:
  - {id: slow, handler: script, with: {gate: s}}
";
    let run = world.start(plan).await?;
    world.at_gate("s", 1).await?;
    run.accept(Ask::pause()).await?;
    world.pass(500).await?;
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    world.open_gate("s");
    run.ends(RunStatus::Completed).await?;
    let paused = run.until(EventType::RunPaused).await?.emitted_at;
    let fired = timers(&run.events().await?)?;
    ensure_eq!(fired.len(), 1, "the timers of a run that is paused: {fired:?}");
    ensure_eq!(fired[0]["dueAt"], json!(paused.plus_millis(400)), "when the drain is due");
    Ok(())
}

async fn progress_is_published_twice_a_second(world: &World) -> Outcome {
    let plan = "
id: talkative
version: 1.0.0
steps:
  - {id: a, handler: script, with: {progress: [0.1, 0.2, 0.3], progressEveryMs: 200, gate: g}}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    let first = run.until_progress("a", 0.1).await?;
    // By now it has told three things, and only the first may be shown before half a second has passed.
    world.pass(300).await?;
    let second = run.until_progress("a", 0.3).await?;
    ensure!(second.at >= first.at.plus_millis(500), "published at {} and at {}", first.at, second.at);
    ensure_eq!(run.events().await?.len(), 4, "the events: none tells of progress");
    world.open_gate("g");
    run.ends(RunStatus::Completed).await
}
