//! Making and finding runs (START-1 to START-6).

use engine_core::Code;
use engine_core::data::JOURNAL_BYTES;
use engine_core::event::Body;
use engine_core::event::run::TriggerSource;
use serde_json::Value;

use super::Harness;
use super::drafts::{creation, tenant};
use super::handle::{Owned, open};
use super::verdict::{names, refused, sound};

/// The store makes the id, as a UUIDv7 (START-1).
pub async fn a_run_has_a_time_ordered_id(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let id = uuid::Uuid::parse_str(run.run_id.as_str()).expect("a UUID");
    assert_eq!(id.get_version_num(), 7);
    assert_ne!(store.run("another").await.run_id, run.run_id);
}

/// A run begins with RunQueued as it was asked for (CORE-21).
pub async fn a_run_begins_with_what_was_asked_for(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut request = creation("acme", "request");
    request.queued.input.value = Some(serde_json::json!({"day": "monday", "rows": [1, 2.5, null]}));
    request.queued.original_intent = Some("load the orders".into());
    request.queued.not_before = Some(store.now().plus_millis(5));
    let run = store.run_from(request.clone()).await;
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 1);
    let Body::RunQueued(queued) = &log[0].body else { panic!("{:?} is not RunQueued", log[0]) };
    assert_eq!(**queued, request.queued);
    assert_eq!(log[0].emitted_at, store.now());
}

/// The same request again returns the run that it made, also through another handle (START-3).
pub async fn asking_again_returns_the_same_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let log = store.log(&run).await;
    store.clock.advance(60_000);
    let mut again = creation("acme", "request");
    again.queued.original_intent = Some("with other words".into());
    again.correlation_id = "another".into();
    for handle in [store.clone(), store.other(harness).await] {
        let created = handle.create(again.clone()).await.expect("the run");
        assert_eq!(created.run_id, run.run_id);
        assert!(!created.fresh);
    }
    assert_eq!(store.log(&run).await, log, "nothing was added");
}

/// A run that has ended is still the one that its request made.
pub async fn asking_again_after_the_end_returns_the_same_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.ended_run("request").await;
    let created = store.create(creation("acme", "request")).await.expect("the run");
    assert_eq!((created.run_id, created.fresh), (run.run_id, false));
}

/// Two tenants that ask with the same words have a run each.
pub async fn two_tenants_have_a_run_each(harness: &dyn Harness) {
    let store = open(harness).await;
    let acme = store.run_of("acme", "request").await;
    let globex = store.run_of("globex", "request").await;
    assert_ne!(acme.run_id, globex.run_id);
    assert_eq!(store.record(&globex).await.tenant_id, tenant("globex"));
}

/// A caller that computes another tenant's identity is not handed that tenant's run (START-6).
pub async fn a_stolen_identity_does_not_open_a_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run_of("acme", "request").await;
    let mut stolen = creation("globex", "request");
    stolen.queued.identity = creation("acme", "request").queued.identity;
    if let Ok(created) = store.create(stolen).await {
        assert_ne!(created.run_id, run.run_id, "the run of another tenant");
    }
    assert_eq!(names(&store.log(&run).await), ["RunQueued"]);
}

/// A run of another tenant, or of nobody, is not found (START-6).
pub async fn another_tenants_run_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for stranger in [run.by("globex"), Owned::unknown()] {
        refused(store.find(&stranger.tenant_id, &stranger.run_id).await, Code::NotFound);
    }
    assert_eq!(store.record(&run).await.run_id, run.run_id);
}

/// A request that breaks the schema of RunQueued, or is over the limit, makes no run.
pub async fn an_invalid_request_makes_no_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut invalid = creation("acme", "request");
    invalid.queued.context.trigger_source = Some(TriggerSource::from(""));
    refused(store.create(invalid).await, Code::SchemaValidationFailed);
    let mut huge = creation("acme", "request");
    huge.queued.input.value = Some(Value::String("x".repeat(JOURNAL_BYTES)));
    refused(store.create(huge).await, Code::PayloadTooLarge);
    let created = store.create(creation("acme", "request")).await.expect("a run");
    assert!(created.fresh, "the identity is still free");
}
