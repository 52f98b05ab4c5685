//! Pause, drain, resume.

use client::Ask;
use engine_core::Code;
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::port::Capability;

use crate::case::cases;
use crate::harness::Need;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("pause", Control;
    a_pause_waits_for_the_two_steps_inside_the_gate => ["PAUSE-1", "PAUSE-2", "PAUSE-3", "PAUSE-4", "PAUSE-5", "RUN-16"],
    a_pause_with_nothing_in_flight_is_drained_at_once => ["PAUSE-5"],
    a_resume_goes_on_without_doing_anything_again => ["RESUME-1", "RESUME-3"],
    a_resume_before_the_drain_leaves_it_out => ["RESUME-2"],
    pauses_are_numbered_and_the_second_is_kept => ["PAUSE-15", "PAUSE-2"],
    a_pause_of_a_paused_run_is_refused => ["PAUSE-14"],
    a_resume_of_a_running_run_is_refused => ["RESUME-5"],
    a_drain_that_takes_too_long_raises_an_alert => ["PAUSE-6", "PAUSE-7"],
    orphans_are_given_up_and_done_again => ["PAUSE-8", "PAUSE-10"],
    retries_go_on_while_a_pause_drains => ["PAUSE-4"],
    what_an_orphan_brings_is_refused => ["PAUSE-9", "PAUSE-8", "CANCEL-6"],
    two_resumes_of_two_pauses => ["RESUME-1", "RESUME-3", "PAUSE-15"],
    a_paused_run_completes_once_drained => ["RUN-8"],
    an_immediate_pause_gives_up_what_is_in_flight => ["PAUSE-12"] needs [Need::Has(Capability::ImmediatePause)],
    an_immediate_pause_is_refused_where_there_is_none => ["PAUSE-13"] needs [Need::Lacks(Capability::ImmediatePause)],
);

/// Two steps at gate `a`, a third that waits for a slot, and one that depends on the first two.
const TWO_INSIDE: &str = "
id: two-inside
version: 1.0.0
limits: {maxConcurrency: 2, drainTimeoutMs: 300}
steps:
  - {id: one, handler: script, with: {gate: a}}
  - {id: two, handler: script, with: {gate: a}}
  - {id: three, handler: script}
  - {id: join, handler: script, dependsOn: [one, two]}
";

const CHAIN: &str = "
id: chain
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a], with: {gate: b}}
";

async fn a_pause_waits_for_the_two_steps_inside_the_gate(world: &World) -> Outcome {
    let run = world.start(TWO_INSIDE).await?;
    world.at_gate("a", 2).await?;
    run.accept(Ask::pause().because("lunch")).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(snapshot.status, Some(RunStatus::Paused), "the status at once");
    ensure_eq!(snapshot.substatus.map(|substatus| substatus.as_str()), Some("DRAINING"), "the substatus");
    ensure!(snapshot.message.contains('2'), "the message says for how many it waits: {}", snapshot.message);
    let paused = run.event(EventType::RunPaused).await?;
    ensure_eq!(paused["cause"], "signal", "the cause");
    ensure_eq!(paused["inFlight"], 2, "the steps in flight");
    world.open_gate("a");
    world.entered("one", 1).await?;
    run.until_event("the end of one of them", |event| {
        event.body.event_type() == Some(EventType::StepCompleted)
    })
    .await?;
    ensure_eq!(run.count(EventType::RunDrained).await?, 0, "the drains while one is inside");
    world.open_gate("a");
    let drained = run.until(EventType::RunDrained).await?;
    ensure_eq!(crate::world::run::json(&drained)?["timedOut"], false, "whether it gave up waiting");
    run.never(60_000, "the start of anything else", |event| {
        let new = |step: &str| ["three", "join"].contains(&step);
        event.subject.as_ref().is_some_and(|subject| new(subject.step.as_str()))
    })
    .await?;
    ensure_eq!(run.snapshot().await?.substatus, None, "the substatus once drained");
    Ok(())
}

async fn a_pause_with_nothing_in_flight_is_drained_at_once(world: &World) -> Outcome {
    let plan = "
id: waits
version: 1.0.0
steps:
  - {id: ask, handler: script, completion: manual}
  - {id: then, handler: script}
";
    let run = world.start(plan).await?;
    run.until(EventType::StepWaiting).await?;
    let accepted = run.accept(Ask::pause()).await?;
    let drained = run.until(EventType::RunDrained).await?;
    ensure_eq!(drained.run_seq, accepted + 2, "SignalAccepted, RunPaused and RunDrained stand together");
    ensure_eq!(run.event(EventType::RunPaused).await?["inFlight"], 0, "a step that waits is not in flight");
    Ok(())
}

async fn a_resume_goes_on_without_doing_anything_again(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    world.at_gate("b", 1).await?;
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Running), "the status");
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn a_resume_before_the_drain_leaves_it_out(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    run.accept(Ask::resume()).await?;
    world.open_gate("a");
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::RunDrained).await?, 0, "the drains");
    ensure_eq!(run.count(EventType::RunResumed).await?, 1, "the resumes");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

async fn pauses_are_numbered_and_the_second_is_kept(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    run.accept(Ask::resume()).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.until(EventType::RunDrained).await?;
    run.never(60_000, "the start of the next step", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "b")
    })
    .await?;
    let mut numbers = Vec::new();
    for event in run.events().await? {
        let told = crate::world::run::json(&event)?;
        if let Some(number) = told["pauseNumber"].as_u64() {
            numbers.push(format!("{} {number}", event.body.type_name()));
        }
    }
    ensure_eq!(numbers, ["RunPaused 1", "RunResumed 1", "RunPaused 2", "RunDrained 2"], "the pauses");
    run.accept(Ask::resume()).await?;
    world.open_gate("b");
    run.ends(RunStatus::Completed).await
}

async fn a_pause_of_a_paused_run_is_refused(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    run.refuse(Ask::pause(), Code::RunAlreadyPaused).await
}

async fn a_resume_of_a_running_run_is_refused(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.refuse(Ask::resume(), Code::RunNotPaused).await
}

async fn a_drain_that_takes_too_long_raises_an_alert(world: &World) -> Outcome {
    let run = world.start(TWO_INSIDE).await?;
    world.at_gate("a", 2).await?;
    run.accept(Ask::pause()).await?;
    world.pass(300).await?;
    run.until(EventType::RunDrained).await?;
    let alert = run.event(EventType::AlertRaised).await?;
    ensure_eq!(alert["code"], "PAUSE_DRAIN_TIMEOUT", "the alert");
    ensure_eq!(alert["severity"], "P2", "its severity");
    let drained = run.event(EventType::RunDrained).await?;
    ensure_eq!(drained["timedOut"], true, "whether it gave up waiting");
    ensure_eq!(drained["inFlight"], serde_json::json!(["one", "two"]), "the steps that were still in flight");
    world.open_gate_for("a", 2);
    run.until_step(EventType::StepCompleted, "one").await?;
    run.until_step(EventType::StepCompleted, "two").await?;
    ensure_eq!(run.step("one").await?.status, StepStatus::Success, "an outcome after the drain timeout");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.visits_of("one").len(), 1, "the calls of a step that was late");
    Ok(())
}

async fn orphans_are_given_up_and_done_again(world: &World) -> Outcome {
    let plan = "
id: orphans
version: 1.0.0
limits: {drainTimeoutMs: 300}
failure: {orphans: reject}
steps:
  - {id: a, handler: script, with: {gate: a}}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.pass(300).await?;
    run.until(EventType::RunDrained).await?;
    ensure_eq!(run.event(EventType::StepCancelled).await?["reason"], "ORPHANED", "why it was given up");
    ensure_eq!(run.count(EventType::StepRetryRequested).await?, 0, "new attempts while paused");
    run.accept(Ask::resume()).await?;
    run.until(EventType::StepRetryRequested).await?;
    ensure_eq!(run.event(EventType::StepRetryRequested).await?["reason"], "orphaned", "why it is done again");
    world.at_gate("a", 2).await?;
    world.open_gate_for("a", 2);
    run.ends(RunStatus::Completed).await?;
    let lines = run.lines().await?;
    ensure!(
        lines.contains(&"StepCompleted a#2".to_owned()) && !lines.contains(&"StepCompleted a#1".to_owned()),
        "only the second attempt counts: {lines:?}"
    );
    Ok(())
}

async fn a_paused_run_completes_once_drained(world: &World) -> Outcome {
    let plan = "
id: last
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::RunResumed).await?, 0, "the resumes");
    ensure_eq!(run.count(EventType::RunDrained).await?, 1, "the drains");
    Ok(())
}

async fn an_immediate_pause_gives_up_what_is_in_flight(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause_immediately()).await?;
    run.until(EventType::RunDrained).await?;
    ensure_eq!(run.event(EventType::StepCancelled).await?["reason"], "ORPHANED", "why it was given up");
    ensure_eq!(run.event(EventType::RunPaused).await?["immediate"], true, "how it was paused");
    run.accept(Ask::resume()).await?;
    world.open_gate_for("a", 2);
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.step("a").await?.logical_attempt_id, 2, "the attempt that counts");
    Ok(())
}

async fn an_immediate_pause_is_refused_where_there_is_none(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    world.at_gate("a", 1).await?;
    run.refuse_at_the_door(Ask::pause_immediately(), Code::Unsupported).await
}

async fn retries_go_on_while_a_pause_drains(world: &World) -> Outcome {
    let plan = "
id: flaky
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 50}, with: {gate: a, fail: {class: transient, times: 1}}}
  - {id: b, handler: script}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.open_gate_for("a", 2);
    run.until(EventType::RunDrained).await?;
    ensure_eq!(world.entries(), ["a#1.1", "a#1.2"], "the calls before it is drained");
    ensure_eq!(run.step("a").await?.status, StepStatus::Success, "the step");
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await
}

async fn what_an_orphan_brings_is_refused(world: &World) -> Outcome {
    let plan = "
id: orphan
version: 1.0.0
limits: {drainTimeoutMs: 300, maxConcurrency: 1}
failure: {orphans: reject}
steps:
  - {id: a, handler: script, with: {gate: a, deaf: true, value: {late: true}}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    run.accept(Ask::pause()).await?;
    world.pass(300).await?;
    run.until(EventType::RunDrained).await?;
    // What the attempt held is free: its successor starts although the old call is still inside.
    run.accept(Ask::resume()).await?;
    world.at_gate("a", 2).await?;
    world.open_gate_for("a", 2);
    run.ends(RunStatus::Completed).await?;
    let lines = run.lines().await?;
    ensure!(!lines.contains(&"StepCompleted a#1".to_owned()), "a late outcome is not recorded: {lines:?}");
    // As any engine would be told that hands it in while the run goes on.
    let events = run.events().await?;
    let resumed = events.iter().position(|event| event.body.event_type() == Some(EventType::RunResumed));
    let until = resumed.unwrap_or_default();
    let folded = engine_core::decider::Run::fold(world.plan(plan)?, &events[..until])?;
    let report = engine_core::decider::StepReport {
        step: engine_core::StepId::new("a")?,
        attempt: 1,
        engine_attempt: None,
        released_by_driver: false,
        start: None,
        report: engine_core::decider::Report::Completed(Default::default()),
    };
    let refused = folded.decide(engine_core::decider::Stimulus::Step(Box::new(report))).err();
    ensure_eq!(refused.map(|error| error.code()), Some(Code::OrphanedTask), "the answer to a late outcome");
    Ok(())
}

async fn two_resumes_of_two_pauses(world: &World) -> Outcome {
    let run = world.start(CHAIN).await?;
    for (number, gate) in [(1, "a"), (2, "b")] {
        world.at_gate(gate, 1).await?;
        run.accept(Ask::pause()).await?;
        if gate == "a" {
            world.open_gate(gate);
            run.until(EventType::RunDrained).await?;
        }
        run.accept(Ask::resume()).await?;
        ensure_eq!(
            run.snapshot().await?.status,
            Some(RunStatus::Running),
            "the status after resume {number}"
        );
    }
    run.refuse(Ask::resume(), Code::RunNotPaused).await?;
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.count(EventType::RunResumed).await?, 2, "the resumes");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}
