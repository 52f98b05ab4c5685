//! The databases that engines are measured on, and what a start stores before it asks the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine_core::TenantId;
use engine_core::event::run::{RunContext, RunQueued};
use engine_core::hash::canonical_json;
use engine_core::plan::CompiledPlan;
use engine_core::port::store::CreateRequest;
use engine_core::port::{Engine, StateStore};
use serde_json::json;
use statestore::Durability;

/// How long a write may take: what is measured is the engine, on a machine that is as busy as it can be.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);

/// A database to measure on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) durability: Durability,
    url: String,
    folder: PathBuf,
}

impl Place {
    pub(crate) fn all(folder: &Path) -> Vec<Self> {
        let postgres = dev_servers::postgres::shared_url().expect("a Postgres server");
        let place = |name, url: String, durability| Self { name, url, durability, folder: folder.to_owned() };
        vec![
            place("sqlite full", String::new(), Durability::Full),
            place("sqlite normal", String::new(), Durability::Normal),
            place("postgres", postgres, Durability::Full),
        ]
    }

    /// A URL that nothing was written to yet.
    pub(crate) fn fresh_url(&self) -> String {
        let unique = uuid::Uuid::new_v4().simple();
        if self.url.is_empty() {
            format!("sqlite://{}/{unique}.db", self.folder.display())
        } else {
            format!("{}?schema=bench_{unique}", self.url)
        }
    }

    /// A store there.
    pub(crate) async fn open(&self, url: &str) -> Arc<dyn StateStore> {
        let options = statestore::Options {
            durability: self.durability,
            write_budget: PATIENT,
            outbox: false,
            ..statestore::Options::default()
        };
        statestore::open(url, options).await.expect("a store")
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

/// Keeps a plan where engines find it.
pub(crate) async fn keep_plan(store: &dyn StateStore, plan: &CompiledPlan) {
    let document = canonical_json(&serde_json::to_value(plan.document()).unwrap());
    store.put_plan(&tenant(), plan.hash(), &document).await.unwrap();
}

/// A new run of a plan.
pub(crate) fn queued(plan: &CompiledPlan, engine: &dyn Engine) -> CreateRequest {
    let context = RunContext {
        tenant_id: tenant(),
        project_id: "bench".into(),
        environment_id: "bench".into(),
        triggered_by: None,
        trigger_source: None,
    };
    let request = uuid::Uuid::new_v4().to_string();
    let queued = RunQueued {
        input: json!({}).into(),
        capabilities: engine.capabilities().frozen(),
        ..RunQueued::of(plan, context, &request)
    };
    CreateRequest {
        queued,
        correlation_id: "bench".into(),
        emitted_by: "bench".into(),
        lease: engine.lease(),
    }
}
