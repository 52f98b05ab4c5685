//! The stores that are measured, and what is appended to them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine_core::event::run::{PlanRef, RunContext, RunInput, RunQueued};
use engine_core::event::step::{StepCompleted, StepOutput, StepStarted};
use engine_core::event::{Draft, Subject};
use engine_core::port::StateStore;
use engine_core::port::store::{AppendAs, AppendRequest, Appended, CreateRequest};
use engine_core::{HandlerName, PlanId, PlanVersion, RunId, StepId, TenantId};
use serde_json::json;
use statestore::{Durability, Options};

/// About the payload of one event.
pub(crate) const PAYLOAD_BYTES: usize = 300;

/// A database to measure.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    pub(crate) durability: Durability,
    folder: std::path::PathBuf,
}

/// SQLite with both durabilities, and Postgres.
pub(crate) fn places(folder: &Path) -> Vec<Place> {
    let postgres = dev_servers::postgres::shared_url().expect("a Postgres server");
    let place = |name, url: String, durability| Place { name, url, durability, folder: folder.to_owned() };
    vec![
        place("sqlite full", String::new(), Durability::Full),
        place("sqlite normal", String::new(), Durability::Normal),
        place("postgres", postgres, Durability::Full),
    ]
}

impl Place {
    /// A URL that nothing was written to yet.
    pub(crate) fn fresh_url(&self) -> String {
        let unique = uuid::Uuid::new_v4().simple();
        if self.url.is_empty() {
            format!("sqlite://{}/{unique}.db", self.folder.display())
        } else {
            format!("{}?schema=bench_{unique}", self.url)
        }
    }

    /// An empty store.
    pub(crate) async fn open(&self) -> Arc<dyn StateStore> {
        let options = Options {
            durability: self.durability,
            write_budget: Duration::from_secs(60),
            ..Options::default()
        };
        statestore::open(&self.fresh_url(), options).await.expect("the store opens")
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// Makes a run.
pub(crate) async fn run(store: &dyn StateStore) -> RunId {
    let context = RunContext {
        tenant_id: tenant(),
        project_id: "bench".into(),
        environment_id: "bench".into(),
        triggered_by: None,
        trigger_source: None,
    };
    let (plan_id, plan_version) = (PlanId::new("bench").unwrap(), PlanVersion::new("1.0.0").unwrap());
    let identity = context.identity(&plan_id, &plan_version, &uuid::Uuid::new_v4().to_string());
    let queued = RunQueued {
        plan_ref: PlanRef {
            uri: "memory:bench".into(),
            sha256: "0".repeat(64),
            schema_version: "1.0".into(),
            plan_id,
            plan_version,
        },
        input: RunInput::default(),
        context,
        identity,
        original_intent: None,
        limits: Default::default(),
        policies: Default::default(),
        capabilities: Default::default(),
        decider_version: 1,
        not_before: None,
        origin: None,
    };
    let request =
        CreateRequest { queued, correlation_id: "bench".into(), emitted_by: "bench".into(), lease: None };
    store.create(request).await.expect("a run").run_id
}

/// Event number `number` of a run: steps start and complete one after another.
pub(crate) fn draft(number: usize) -> Draft {
    let subject = Subject::new(StepId::new(format!("step-{:07}", number / 2)).unwrap(), 1);
    let filler = "x".repeat(PAYLOAD_BYTES - 80);
    if number.is_multiple_of(2) {
        Draft::step(
            subject,
            StepStarted {
                handler: HandlerName::new("echo").unwrap(),
                agent: None,
                worker: filler,
                claim_until: None,
                idempotency_token: Some("0".repeat(64)),
            },
        )
    } else {
        let output =
            StepOutput { value: Some(json!({"text": filler, "count": number})), ..StepOutput::default() };
        Draft::step(subject, StepCompleted { output, ..StepCompleted::default() })
    }
}

/// A call that appends events `first..first + count`.
pub(crate) fn request(run_id: &RunId, first: usize, count: usize) -> AppendRequest {
    AppendRequest {
        tenant_id: tenant(),
        run_id: run_id.clone(),
        drafts: (first..first + count).map(draft).collect(),
        emitted_by: "bench".into(),
        append_as: AppendAs::Worker,
        fence: None,
    }
}

/// Appends; every event must be new.
pub(crate) async fn append(store: &dyn StateStore, request: AppendRequest) {
    let count = request.drafts.len();
    match store.append(request).await.expect("appended") {
        Appended::Stored(stored) => assert!(stored.len() == count && stored.iter().all(|event| event.fresh)),
        Appended::Conflict(_) => panic!("worker events do not conflict"),
    }
}
