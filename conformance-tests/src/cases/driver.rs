//! Who decides for a run: one driver at a time, on the latest view, under rules that it knows. Runs are made, and written
//! to, past the engine here, as another process would.

use engine_core::decider::{Run, Stimulus};
use engine_core::event::run::{RunApproved, RunContext, RunQueued};
use engine_core::event::step::{CancelReason, StepCancelled, StepCompleted, StepStarted};
use engine_core::event::{Draft, Event, EventType, Subject};
use engine_core::hash::canonical_json;
use engine_core::machine::RunStatus;
use engine_core::port::StartRequest;
use engine_core::port::store::{
    AppendAs, AppendRequest, Appended, CreateRequest, Fence, NewLease, ReadRequest, StoredEvent,
};
use engine_core::signal::{Command, Signal};
use engine_core::{Code, Error, HandlerName, RunId, SignalId, StepId};

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::history::line;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("driver", Durability;
    a_driver_that_was_overtaken_decides_again => ["CORE-28", "CORE-29"],
    an_end_is_told_at_its_place_whoever_writes_beside => ["RUN-26", "RUN-27"],
    a_run_of_other_rules_is_left_alone => ["CORE-24"],
    who_has_the_lease_decides => ["CORE-27", "CORE-32"] needs [
        Need::Leases, Need::Can(Fault::AnotherProcess), Need::Can(Fault::PassTime)
    ],
    one_of_many_takes_over => ["CORE-37"] needs [Need::Can(Fault::Kill), Need::Can(Fault::AnotherProcess)],
    an_attempt_starts_and_ends_once_whoever_says_so => ["ATTEMPT-9", "ATTEMPT-10"],
    a_start_is_not_shown_after_its_end => ["STEP-11"],
);

const HELLO: &str = "
id: hello
version: 1.0.0
steps:
  - {id: a, handler: script}
";

/// Makes a run past the engine, as a process would that is gone before it has handed it over.
async fn queue(
    world: &World,
    plan: &str,
    request: &str,
    change: impl FnOnce(&mut RunQueued),
    lease: Option<NewLease>,
) -> Result<RunId, Stop> {
    let (store, plan, scope) = (&world.subject().store, world.plan(plan)?, world.client().scope());
    let context = RunContext {
        tenant_id: scope.tenant_id.clone(),
        project_id: scope.project_id.clone(),
        environment_id: scope.environment_id.clone(),
        triggered_by: Some("ada".into()),
        trigger_source: None,
    };
    let document = serde_json::to_value(plan.document())
        .map_err(|cause| Stop::Error(format!("the case's plan cannot be written: {cause}")))?;
    store.put_plan(&scope.tenant_id, plan.hash(), &canonical_json(&document)).await?;
    let mut queued = RunQueued::of(&plan, context, request);
    change(&mut queued);
    let (correlation_id, emitted_by) = ("by-hand".into(), "somebody-else".into());
    Ok(store.create(CreateRequest { queued, correlation_id, emitted_by, lease }).await?.run_id)
}

/// Hands a run to the engine. Whether it takes it is seen in the log.
async fn hand_over(world: &World, run_id: &RunId) {
    let tenant_id = world.client().scope().tenant_id.clone();
    let _ =
        world.subject().engine.start(StartRequest { tenant_id, run_id: run_id.clone(), fresh: None }).await;
}

async fn log(world: &World, run_id: &RunId) -> Result<Vec<Event>, Stop> {
    let tenant_id = world.client().scope().tenant_id.clone();
    let request = ReadRequest { tenant_id, run_id: run_id.clone(), after: 0, limit: 1000 };
    Ok(world.subject().store.read(request).await?)
}

async fn lines(world: &World, run_id: &RunId) -> Result<Vec<String>, Stop> {
    Ok(log(world, run_id).await?.iter().map(line).collect())
}

/// Appends past the engine, as another process.
async fn append(
    world: &World,
    run_id: &RunId,
    drafts: Vec<Draft>,
    append_as: AppendAs,
    fence: Option<Fence>,
) -> Result<Appended, Error> {
    let request = AppendRequest {
        tenant_id: world.client().scope().tenant_id.clone(),
        run_id: run_id.clone(),
        drafts,
        emitted_by: "somebody-else".into(),
        append_as,
        fence,
    };
    world.subject().store.append(request).await
}

fn stored(appended: Appended) -> Result<Vec<StoredEvent>, Stop> {
    match appended {
        Appended::Stored(stored) => Ok(stored),
        Appended::Conflict(_) => Err(Stop::Fail("what was appended met a conflict".to_owned())),
    }
}

async fn a_driver_that_was_overtaken_decides_again(world: &World) -> Outcome {
    let plan = "
id: overtaken
version: 1.0.0
mode: graph
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, with: {gate: b}}
";
    let run = world.start(plan).await?;
    world.at_gate("b", 1).await?;
    run.until_step(EventType::StepCompleted, "a").await?;
    // Somebody else decides a signal, and the driver does not hear of it.
    let view = Run::fold(world.client().plan_of(&run.run_id).await?, &run.events().await?)?;
    let signal = Signal {
        signal_id: SignalId::new("elsewhere")?,
        actor: "grace".to_owned(),
        reason: None,
        command: Command::RetryStep { step_id: StepId::new("a")?, cascade: true },
    };
    let drafts = view.decide(Stimulus::Signal(Box::new(signal)))?;
    let append_as = AppendAs::of(&view, &drafts);
    stored(append(world, &run.run_id, drafts, append_as, None).await?)?;
    world.open_gate("b");
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries().last().map(String::as_str), Some("a#2.1"), "the last call");
    ensure_eq!(world.visits().len(), 3, "the calls");
    ensure_eq!(run.step("a").await?.logical_attempt_id, 2, "the attempt that was asked for elsewhere");
    Ok(())
}

async fn an_end_is_told_at_its_place_whoever_writes_beside(world: &World) -> Outcome {
    let plan = "
id: beside
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a, fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    // Audit counts as no decision, so nobody's decision conflicts with it; but what it stands before moves on.
    world.client().checkpoint(&run.run_id, None).await?;
    world.open_gate("a");
    run.ends(RunStatus::Failed).await?;
    let place = run.until_step(EventType::StepFailed, "a").await?.run_seq;
    let failed = run.event(EventType::RunFailed).await?;
    ensure_eq!(failed["rootCause"]["runSeq"], place, "the place of the root cause");
    ensure_eq!(failed["failedSteps"][0]["runSeq"], place, "the place of the step that failed");
    Ok(())
}

async fn a_run_of_other_rules_is_left_alone(world: &World) -> Outcome {
    let other = queue(world, HELLO, "other rules", |queued| queued.decider_version += 1, None).await?;
    let known = queue(world, HELLO, "known rules", |_| {}, None).await?;
    for run_id in [&other, &known] {
        hand_over(world, run_id).await;
    }
    world.track(known, false).ends(RunStatus::Completed).await?;
    world.pass(1_000).await?;
    ensure_eq!(
        lines(world, &other).await?,
        ["RunQueued"],
        "the log of a run of rules that nobody here knows"
    );
    ensure_eq!(world.entries(), ["a#1.1"], "the calls: those of the other run");
    let plan = world.plan(HELLO)?;
    match Run::fold(plan, &log(world, &other).await?) {
        Ok(_) => Err(Stop::Fail("a run of unknown rules was folded".to_owned())),
        Err(error) => {
            ensure_eq!(error.code(), Code::UnknownDeciderVersion, "the code");
            Ok(())
        }
    }
}

async fn who_has_the_lease_decides(world: &World) -> Outcome {
    let lease = NewLease { holder: "somebody-else".to_owned(), duration_ms: 60_000 };
    let run_id = queue(world, HELLO, "leased", |_| {}, Some(lease)).await?;
    hand_over(world, &run_id).await;
    world.pass(10_000).await?;
    ensure_eq!(lines(world, &run_id).await?, ["RunQueued"], "the log while another has the lease");
    let decision = AppendAs::Decision { expected: 1, nothing_after: None, folded_through: 1 };
    let approved = || Draft::run(RunApproved { approved_by: "system".into(), signal_id: None, reason: None });
    stored(append(world, &run_id, vec![approved()], decision, Some(Fence(1))).await?)?;
    world.pass(10_000).await?;
    ensure_eq!(lines(world, &run_id).await?, ["RunQueued", "RunApproved"], "the log: its holder decides");
    world.pass(60_000).await?;
    let _other = world.from_another_process().await?;
    let run = world.track(run_id, false);
    run.ends(RunStatus::Completed).await?;
    let late = append(world, &run.run_id, vec![approved()], decision, Some(Fence(1))).await;
    match late {
        Err(error) => ensure_eq!(error.code(), Code::LeaseLost, "the answer to who had the lease before"),
        Ok(appended) => return Err(Stop::Fail(format!("who lost the lease decides: {appended:?}"))),
    }
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}

async fn one_of_many_takes_over(world: &World) -> Outcome {
    let plan = "
id: left-behind
version: 1.0.0
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, timeoutMs: 86400000, with: {gate: b}}
  - {id: c, handler: script}
";
    let run = world.start(plan).await?;
    world.at_gate("b", 1).await?;
    world.kill().await?;
    world.restart().await?;
    for _ in 0..2 {
        world.from_another_process().await?;
    }
    world.at_gate("b", 2).await?;
    world.pass(1_000).await?;
    world.open_gate_for("b", 4);
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1", "b#1.2", "c#1.1"], "the calls: one of them took over");
    Ok(())
}

/// A run that nobody drives: it waits for an approval that never comes.
async fn alone(world: &World) -> Result<RunId, Stop> {
    let plan = HELLO.replace("steps:", "approval: required\nsteps:");
    queue(world, &plan, "alone", |_| {}, None).await
}

fn started(by: &str) -> Result<Draft, Stop> {
    let (handler, worker) = (HandlerName::new("script")?, by.to_owned());
    let body = StepStarted { handler, agent: None, worker, claim_until: None, idempotency_token: None };
    Ok(Draft::step(Subject::new(StepId::new("a")?, 1), body))
}

fn completed() -> Result<Draft, Stop> {
    Ok(Draft::step(Subject::new(StepId::new("a")?, 1), StepCompleted::default()))
}

async fn an_attempt_starts_and_ends_once_whoever_says_so(world: &World) -> Outcome {
    let run_id = alone(world).await?;
    for worker in ["one", "two"] {
        stored(append(world, &run_id, vec![started(worker)?], AppendAs::Worker, None).await?)?;
    }
    ensure_eq!(lines(world, &run_id).await?, ["RunQueued", "StepStarted a#1"], "the log after two starts");
    stored(append(world, &run_id, vec![completed()?], AppendAs::Worker, None).await?)?;
    let cancelled =
        StepCancelled { reason: CancelReason::RunCancelled, forced: true, signal_id: None, manual: None };
    let cancelled = Draft::step(Subject::new(StepId::new("a")?, 1), cancelled);
    let decision = AppendAs::Decision { expected: 1, nothing_after: None, folded_through: 3 };
    let late = append(world, &run_id, vec![cancelled], decision, None).await?;
    ensure!(matches!(late, Appended::Conflict(_)), "a second end was stored: {late:?}");
    let expected = ["RunQueued", "StepStarted a#1", "StepCompleted a#1"];
    ensure_eq!(lines(world, &run_id).await?, expected, "the log after two ends");
    Ok(())
}

async fn a_start_is_not_shown_after_its_end(world: &World) -> Outcome {
    let run_id = alone(world).await?;
    let now = world.now();
    // The clock of whoever started it is ahead by a minute.
    let drafts = vec![started("ahead")?.at(now.plus_millis(60_000)), completed()?.at(now)];
    stored(append(world, &run_id, drafts, AppendAs::Worker, None).await?)?;
    let snapshot = world.client().get(&run_id).await?;
    for step in &snapshot.steps {
        let (started, ended) = (step.started_at, step.completed_at);
        ensure!(started.is_some() && started <= ended, "it started {started:?} and ended {ended:?}");
        ensure!(
            step.attempts[0].started_at <= step.attempts[0].completed_at,
            "its attempt: {:?}",
            step.attempts
        );
    }
    Ok(())
}
