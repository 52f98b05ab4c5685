//! Runs, each made from its name alone: asking for one again gives the same.

use engine_core::event::Event;
use engine_core::event::run::{RunContext, RunQueued};
use engine_core::hash::canonical_json;
use engine_core::port::store::{CreateRequest, ReadRequest};
use engine_core::port::{Capabilities, Engine, StartRequest, StateStore};
use engine_core::{RunId, TenantId};
use serde_json::json;

use super::plans::plan;

/// Who owns all runs.
pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").expect("a tenant")
}

/// Makes the run of a plan that belongs to a generation, unless it is there, and has it driven.
pub(crate) async fn start(store: &dyn StateStore, engine: &dyn Engine, name: &str, generation: u32) -> RunId {
    let queued = queued(store, engine.capabilities(), name, generation).await;
    // As the facade does: made with the engine's lease, a fresh run is driven without being read.
    let request = CreateRequest {
        queued,
        correlation_id: "kill".into(),
        emitted_by: "kill".into(),
        lease: engine.lease(),
    };
    let created = store.create(request).await.expect("a run");
    let run_id = created.run_id;
    let request = StartRequest { tenant_id: tenant(), run_id: run_id.clone(), fresh: created.queued };
    engine.start(request).await.expect("the engine takes it");
    run_id
}

async fn queued(
    store: &dyn StateStore,
    capabilities: Capabilities,
    name: &str,
    generation: u32,
) -> RunQueued {
    let plan = plan(name);
    let text = canonical_json(&serde_json::to_value(plan.document()).expect("a document"));
    store.put_plan(&tenant(), plan.hash(), &text).await.expect("the plan is kept");
    let context = RunContext {
        tenant_id: tenant(),
        project_id: "kill".into(),
        environment_id: "test".into(),
        triggered_by: None,
        trigger_source: None,
    };
    RunQueued {
        input: json!({"number": 1}).into(),
        capabilities: capabilities.frozen(),
        ..RunQueued::of(&plan, context, &generation.to_string())
    }
}

/// A run's log after a place.
pub(crate) async fn log(
    store: &dyn StateStore,
    run_id: &RunId,
    after: u64,
) -> engine_core::Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(after, |event| event.run_seq);
        let request = ReadRequest { tenant_id: tenant(), run_id: run_id.clone(), after, limit: 1000 };
        let page = store.read(request).await?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}
