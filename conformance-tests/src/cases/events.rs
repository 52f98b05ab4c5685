//! What events mean to whoever reads them: their order, their times, their shapes, and that what is stored counts.

use std::sync::Arc;

use engine_core::Code;
use engine_core::decider::Run;
use engine_core::event::step::{StepError, StepFailed};
use engine_core::event::{Draft, Event, EventType, Subject, schema};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::port::store::{AppendAs, AppendRequest};
use serde_json::{Value, json};

use super::store::{Log, completed, started};
use crate::case::cases;
use crate::world::run::json as written;
use crate::{Outcome, Stop, TestRun, World, ensure, ensure_eq};

cases!("events", Store;
    no_time_decides_the_order => ["EVENT-8"],
    durations_go_by_when_things_happened => ["EVENT-9"],
    every_type_has_a_schema_of_open_objects => ["EVENT-4"],
    an_unknown_major_version_is_left_alone => ["VERSION-11"],
    what_the_store_returned_counts => ["STORE-7"],
    nothing_begins_on_an_end_that_was_not_stored => ["STORE-7"],
);

async fn no_time_decides_the_order(world: &World) -> Outcome {
    let earlier = world.now();
    world.pass(1_000).await?;
    let log = Log::open(world).await?;
    // What happened first is told last, and the clock of whoever tells is behind.
    log.tell(vec![started("a")?.at(world.now())]).await?;
    log.tell(vec![completed("a", json!(1))?.at(earlier)]).await?;
    log.tell(vec![started("b")?.at(earlier)]).await?;
    let events = log.events().await?;
    let places: Vec<u64> = events.iter().map(|event| event.run_seq).collect();
    ensure_eq!(places, [1, 2, 3, 4], "the places, as they are read");
    ensure_eq!(
        log.types().await?,
        ["RunQueued", "StepStarted", "StepCompleted", "StepStarted"],
        "the log, as it was written"
    );
    let snapshot = world.client().get(&log.run_id).await?;
    let statuses: Vec<StepStatus> = snapshot.steps.iter().map(|step| step.status).collect();
    ensure_eq!(statuses, [StepStatus::Success, StepStatus::Running], "the statuses");
    Ok(())
}

async fn durations_go_by_when_things_happened(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let happened = world.now();
    world.pass(1_000).await?;
    log.tell(vec![started("a")?.at(happened), started("b")?]).await?;
    let ended = happened.plus_millis(400);
    log.tell(vec![completed("a", json!(1))?.at(ended), completed("b", json!(2))?]).await?;
    let events = log.events().await?;
    let snapshot = world.client().get(&log.run_id).await?;
    let [a, b] = snapshot.steps.as_slice() else {
        return Err(Stop::Fail(format!("two steps, and the snapshot has {}", snapshot.steps.len())));
    };
    ensure_eq!(
        (a.started_at, a.completed_at),
        (Some(happened), Some(ended)),
        "from when to when a step ran, where it is told"
    );
    ensure_eq!(
        (b.started_at, b.completed_at),
        (Some(events[2].emitted_at), Some(events[4].emitted_at)),
        "from when to when a step ran, where only the store knows"
    );
    Ok(())
}

/// The places of objects in a schema that take no other fields than they name.
fn closed(schema: &Value, at: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                let shut = ["additionalProperties", "unevaluatedProperties"].contains(&name.as_str());
                if shut && *field == Value::Bool(false) {
                    found.push(format!("{at}/{name}"));
                }
                closed(field, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| closed(item, at, found)),
        _ => {}
    }
}

async fn every_type_has_a_schema_of_open_objects(world: &World) -> Outcome {
    for event_type in EventType::ALL {
        let schema: Value = serde_json::from_str(schema::text(*event_type))
            .map_err(|cause| Stop::Fail(format!("the schema of {event_type} is not JSON: {cause}")))?;
        ensure_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema",
            "the dialect of the schema of {event_type}"
        );
        let mut shut = Vec::new();
        closed(&schema, "", &mut shut);
        ensure!(shut.is_empty(), "the schema of {event_type} is closed at {shut:?}");
    }
    let run = world.start("id: open\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    for event in run.events().await? {
        let mut told = written(&event)?;
        told["colour"] = json!("red");
        if let Err(error) = schema::validate_json(&told) {
            return Err(Stop::Fail(format!("a field that was added is refused: {error}")));
        }
    }
    Ok(())
}

async fn an_unknown_major_version_is_left_alone(world: &World) -> Outcome {
    let run = world.start("id: next\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let plan = world.client().plan_of(&run.run_id).await?;
    let mut events = run.events().await?;
    let Some(last) = events.pop() else { return Err(Stop::Fail("the log is empty".to_owned())) };
    ensure!(Run::fold(Arc::clone(&plan), &events).is_ok(), "a log of known events is decided about");
    let mut told = written(&last)?;
    told["schemaVersion"] = json!("2.0");
    events.push(Event::from_json(told)?);
    match Run::fold(plan, &events) {
        Err(error) => ensure_eq!(error.code(), Code::UnknownDeciderVersion, "the code"),
        Ok(_) => return Err(Stop::Fail("a log with an event of another major is decided about".to_owned())),
    }
    Ok(())
}

async fn what_the_store_returned_counts(world: &World) -> Outcome {
    let plan = "
id: overtaken
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, with: {gate: b}}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    world.at_gate("b", 1).await?;
    given_up(world, &run, "a").await?;
    world.open_gate("a");
    // Until whoever drives has heard of it, and of nothing else.
    world.pass(1_000).await?;
    world.open_gate("b");
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.count(EventType::StepCompleted).await?, 1, "the ends that were stored");
    Ok(())
}

async fn nothing_begins_on_an_end_that_was_not_stored(world: &World) -> Outcome {
    let plan = "
id: overtaken-in-a-row
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    given_up(world, &run, "a").await?;
    world.open_gate("a");
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.visits_of("b").len(), 0, "the calls of what depends on it");
    ensure_eq!(run.count(EventType::StepCompleted).await?, 0, "the ends that were not stored");
    Ok(())
}

/// The worker of a step gives it up, and says so before its handler comes back.
async fn given_up(world: &World, run: &TestRun, step: &str) -> Outcome {
    let worker = run.until_step(EventType::StepStarted, step).await?.emitted_by;
    let error = StepError::new(FailureClass::Timeout, "TIMEOUT", "it took too long");
    let failed = StepFailed { error, tries: 3, losses: 0, manual: None };
    let request = AppendRequest {
        tenant_id: world.client().scope().tenant_id.clone(),
        run_id: run.run_id.clone(),
        drafts: vec![Draft::step(Subject::new(engine_core::StepId::new(step)?, 1), failed)],
        emitted_by: worker,
        append_as: AppendAs::Worker,
        fence: None,
    };
    world.subject().store.append(request).await?;
    Ok(())
}
