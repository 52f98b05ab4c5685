//! Identity, what is frozen, and what is refused before anything is stored.

use client::Start;
use engine_core::Code;
use engine_core::event::EventType;
use engine_core::event::run::{RunContext, RunQueued};
use engine_core::machine::RunStatus;
use engine_core::port::StartRequest;
use engine_core::port::store::CreateRequest;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::case::cases;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("start", Core;
    a_run_is_queued_approved_started_and_completed => ["CORE-21", "START-9", "START-10", "RUN-10", "RUN-22"],
    run_queued_freezes_what_decides => ["CORE-22", "START-2"],
    run_started_names_engine_plan_and_context => ["RUN-21", "VERSION-12"],
    the_same_request_gives_the_same_run => ["START-3"],
    another_request_or_version_gives_another_run => ["START-2", "START-3"],
    many_starts_at_once_make_one_run => ["START-3"],
    a_plan_with_problems_is_refused_whole => ["PLAN-2", "PLAN-3"],
    an_input_that_does_not_fit_stores_nothing => ["START-11"],
    a_run_that_needs_approval_waits_for_it => ["START-8", "APPROVE-1", "RUN-13"],
    a_run_whose_plan_is_gone_fails_with_the_reason => ["RUN-3", "RUN-25"],
);

const HELLO: &str = "
id: hello
version: 1.2.0
steps:
  - {id: greet, handler: script, with: {value: {hello: world}}}
";

async fn a_run_is_queued_approved_started_and_completed(world: &World) -> Outcome {
    let run = world.start(HELLO).await?;
    run.ends(RunStatus::Completed).await?;
    let expected = [
        "RunQueued",
        "RunApproved",
        "RunStarted",
        "StepStarted greet#1",
        "StepCompleted greet#1",
        "RunCompleted",
    ];
    ensure_eq!(run.lines().await?, expected, "the log of a run of one step");
    ensure_eq!(run.event(EventType::RunApproved).await?["approvedBy"], "system", "who approved it");
    let completed = run.event(EventType::RunCompleted).await?;
    ensure_eq!(completed["outcome"], "SUCCESS", "the outcome");
    ensure_eq!(completed["output"]["value"], json!({"greet": {"hello": "world"}}), "the output");
    ensure_eq!(completed["counts"]["succeeded"], 1, "the steps that succeeded");
    ensure_eq!(world.entries(), ["greet#1.1"], "the calls of the handler");
    Ok(())
}

async fn run_queued_freezes_what_decides(world: &World) -> Outcome {
    let plan = "
id: frozen
version: 3.1.4
limits: {maxConcurrency: 7, perAgent: 2, drainTimeoutMs: 12345, runTimeoutMs: 99000, maxFailures: 5}
failure: {continueOnPartialFailure: true, failFast: cancel, orphans: reject, pauseOnHumanReview: true, compensateOnCancel: true}
steps:
  - {id: a, handler: script}
";
    let run = world
        .start_with(plan, |start| {
            start.input(json!({"n": 1})).request_id("order-17").intent("to see").correlation_id("trace-4")
        })
        .await?;
    run.ends(RunStatus::Completed).await?;
    let queued = run.event(EventType::RunQueued).await?;
    let identity = "acme|conformance|test|frozen|3.1.4|order-17";
    let identity: String = Sha256::digest(identity).iter().map(|byte| format!("{byte:02x}")).collect();
    let plan = world.plan(plan)?;
    for (field, expected) in [
        ("/identity", json!(identity)),
        ("/input/value", json!({"n": 1})),
        ("/originalIntent", json!("to see")),
        ("/correlationId", json!("trace-4")),
        ("/planRef/sha256", json!(plan.hash())),
        ("/planRef/planId", json!("frozen")),
        ("/planRef/planVersion", json!("3.1.4")),
        ("/context/tenantId", json!("acme")),
        ("/context/triggeredBy", json!("ada")),
        ("/limits/maxConcurrency", json!(7)),
        ("/limits/perAgent", json!(2)),
        ("/limits/drainTimeoutMs", json!(12345)),
        ("/limits/runTimeoutMs", json!(99000)),
        ("/limits/maxFailures", json!(5)),
        ("/policies/continueOnPartialFailure", json!(true)),
        ("/policies/failFast", json!("cancel")),
        ("/policies/orphans", json!("reject")),
        ("/policies/pauseOnHumanReview", json!(true)),
        ("/policies/compensateOnCancel", json!(true)),
        ("/capabilities/immediatePause", json!(world.capabilities().immediate_pause)),
        ("/deciderVersion", json!(1)),
    ] {
        ensure_eq!(queued.pointer(field), Some(&expected), "{field} of RunQueued");
    }
    Ok(())
}

async fn run_started_names_engine_plan_and_context(world: &World) -> Outcome {
    let run = world.start(HELLO).await?;
    run.ends(RunStatus::Completed).await?;
    let (queued, started) = (run.event(EventType::RunQueued).await?, run.event(EventType::RunStarted).await?);
    ensure_eq!(started["status"], "RUNNING", "its status");
    ensure_eq!(started["engineType"], world.subject().engine.name(), "its engine");
    ensure!(
        started["engineRunRef"].as_str().is_some_and(|text| !text.is_empty()),
        "it names the engine's run"
    );
    ensure!(started["startedAt"].is_string(), "it says when");
    ensure_eq!(started["planRef"], queued["planRef"], "its plan");
    ensure_eq!(started["planRef"]["schemaVersion"], "v1", "the schema that its plan is read with");
    ensure_eq!(started["context"], queued["context"], "its context");
    let snapshot = run.snapshot().await?;
    ensure_eq!(json!(snapshot.engine_run_ref), started["engineRunRef"], "the reference in the snapshot");
    Ok(())
}

async fn the_same_request_gives_the_same_run(world: &World) -> Outcome {
    let first = world.start_with(HELLO, |start| start.request_id("once")).await?;
    first.ends(RunStatus::Completed).await?;
    let before = first.events().await?;
    let second = world.start_with(HELLO, |start| start.request_id("once")).await?;
    ensure!(first.fresh && !second.fresh, "only the first call makes the run");
    ensure_eq!(second.run_id, first.run_id, "the run of the second call");
    ensure_eq!(first.events().await?, before, "the log after the second call");
    ensure_eq!(world.entries().len(), 1, "the calls of the handler");
    ensure_eq!(world.list().await?.len(), 1, "the runs of the tenant");
    Ok(())
}

async fn another_request_or_version_gives_another_run(world: &World) -> Outcome {
    let first = world.start_with(HELLO, |start| start.request_id("one")).await?;
    let other = world.start_with(HELLO, |start| start.request_id("two")).await?;
    let newer = HELLO.replace("1.2.0", "1.3.0");
    let newer = world.start_with(&newer, |start| start.request_id("one")).await?;
    let theirs = world.as_tenant("globex")?.start_with(HELLO, |start| start.request_id("one")).await?;
    for run in [&first, &other, &newer, &theirs] {
        ensure!(run.fresh, "each of them is a run of its own");
        run.ends(RunStatus::Completed).await?;
    }
    ensure_eq!(world.list().await?.len(), 3, "the runs of the first tenant");
    Ok(())
}

async fn many_starts_at_once_make_one_run(world: &World) -> Outcome {
    let plan = world.plan(HELLO)?;
    let starts = (0..8).map(|_| world.try_start(Start::of(plan.clone()).request_id("at once")));
    let started = futures_util::future::join_all(starts).await;
    let mut fresh = 0;
    let mut ids = std::collections::BTreeSet::new();
    for run in started {
        let run = run?;
        fresh += usize::from(run.fresh);
        run.ends(RunStatus::Completed).await?;
        ids.insert(run.run_id);
    }
    ensure_eq!((fresh, ids.len()), (1, 1), "the calls that made a run, and the runs");
    ensure_eq!(world.entries(), ["greet#1.1"], "the calls of the handler");
    Ok(())
}

async fn a_plan_with_problems_is_refused_whole(world: &World) -> Outcome {
    let bad = "
id: bad
version: 1.0.0
steps:
  - {id: a, handler: script, dependsOn: [b]}
  - {id: b, handler: script, dependsOn: [a, ghost]}
  - {id: b, handler: nobody-has-this}
";
    let Err(error) = world.client().read_plan(bad) else {
        return Err(crate::Stop::Fail("a plan with a cycle, a ghost and a twin was taken".to_owned()));
    };
    ensure_eq!(error.code(), Code::PlanInvalid, "the code");
    let told = error.to_string();
    for word in ["ghost", "nobody-has-this"] {
        ensure!(told.contains(word), "every problem is told at once, {word} too: {told}");
    }
    ensure!(world.list().await?.is_empty(), "nothing is stored");
    Ok(())
}

async fn an_input_that_does_not_fit_stores_nothing(world: &World) -> Outcome {
    let plan = world.plan(
        "
id: strict
version: 1.0.0
inputSchema: {type: object, required: [order]}
steps:
  - {id: a, handler: script}
",
    )?;
    match world.try_start(Start::of(plan).input(json!({"ordre": 1}))).await {
        Ok(_) => return Err(crate::Stop::Fail("an input without what it needs was taken".to_owned())),
        Err(error) => ensure_eq!(error.code(), Code::SchemaValidationFailed, "the code"),
    }
    ensure!(world.list().await?.is_empty(), "nothing is stored");
    Ok(())
}

async fn a_run_that_needs_approval_waits_for_it(world: &World) -> Outcome {
    let plan = "
id: careful
version: 1.0.0
approval: required
steps:
  - {id: a, handler: script}
";
    let run = world.start(plan).await?;
    run.never(60_000, "RunApproved", |event| event.body.event_type() == Some(EventType::RunApproved)).await?;
    let snapshot = run.snapshot().await?;
    ensure_eq!(snapshot.status, Some(RunStatus::Pending), "the status before");
    ensure_eq!(
        snapshot.substatus.map(|substatus| substatus.as_str()),
        Some("WAITING_FOR_HUMAN"),
        "the substatus before"
    );
    run.accept(client::Ask::approve().by("grace")).await?;
    run.ends(RunStatus::Completed).await?;
    let approved = run.event(EventType::RunApproved).await?;
    ensure_eq!(approved["approvedBy"], "grace", "who approved it");
    ensure!(approved["signalId"].is_string(), "RunApproved names the signal: {approved}");
    Ok(())
}

async fn a_run_whose_plan_is_gone_fails_with_the_reason(world: &World) -> Outcome {
    let scope = world.client().scope().clone();
    let context = RunContext {
        tenant_id: scope.tenant_id.clone(),
        project_id: scope.project_id,
        environment_id: scope.environment_id,
        triggered_by: Some("ada".into()),
        trigger_source: None,
    };
    // Nobody has stored the plan: that cannot be known before it is looked for.
    let request = CreateRequest {
        queued: RunQueued::of(&*world.plan(HELLO)?, context, "planless"),
        correlation_id: "planless".into(),
        emitted_by: "conformance".into(),
        lease: None,
    };
    let run_id = world.subject().store.create(request).await?.run_id;
    let request = StartRequest { tenant_id: scope.tenant_id, run_id: run_id.clone(), fresh: None };
    let run = world.look_at(run_id);
    // Whether the engine says so at once or not, the log does.
    let _ = world.subject().engine.start(request).await;
    run.ends(RunStatus::Failed).await?;
    let lines = run.lines().await?;
    ensure!(!lines.iter().any(|line| line == "RunStarted"), "it has not started: {lines:?}");
    ensure_eq!(run.event(EventType::RunFailed).await?["code"], "PLAN_MISSING", "why it failed");
    ensure!(world.entries().is_empty(), "nothing was called");
    Ok(())
}
