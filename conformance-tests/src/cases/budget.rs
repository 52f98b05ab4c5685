//! Writes that take too long: whoever waits for them does not wait for ever, and nothing is lost or done twice for it.

use engine_core::event::{Body, EventType};
use engine_core::machine::{RunStatus, StepStatus};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::layer::slow::{Late, Lateness};
use crate::{Outcome, TestRun, World, ensure, ensure_eq};

cases!("budget", Durability;
    nobody_waits_longer_for_a_write_than_the_budget => ["BUDGET-1"] needs [Need::Can(Fault::SlowStore)],
    a_late_start_calls_nobody_twice => ["BUDGET-3"] needs [Need::Can(Fault::SlowStore)],
    a_late_start_stands_before_the_end => ["BUDGET-4"] needs [Need::Can(Fault::SlowStore)],
    a_late_success_is_written_until_it_is_there => ["BUDGET-5", "BUDGET-6"] needs [Need::Can(Fault::SlowStore)],
    a_late_failure_is_written_until_it_is_there => ["BUDGET-5"] needs [Need::Can(Fault::SlowStore)],
    an_end_that_was_stored_all_the_same_stands_once => ["BUDGET-5", "BUDGET-6"] needs [Need::Can(Fault::SlowStore)],
);

const PAIR: &str = "
id: pair
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {maxAttempts: 1}}
  - {id: b, handler: script, dependsOn: [a]}
";

/// Longer than anybody waits for a write.
const AN_HOUR: u64 = 3_600_000;

fn late(world: &World, event: EventType, times: u32, how: Lateness) {
    world.late(Late { event, times, how });
}

async fn nobody_waits_longer_for_a_write_than_the_budget(world: &World) -> Outcome {
    late(world, EventType::StepCompleted, 1, Lateness::Hangs(AN_HOUR));
    let began = world.now();
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    let took = world.now().millis_since(began);
    ensure!(took < 60_000, "a write that hangs is given up after 3 s, and the run took {took} ms");
    once(world, &run).await
}

async fn a_late_start_calls_nobody_twice(world: &World) -> Outcome {
    late(world, EventType::StepStarted, 2, Lateness::Stored);
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    once(world, &run).await
}

async fn a_late_start_stands_before_the_end(world: &World) -> Outcome {
    late(world, EventType::StepStarted, 1, Lateness::Lost);
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    let events = run.events().await?;
    for step in ["a", "b"] {
        let of = |event: &&engine_core::event::Event| {
            event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == step)
        };
        let types: Vec<&str> = events.iter().filter(of).map(|event| event.body.type_name()).collect();
        ensure_eq!(types, ["StepStarted", "StepCompleted"], "the events of {step}");
    }
    once(world, &run).await
}

async fn a_late_success_is_written_until_it_is_there(world: &World) -> Outcome {
    late(world, EventType::StepCompleted, 3, Lateness::Lost);
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.step("a").await?.status, StepStatus::Success, "the status of the step");
    once(world, &run).await
}

async fn a_late_failure_is_written_until_it_is_there(world: &World) -> Outcome {
    let plan = "
id: failing
version: 1.0.0
steps:
  - {id: a, handler: script, with: {fail: {class: permanent, code: NoSuchThing}}}
";
    late(world, EventType::StepFailed, 2, Lateness::Lost);
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["code"], "NoSuchThing", "why the step failed");
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    ensure_eq!(run.count(EventType::StepFailed).await?, 1, "the failures");
    Ok(())
}

async fn an_end_that_was_stored_all_the_same_stands_once(world: &World) -> Outcome {
    late(world, EventType::StepCompleted, 2, Lateness::Stored);
    let run = world.start(PAIR).await?;
    run.ends(RunStatus::Completed).await?;
    once(world, &run).await
}

/// Each step was called once, started once and ended once, and nothing of it failed.
async fn once(world: &World, run: &TestRun) -> Outcome {
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    let events = run.events().await?;
    let count = |wanted: fn(&Body) -> bool| events.iter().filter(|event| wanted(&event.body)).count();
    ensure_eq!(count(|body| matches!(body, Body::StepStarted(_))), 2, "the starts");
    ensure_eq!(count(|body| matches!(body, Body::StepCompleted(_))), 2, "the ends");
    let failures = count(|body| matches!(body, Body::StepFailed(_) | Body::StepRetried(_)));
    ensure_eq!(failures, 0, "the failures, of a step whose outcome was only written late");
    let alerts = count(|body| matches!(body, Body::AlertRaised(_)));
    ensure_eq!(alerts, 0, "the alerts in the log, where those about the machinery do not belong");
    Ok(())
}
