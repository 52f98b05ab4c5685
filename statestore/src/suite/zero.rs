//! The character NUL, which not every database can keep in a text: it comes back inside payloads, and a name that has
//! it is refused by every store alike.

use engine_core::Code;
use engine_core::event::Body;
use engine_core::event::Draft;
use engine_core::event::run::RunApproved;
use engine_core::port::store::{
    AppendAs, ClaimOutbox, ClaimRequest, Delivered, FailedDelivery, NextTry, SaveCheckpoint, UnclaimRequest,
};
use serde_json::json;

use super::Harness;
use super::drafts::{alert, approved, checkpoint_id, completed_with, creation, run_started, step, timer};
use super::handle::{open, request};
use super::samples::unknown;
use super::verdict::{events, refused, sound};

/// Inside the strings of a payload it comes back, in keys too.
pub async fn inside_a_payload_it_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut asked = creation("acme", "request");
    asked.queued.input.value = Some(json!({"a\0b": ["\0", "c\0"]}));
    asked.queued.original_intent = Some("\0".into());
    asked.queued.context.project_id = "pro\0ject".into();
    asked.queued.context.triggered_by = Some("ja\0ne".into());
    let run = store.run_from(asked.clone()).await;
    let reason = RunApproved { approved_by: "a\0".into(), signal_id: None, reason: Some("\0b".into()) };
    store.decide(&run, vec![Draft::run(reason.clone())]).await;
    let told = events(store.tell(&run, vec![completed_with("a", 1, json!({"x\0": "\0y"}))]).await);
    let log = store.other(harness).await.log(&run).await;
    sound(&log);
    assert_eq!(log[0].body, Body::from(asked.queued));
    assert_eq!(log[1].body, Body::from(reason));
    assert_eq!(log[2..], told);
}

/// What an event's key is made of does not have it: timers, codes of alerts and types.
pub async fn an_event_whose_key_would_have_it_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for drafts in [vec![alert("X", 1), alert("A\0", 1)], vec![unknown("New\0Type")]] {
        refused(store.offer(&run, drafts).await, Code::SchemaValidationFailed);
    }
    let view = store.view(&run).await;
    let decision = vec![approved(), timer("t\0")];
    refused(store.propose(&run, decision, view).await, Code::SchemaValidationFailed);
    assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
}

/// The engine's name for a run does not have it.
pub async fn an_engine_reference_with_it_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let view = store.view(&run).await;
    let drafts = vec![approved(), run_started("mock://\0", store.now())];
    refused(store.propose(&run, drafts, view).await, Code::SchemaValidationFailed);
    assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    assert_eq!(store.record(&run).await.engine_run_ref, None);
}

/// Nobody who appends has it in its name.
pub async fn a_name_with_it_does_not_append(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let mut worker = request(&run, vec![alert("X", 1)], AppendAs::Worker, None);
    worker.emitted_by = "wor\0ker".into();
    refused(store.append(worker).await, Code::SchemaValidationFailed);
    let append_as = AppendAs::Decision { expected: 1, nothing_after: None, folded_through: 1 };
    let mut driver = request(&run, vec![approved()], append_as, None);
    driver.emitted_by = "\0".into();
    refused(store.append(driver).await, Code::SchemaValidationFailed);
    let save = SaveCheckpoint {
        tenant_id: run.tenant_id.clone(),
        run_id: run.run_id.clone(),
        checkpoint_id: checkpoint_id("c1"),
        projection: store.projection(&run).await.record(),
        emitted_by: "kee\0per".into(),
    };
    refused(store.save_checkpoint(save).await, Code::SchemaValidationFailed);
    assert_eq!(store.checkpoints(&run.tenant_id, &run.run_id).await.expect("checkpoints"), []);
    assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    assert_eq!(store.take("relay", 10).await.len(), 1);
}

/// No run is made by a name, for a correlation, with an identity or of a plan that has it.
pub async fn a_name_with_it_makes_no_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut by = creation("acme", "request");
    by.emitted_by = "star\0ter".into();
    refused(store.create(by).await, Code::SchemaValidationFailed);
    let mut correlated = creation("acme", "request");
    correlated.correlation_id = "\0".into();
    refused(store.create(correlated).await, Code::SchemaValidationFailed);
    let mut identified = creation("acme", "request");
    identified.queued.identity = "\0".into();
    refused(store.create(identified).await, Code::SchemaValidationFailed);
    let mut hashed = creation("acme", "request");
    hashed.queued.plan_ref.sha256 = "\0".into();
    refused(store.create(hashed).await, Code::SchemaValidationFailed);
    assert!(store.create(creation("acme", "request")).await.expect("a run").fresh, "nothing was stored");
}

/// No holder, worker or relay has it in its name.
pub async fn a_name_with_it_holds_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    refused(store.lease_for(&run, "hol\0der", 1000).await, Code::InvalidId);
    store.lease_for(&run, "holder", 1000).await.expect("nobody holds the lease");
    let claim = |worker: &str| ClaimRequest {
        run_id: run.run_id.clone(),
        step_id: step("a"),
        attempt: 1,
        worker: worker.into(),
        duration_ms: 1000,
    };
    refused(store.claim(claim("wor\0ker")).await, Code::InvalidId);
    store.claim(claim("worker")).await.expect("nobody holds the attempt");
    let relay = ClaimOutbox { relay: "\0".into(), limit: 10, duration_ms: 1000 };
    refused(store.claim_outbox(relay).await, Code::InvalidId);
    assert_eq!(store.take("relay", 10).await.len(), 1, "nobody holds the events");
}

/// Nobody with it in its name gives back what another has.
pub async fn a_name_with_it_gives_nothing_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let (step_id, attempt) = (step("a"), 1);
    let (run_id, worker) = (run.run_id.clone(), "worker".to_owned());
    let claim = ClaimRequest { run_id, step_id: step_id.clone(), attempt, worker, duration_ms: 1000 };
    store.claim(claim.clone()).await.expect("a claim");
    assert_eq!(store.take("relay", 10).await.len(), 1);
    let name = || "worker\0".to_owned();
    let (run_id, next) = (run.run_id.clone(), NextTry::Never);
    let unclaim = UnclaimRequest { run_id: run_id.clone(), step_id, attempt, worker: name() };
    let delivered = Delivered { relay: name(), run_id: run_id.clone(), up_to_seq: 1 };
    let failed = FailedDelivery { relay: name(), run_id, run_seq: 1, error: "no".into(), next };
    let results =
        [store.unclaim(unclaim).await, store.acknowledge(delivered).await, store.fail_delivery(failed).await];
    // Refusing it and passing over it are both right.
    for error in results.into_iter().filter_map(Result::err) {
        assert_eq!(error.code(), Code::InvalidId, "{error}");
    }
    let stranger = ClaimRequest { worker: "another".into(), ..claim };
    refused(store.claim(stranger).await, Code::LeaseHeld);
    assert_eq!(store.dead_letters(10).await.expect("dead letters"), []);
    store.clock.advance(10_001);
    assert_eq!(store.take("relay", 10).await.len(), 1, "the event still waits");
}

/// What went wrong with a delivery is kept, with or without it.
pub async fn an_error_with_it_is_kept(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    assert_eq!(store.take("relay", 10).await.len(), 1);
    let failed = FailedDelivery {
        relay: "relay".into(),
        run_id: run.run_id.clone(),
        run_seq: 1,
        error: "before\0after".into(),
        next: NextTry::Never,
    };
    store.fail_delivery(failed).await.expect("noted");
    let letters = store.dead_letters(10).await.expect("dead letters");
    assert_eq!(letters.len(), 1);
    assert!(letters[0].error.starts_with("before"), "{:?}", letters[0].error);
    assert!(letters[0].error.ends_with("after"), "{:?}", letters[0].error);
}
