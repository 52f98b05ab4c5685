//! What the store promises, through the port that engines and workers use. The runs here are made by hand and wait for an
//! approval that never comes, so that nobody else writes.

use std::sync::Arc;

use engine_core::decider::Run;
use engine_core::event::audit::{AlertRaised, Severity};
use engine_core::event::run::{RunApproved, RunCancelled, RunContext, RunQueued, RunStarted};
use engine_core::event::signal::SignalAccepted;
use engine_core::event::step::{StepCompleted, StepError, StepFailed, StepStarted};
use engine_core::event::{Body, Draft, Event, EventType, IdempotencyKey, Subject};
use engine_core::failure::FailureClass;
use engine_core::hash::canonical_json;
use engine_core::machine::RunStatus;
use engine_core::plan::CompiledPlan;
use engine_core::port::StateStore;
use engine_core::port::store::{
    AppendAs, AppendRequest, Appended, ClaimOutbox, CreateRequest, Delivered, FailedDelivery, LeaseRequest,
    NextTry, ReadRequest, RequestKey, StoredEvent,
};
use engine_core::projection::{Advance, Freshness, Projection, Projector, Resync, ResyncRequest};
use engine_core::signal::SignalType;
use engine_core::{Code, Error, HandlerName, PlanVersion, RunId, SignalId, StepId, TenantId};
use serde_json::{Map, Value, json};

use crate::case::cases;
use crate::{Fault, Need, Outcome, Stop, World, ensure, ensure_eq};

cases!("store", Store;
    the_published_keys_are_reproduced => ["KEY-4"],
    a_repeated_event_is_stored_once => ["STORE-4", "STORE-6", "STORE-9"],
    an_attempt_ends_once => ["STORE-5", "STORE-6", "WORKER-2"],
    what_comes_after_the_end_of_its_attempt_is_given_the_end => ["STORE-14"],
    a_signal_is_decided_once => ["STORE-5", "STORE-8"],
    a_decision_on_an_old_view_stores_nothing => ["STORE-8", "CORE-28"],
    the_effects_of_a_signal_need_the_latest_view => ["STORE-13"],
    after_the_end_only_audit_is_taken => ["STORE-10", "RUN-2"],
    a_lease_has_one_holder_at_a_time => ["START-4"],
    one_invalid_event_refuses_the_whole_call => ["EVENT-5", "EVENT-6"],
    an_event_over_ten_mebibytes_is_refused => ["DATA-23"],
    the_store_says_when_it_wrote => ["EVENT-3"],
    readers_accept_what_they_do_not_know => ["EVENT-7", "CORE-8", "SNAP-6", "VERSION-10"],
    a_gap_makes_a_reader_stale_until_it_is_filled => ["SNAP-10", "SNAP-13", "SNAP-14", "STORE-3"],
    a_resync_begins_at_a_snapshot_or_at_the_beginning => ["SNAP-11", "SNAP-12"],
    what_was_acted_on_is_remembered => ["CORE-35"],
    every_event_waits_for_the_bus_in_order => ["BUS-1", "BUS-3"],
    dead_letters_can_be_replayed => ["BUS-6"],
    an_answer_is_given_again_to_the_same_key_of_a_tenant => ["IDEM-1", "IDEM-2", "IDEM-3"]
        needs [Need::Can(Fault::PassTime)],
);

const PLAN: &str = "
id: by-hand
version: 1.2.0
mode: graph
approval: required
steps:
  - {id: a, handler: script}
  - {id: b, handler: script}
";

/// A run that nobody drives.
pub(super) struct Log {
    store: Arc<dyn StateStore>,
    plan: Arc<CompiledPlan>,
    tenant_id: TenantId,
    pub(super) run_id: RunId,
}

impl Log {
    pub(super) async fn open(world: &World) -> Result<Self, Stop> {
        let (store, plan) = (Arc::clone(&world.subject().store), world.plan(PLAN)?);
        let tenant_id = world.client().scope().tenant_id.clone();
        let text = serde_json::to_value(plan.document()).map(|document| canonical_json(&document));
        let text = text.map_err(|cause| Stop::Error(format!("the case's plan: {cause}")))?;
        store.put_plan(&tenant_id, plan.hash(), &text).await?;
        let context = RunContext {
            tenant_id: tenant_id.clone(),
            project_id: "conformance".into(),
            environment_id: "test".into(),
            triggered_by: Some("ada".into()),
            trigger_source: None,
        };
        let request = CreateRequest {
            queued: RunQueued::of(&plan, context, "by hand"),
            correlation_id: "by-hand".into(),
            emitted_by: "conformance".into(),
            lease: None,
        };
        let run_id = store.create(request).await?.run_id;
        Ok(Self { store, plan, tenant_id, run_id })
    }

    async fn append(&self, drafts: Vec<Draft>, append_as: AppendAs) -> Result<Appended, Error> {
        let (tenant_id, run_id) = (self.tenant_id.clone(), self.run_id.clone());
        let request = AppendRequest {
            tenant_id,
            run_id,
            drafts,
            emitted_by: "conformance".into(),
            append_as,
            fence: None,
        };
        self.store.append(request).await
    }

    /// Appends what workers tell.
    pub(super) async fn tell(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, Stop> {
        match self.append(drafts, AppendAs::Worker).await? {
            Appended::Stored(stored) => Ok(stored),
            Appended::Conflict(_) => Err(Stop::Fail("what a worker tells met a conflict".to_owned())),
        }
    }

    /// Appends decisions made when so many stood in the log, up to a place.
    async fn decide(
        &self,
        drafts: Vec<Draft>,
        expected: u64,
        folded_through: u64,
        strict: bool,
    ) -> Result<Appended, Error> {
        let nothing_after = strict.then_some(folded_through);
        self.append(drafts, AppendAs::Decision { expected, nothing_after, folded_through }).await
    }

    pub(super) async fn events(&self) -> Result<Vec<Event>, Stop> {
        let (tenant_id, run_id) = (self.tenant_id.clone(), self.run_id.clone());
        Ok(self.store.read(ReadRequest { tenant_id, run_id, after: 0, limit: 1000 }).await?)
    }

    pub(super) async fn types(&self) -> Result<Vec<String>, Stop> {
        Ok(self.events().await?.iter().map(|event| event.body.type_name().to_owned()).collect())
    }
}

fn subject(step: &str) -> Result<Subject, Stop> {
    Ok(Subject::new(StepId::new(step)?, 1))
}

pub(super) fn started(step: &str) -> Result<Draft, Stop> {
    let handler = HandlerName::new("script")?;
    let body =
        StepStarted { handler, agent: None, worker: "w".into(), claim_until: None, idempotency_token: None };
    Ok(Draft::step(subject(step)?, body))
}

pub(super) fn completed(step: &str, value: Value) -> Result<Draft, Stop> {
    let output = engine_core::event::step::StepOutput { value: Some(value), ..Default::default() };
    Ok(Draft::step(subject(step)?, StepCompleted { output, artifacts: Vec::new(), manual: None }))
}

fn failed(step: &str) -> Result<Draft, Stop> {
    let error = StepError::new(FailureClass::Permanent, "Other", "it failed after all");
    Ok(Draft::step(subject(step)?, StepFailed { error, tries: 1, losses: 0, manual: None }))
}

fn approved() -> Draft {
    Draft::run(RunApproved { approved_by: "ada".into(), signal_id: None, reason: None })
}

fn accepted(signal: &str) -> Result<Draft, Stop> {
    Ok(Draft::run(SignalAccepted {
        signal_id: SignalId::new(signal)?,
        signal_type: SignalType::Approve,
        actor: "ada".into(),
        reason: None,
        details: Map::new(),
    }))
}

fn alert() -> Draft {
    let message = "somebody should look".to_owned();
    Draft::run(AlertRaised { code: "LOOK".to_owned(), number: 1, severity: Severity::P3, message })
}

fn fresh(stored: &[StoredEvent]) -> Vec<bool> {
    stored.iter().map(|stored| stored.fresh).collect()
}

fn conflict(appended: Result<Appended, Error>) -> Result<Vec<u64>, Stop> {
    match appended? {
        Appended::Conflict(events) => Ok(events.iter().map(|event| event.run_seq).collect()),
        Appended::Stored(_) => {
            Err(Stop::Fail("a decision was stored that should have met a conflict".to_owned()))
        }
    }
}

async fn the_published_keys_are_reproduced(_: &World) -> Outcome {
    let (run, version) = (RunId::new("run-001")?, PlanVersion::new("1.2.0")?);
    let body = started("a")?.body;
    let subject = Subject::new(StepId::new("model.orders")?, 1);
    let key = IdempotencyKey::of(&run, Some(&subject), &body, &version);
    ensure_eq!(
        key.to_string(),
        "6c99484df8a52a1dc3f2533b796f7257c11f57149d3fe3277d4c7ab98433d033",
        "the key of a step's event"
    );
    let run_started: RunStarted = serde_json::from_value(json!({
        "status": "RUNNING", "engineRunRef": "x", "engineType": "mock",
        "planRef": {"uri": "u", "sha256": "0".repeat(64), "schemaVersion": "1.0", "planId": "p", "planVersion": "1.2.0"},
        "context": {"tenantId": "acme", "projectId": "p", "environmentId": "e"},
        "startedAt": "2026-02-11T10:30:00.000Z",
    }))
    .map_err(|cause| Stop::Error(format!("the case's event: {cause}")))?;
    let key = IdempotencyKey::of(&run, None, &Body::from(run_started), &version);
    ensure_eq!(
        key.to_string(),
        "d219f09c191299aed8f136206aac54aba08233611a71d86470eb60174fb086b4",
        "the key of a run's event"
    );
    Ok(())
}

async fn a_repeated_event_is_stored_once(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let first = log.tell(vec![started("a")?]).await?;
    let again = log.tell(vec![started("a")?, started("b")?]).await?;
    ensure_eq!(fresh(&again), [false, true], "which of them the second call stored");
    ensure_eq!(again[0].event, first[0].event, "what is returned for the one that was there");
    ensure_eq!(log.types().await?, ["RunQueued", "StepStarted", "StepStarted"], "the log");
    Ok(())
}

async fn an_attempt_ends_once(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    log.tell(vec![started("a")?]).await?;
    let first = log.tell(vec![completed("a", json!(1))?]).await?;
    for other in [failed("a")?, completed("a", json!(2))?] {
        let late = log.tell(vec![other]).await?;
        ensure_eq!(fresh(&late), [false], "whether a second end is stored");
        ensure_eq!(late[0].event, first[0].event, "what is returned in its place");
    }
    ensure_eq!(log.types().await?, ["RunQueued", "StepStarted", "StepCompleted"], "the log");
    Ok(())
}

async fn what_comes_after_the_end_of_its_attempt_is_given_the_end(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let end = log.tell(vec![completed("a", json!(1))?]).await?;
    let late = log.tell(vec![started("a")?, started("b")?]).await?;
    ensure_eq!(fresh(&late), [false, true], "which of them is stored");
    ensure_eq!(late[0].event, end[0].event, "what is returned for the start that comes too late");
    ensure_eq!(log.types().await?, ["RunQueued", "StepCompleted", "StepStarted"], "the log");
    Ok(())
}

async fn a_signal_is_decided_once(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let first = log.decide(vec![accepted("s1")?, approved()], 1, 1, true).await?;
    ensure!(matches!(first, Appended::Stored(_)), "the first decision is stored");
    let before = log.events().await?;
    let told = conflict(log.decide(vec![accepted("s1")?], 3, 3, true).await);
    ensure!(told.is_ok(), "a second decision on one signal is a conflict");
    ensure_eq!(log.events().await?, before, "the log");
    Ok(())
}

async fn a_decision_on_an_old_view_stores_nothing(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    log.tell(vec![started("a")?]).await?;
    let told = conflict(log.decide(vec![approved()], 0, 0, false).await)?;
    ensure_eq!(told, [1, 2], "what the driver is told: everything that it had not folded");
    let told = conflict(log.decide(vec![approved(), accepted("s1")?], 2, 2, false).await)?;
    ensure_eq!(told, [0; 0], "what a driver is told that counts more than there are");
    ensure_eq!(log.types().await?, ["RunQueued", "StepStarted"], "the log");
    // Workers write beside the driver: that is no conflict.
    let stored = log.decide(vec![approved()], 1, 1, false).await?;
    ensure!(matches!(stored, Appended::Stored(_)), "a decision on the right count is stored");
    let told = conflict(log.decide(vec![accepted("s2")?, approved()], 2, 3, false).await)?;
    ensure_eq!(told, [0; 0], "what is told when a key is taken by an event that was folded");
    ensure_eq!(log.types().await?, ["RunQueued", "StepStarted", "RunApproved"], "the log: all or nothing");
    Ok(())
}

async fn the_effects_of_a_signal_need_the_latest_view(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    log.tell(vec![started("a")?]).await?;
    let told = conflict(log.decide(vec![accepted("s1")?, approved()], 1, 1, true).await)?;
    ensure_eq!(told, [2], "what the driver had not folded");
    ensure_eq!(log.types().await?, ["RunQueued", "StepStarted"], "the log");
    let stored = log.decide(vec![accepted("s1")?, approved()], 1, 2, true).await?;
    ensure!(matches!(stored, Appended::Stored(_)), "on the latest view it is stored");
    Ok(())
}

async fn after_the_end_only_audit_is_taken(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let end: RunCancelled = serde_json::from_value(json!({
        "signalId": "s1", "actor": "ada",
        "counts": {"total": 2, "pending": 2, "running": 0, "succeeded": 0, "failed": 0, "skipped": 0, "cancelled": 0},
        "compensation": {},
    }))
    .map_err(|cause| Stop::Error(format!("the case's event: {cause}")))?;
    log.decide(vec![Draft::run(end)], 1, 1, false).await?;
    let before = log.types().await?;
    match log.append(vec![started("a")?], AppendAs::Worker).await {
        Err(error) => ensure_eq!(error.code(), Code::RunTerminal, "the refusal of what a worker tells"),
        Ok(appended) => return Err(Stop::Fail(format!("after the end was stored: {appended:?}"))),
    }
    match log.decide(vec![approved()], 2, 2, false).await {
        Err(error) => ensure_eq!(error.code(), Code::RunTerminal, "the refusal of a decision"),
        Ok(appended) => return Err(Stop::Fail(format!("after the end was decided: {appended:?}"))),
    }
    ensure_eq!(log.types().await?, before, "the log");
    let status = log.store.find(&log.tenant_id, &log.run_id).await?.status;
    ensure_eq!(status, RunStatus::Cancelled, "the status after all that");
    let audit = log.tell(vec![alert()]).await?;
    ensure_eq!(fresh(&audit), [true], "whether audit is stored");
    Ok(())
}

async fn a_lease_has_one_holder_at_a_time(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let ask = |holder: String| {
        log.store.lease(LeaseRequest { run_id: log.run_id.clone(), holder, duration_ms: 3_600_000 })
    };
    let answers =
        futures_util::future::join_all((1..=8).map(|number| ask(format!("process-{number}")))).await;
    let mut fences = Vec::new();
    for answer in answers {
        match answer {
            Ok(fence) => fences.push(fence),
            Err(error) => ensure_eq!(error.code(), Code::LeaseHeld, "the refusal of those who came too late"),
        }
    }
    let [first] = fences.as_slice() else {
        return Err(Stop::Fail(format!("{} of eight took the lease at once", fences.len())));
    };
    log.store.release(&log.run_id, *first).await?;
    let second = ask("process-9".to_owned()).await?;
    ensure!(second > *first, "a later lease has a higher number: {second:?} after {first:?}");
    Ok(())
}

async fn one_invalid_event_refuses_the_whole_call(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    // An event about a step that names no step.
    let homeless = Draft { subject: None, ..started("b")? };
    match log.append(vec![started("a")?, homeless], AppendAs::Worker).await {
        Err(error) => ensure_eq!(error.code(), Code::SchemaValidationFailed, "the code"),
        Ok(appended) => return Err(Stop::Fail(format!("an invalid event was stored: {appended:?}"))),
    }
    let nameless =
        AlertRaised { code: String::new(), number: 1, severity: Severity::P3, message: "m".to_owned() };
    match log.append(vec![started("a")?, Draft::run(nameless)], AppendAs::Worker).await {
        Err(error) => ensure_eq!(error.code(), Code::SchemaValidationFailed, "the code"),
        Ok(appended) => return Err(Stop::Fail(format!("an invalid event was stored: {appended:?}"))),
    }
    ensure_eq!(log.types().await?, ["RunQueued"], "the log: nothing of these calls");
    Ok(())
}

async fn an_event_over_ten_mebibytes_is_refused(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let large = completed("a", Value::String("x".repeat(10 * 1024 * 1024)))?;
    match log.append(vec![started("b")?, large], AppendAs::Worker).await {
        Err(error) => ensure_eq!(error.code(), Code::PayloadTooLarge, "the code"),
        Ok(_) => return Err(Stop::Fail("an event over 10 MiB was stored".to_owned())),
    }
    ensure_eq!(log.types().await?, ["RunQueued"], "the log: nothing of that call");
    Ok(())
}

async fn the_store_says_when_it_wrote(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    let happened = world.now();
    world.pass(500).await?;
    let _still = world.hold_time();
    let before = world.now();
    let stored = log.tell(vec![started("a")?.at(happened)]).await?;
    let event = &stored[0].event;
    ensure_eq!(event.occurred_at, Some(happened), "when it happened");
    ensure!(
        event.emitted_at >= before && event.emitted_at <= world.now(),
        "when it was written: {}",
        event.emitted_at
    );
    Ok(())
}

async fn readers_accept_what_they_do_not_know(world: &World) -> Outcome {
    let run = world.start("id: known\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let plan = world.client().plan_of(&run.run_id).await?;
    let mut projection = Projection::new(Arc::clone(&plan));
    let events = run.events().await?;
    let mut newer = Vec::new();
    for event in &events {
        let mut told = crate::world::run::json(event)?;
        told["schemaVersion"] = json!("1.7");
        told["colour"] = json!("red");
        if told["outcome"].is_string() {
            told["outcome"] = json!("GLORIOUS");
        }
        let read: Event = serde_json::from_value(told).map_err(|cause| {
            Stop::Fail(format!("a newer shape of {} is not read: {cause}", event.body.type_name()))
        })?;
        projection.apply(&read);
        newer.push(read);
    }
    let known = run.snapshot().await?;
    let now = world.now();
    let decided = Run::fold(plan, &newer)?;
    ensure_eq!(decided.state().status(), known.status, "the status, as whoever decides sees it");
    ensure_eq!(projection.snapshot(now).status, known.status, "the status, from events of a newer shape");
    let mut told = crate::world::run::json(&events[2])?;
    told["eventType"] = json!("RunPainted");
    told["runSeq"] = json!(events.len() + 1);
    let unknown: Event = serde_json::from_value(told)
        .map_err(|cause| Stop::Fail(format!("an event of an unknown type is not read: {cause}")))?;
    let before = projection.snapshot(now);
    projection.apply(&unknown);
    let mut after = projection.snapshot(now);
    ensure_eq!(after.last_event_seq, before.last_event_seq + 1, "the watermark");
    after.last_event_seq = before.last_event_seq;
    ensure_eq!(after, before, "everything else");
    Ok(())
}

async fn a_gap_makes_a_reader_stale_until_it_is_filled(world: &World) -> Outcome {
    let run = world.start("id: holed\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let plan = world.client().plan_of(&run.run_id).await?;
    let events = run.events().await?;
    let mut reader = Projector::new(Arc::clone(&plan));
    reader.advance(&events[..2]);
    let Advance::Gap(request, alert) = reader.advance(&events[3..]) else {
        return Err(Stop::Fail("a gap was not noticed".to_owned()));
    };
    ensure_eq!(alert.code, "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED", "the alert");
    ensure_eq!(alert.severity, Severity::P2, "how urgent it is");
    ensure!(matches!(reader.freshness(), Freshness::Stale { .. }), "the reader is stale");
    ensure_eq!(reader.projection().last_event_seq(), 2, "what it has folded: nothing behind the gap");
    let tenant = world.client().scope().tenant_id.clone();
    let store = &world.subject().store;
    let nothing_new = engine_core::projection::ResyncReply { snapshot: None, events: events[..2].to_vec() };
    ensure_eq!(reader.resync(nothing_new)?, Resync::StillStale, "a resync that brings nothing new");
    ensure!(matches!(reader.freshness(), Freshness::Stale { .. }), "the reader is stale after it too");
    let reply = store.resync(&tenant, &run.run_id, request).await?;
    ensure_eq!(reader.resync(reply)?, Resync::Done, "a resync that brings what was missing");
    ensure_eq!(reader.projection().last_event_seq(), events.len() as u64, "what it has folded then");
    // A log in which a place is missing for good is read as it is.
    let mut holed = Projector::new(plan);
    holed.advance(&events[..2]);
    let _ = holed.advance(&events[3..]);
    let reply = engine_core::projection::ResyncReply {
        snapshot: None,
        events: events.iter().filter(|event| event.run_seq != 3).cloned().collect(),
    };
    ensure_eq!(holed.resync(reply)?, Resync::Done, "a gap that the store confirms");
    ensure_eq!(run.count(EventType::AlertRaised).await?, 0, "the alerts in the run's log");
    Ok(())
}

async fn a_resync_begins_at_a_snapshot_or_at_the_beginning(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    log.tell(vec![started("a")?]).await?;
    let whole = log.events().await?;
    let ask = |request| log.store.resync(&log.tenant_id, &log.run_id, request);
    let full = ask(ResyncRequest::Full).await?;
    ensure_eq!((full.snapshot.is_none(), &full.events), (true, &whole), "a full resync");
    let without = ask(ResyncRequest::FromSnapshot { snapshot_seq: 2 }).await?;
    ensure_eq!(
        (without.snapshot.is_none(), &without.events),
        (true, &whole),
        "from a snapshot that is not there"
    );
    let mut projection = Projection::new(Arc::clone(&log.plan));
    for event in &whole {
        projection.apply(event);
    }
    log.store.keep_snapshot(&log.tenant_id, &log.run_id, &projection.record()).await?;
    log.tell(vec![started("b")?]).await?;
    let from = ask(ResyncRequest::FromSnapshot { snapshot_seq: 2 }).await?;
    ensure_eq!(
        from.snapshot.as_ref().map(engine_core::projection::ProjectionRecord::last_event_seq),
        Some(2),
        "its snapshot"
    );
    let places: Vec<u64> = from.events.iter().map(|event| event.run_seq).collect();
    ensure_eq!(places, [3], "the events after it");
    let older = ask(ResyncRequest::FromSnapshot { snapshot_seq: 1 }).await?;
    ensure!(older.snapshot.is_none(), "a snapshot newer than asked for is not given");
    ensure_eq!(older.events.len(), 3, "the whole log in its place");
    Ok(())
}

async fn what_was_acted_on_is_remembered(world: &World) -> Outcome {
    let log = Log::open(world).await?;
    world.pass(1_000).await?;
    let later = world.now();
    let neglected = async || -> Result<bool, Stop> {
        let found = log.store.neglected(later, 100).await?;
        Ok(found.iter().any(|record| record.run_id == log.run_id))
    };
    ensure!(neglected().await?, "a run that nobody acted on is found");
    log.store.acted(&log.run_id, 1).await?;
    ensure!(!neglected().await?, "a run that was acted on up to its end is not");
    Ok(())
}

async fn every_event_waits_for_the_bus_in_order(world: &World) -> Outcome {
    let run = world.start("id: sent\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let events = run.events().await?;
    let store = &world.subject().store;
    let claim = |relay: &str| ClaimOutbox { relay: relay.to_owned(), limit: 100, duration_ms: 1_000 };
    let first: Vec<Event> =
        store.claim_outbox(claim("one")).await?.into_iter().map(|entry| entry.event).collect();
    ensure_eq!(first, events, "what waits: the whole log in its order");
    // The relay is lost. When its claim has run out, another one has it all again.
    world.pass(1_500).await?;
    let again = store.claim_outbox(claim("two")).await?;
    ensure_eq!(again.len(), events.len(), "what waits again after a relay was lost");
    let delivered = Delivered { relay: "two".to_owned(), run_id: run.run_id.clone(), up_to_seq: 2 };
    store.acknowledge(delivered).await?;
    let rest: Vec<u64> =
        store.claim_outbox(claim("two")).await?.iter().map(|entry| entry.event.run_seq).collect();
    ensure_eq!(rest, (3..=events.len() as u64).collect::<Vec<_>>(), "what waits after two were delivered");
    Ok(())
}

async fn dead_letters_can_be_replayed(world: &World) -> Outcome {
    let run = world.start("id: lost\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script}\n").await?;
    run.ends(RunStatus::Completed).await?;
    let store = &world.subject().store;
    let claim = || ClaimOutbox { relay: "one".to_owned(), limit: 100, duration_ms: 1_000 };
    store.claim_outbox(claim()).await?;
    let (relay, run_id) = ("one".to_owned(), run.run_id.clone());
    let failed = FailedDelivery { relay, run_id, run_seq: 1, error: "no".to_owned(), next: NextTry::Never };
    store.fail_delivery(failed).await?;
    let dead: Vec<u64> = store.dead_letters(10).await?.iter().map(|letter| letter.event.run_seq).collect();
    ensure_eq!(dead, [1], "the dead letters");
    let rest: Vec<u64> = store.claim_outbox(claim()).await?.iter().map(|entry| entry.event.run_seq).collect();
    ensure_eq!(rest.first(), Some(&2), "what goes on behind it");
    let delivered =
        Delivered { relay: "one".to_owned(), run_id: run.run_id.clone(), up_to_seq: rest.len() as u64 + 1 };
    store.acknowledge(delivered).await?;
    ensure_eq!(store.replay(Some(&run.run_id)).await?, 1, "what was put back");
    let again: Vec<u64> =
        store.claim_outbox(claim()).await?.iter().map(|entry| entry.event.run_seq).collect();
    ensure_eq!(again, [1], "what waits again");
    ensure!(store.dead_letters(10).await?.is_empty(), "no dead letter is left");
    Ok(())
}

async fn an_answer_is_given_again_to_the_same_key_of_a_tenant(world: &World) -> Outcome {
    let store = &world.subject().store;
    let (ours, theirs) = (TenantId::new("acme")?, TenantId::new("globex")?);
    let key = RequestKey::new("order-17")?;
    for bad in ["", "a b", "a_b", &"a".repeat(256)] {
        ensure!(RequestKey::new(bad).is_err(), "{bad:?} is no key");
    }
    ensure!(store.recall(&ours, &key).await?.is_none(), "nothing is there at first");
    let kept = engine_core::port::store::ANSWER_KEPT_MS;
    store.remember(&ours, &key, "first", kept).await?;
    ensure_eq!(
        store.remember(&ours, &key, "second", kept).await?.as_ref(),
        "first",
        "the answer that counts"
    );
    ensure!(store.recall(&theirs, &key).await?.is_none(), "another tenant's key is another key");
    world.pass(599_000).await?;
    ensure_eq!(
        store.recall(&ours, &key).await?.as_deref(),
        Some("first"),
        "the answer shortly before ten minutes"
    );
    world.pass(2_000).await?;
    ensure!(store.recall(&ours, &key).await?.is_none(), "after ten minutes it is gone");
    Ok(())
}
