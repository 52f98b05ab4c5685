//! After every append: the state that is rebuilt from the whole log is the one that was carried from event to event, on
//! paper in between (CORE-4, CORE-19).

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::decider::{Run, State};
use engine_core::event::{Body, Event};
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::StateStore;
use engine_core::port::store::{AppendRequest, Appended, ReadRequest};
use engine_core::{Result, RunId, TenantId};
use tokio::sync::Mutex;

use super::Layer;
use crate::script::Stage;

/// The layer that rebuilds.
#[derive(Debug)]
pub(crate) struct RebuildLayer {
    stage: Arc<Stage>,
    carried: Mutex<HashMap<RunId, (Arc<CompiledPlan>, String)>>,
}

impl RebuildLayer {
    pub(crate) fn new(stage: Arc<Stage>) -> Self {
        Self { stage, carried: Mutex::default() }
    }

    async fn compare(&self, store: &Arc<dyn StateStore>, tenant_id: TenantId, run_id: RunId) -> Result<()> {
        let mut carried = self.carried.lock().await;
        let request =
            ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after: 0, limit: 10_000 };
        let events = store.read(request).await?;
        let known = carried.get(&run_id).map(|(plan, _)| Arc::clone(plan));
        let plan = match known {
            Some(plan) => plan,
            None => match plan_of(store, &tenant_id, &events).await {
                Some(plan) => plan,
                // A run without its plan is left alone; so is this.
                None => return Ok(()),
            },
        };
        let Ok(rebuilt) = Run::fold(Arc::clone(&plan), &events) else { return Ok(()) };
        if let Some((_, paper)) = carried.get(&run_id) {
            let what = match continued(&plan, paper, &events) {
                Ok(run) if run == rebuilt => None,
                Ok(_) => Some("is not the state that was carried".to_owned()),
                Err(what) => Some(format!("is compared with a carried state that cannot be read: {what}")),
            };
            if let Some(what) = what {
                let place = events.last().map_or(0, |event| event.run_seq);
                self.stage.found(format!("the state rebuilt from {place} events {what} (CORE-4, CORE-19)"));
            }
        }
        let paper = serde_json::to_string(rebuilt.state()).unwrap_or_default();
        carried.insert(run_id, (plan, paper));
        Ok(())
    }
}

/// The state that was carried, with what came since.
fn continued(plan: &Arc<CompiledPlan>, paper: &str, events: &[Event]) -> Result<Run, String> {
    let state: State = serde_json::from_str(paper).map_err(|cause| cause.to_string())?;
    let mut run = Run::restore(Arc::clone(plan), state).map_err(|error| error.to_string())?;
    let folded = run.state().folded_through();
    events.iter().filter(|event| event.run_seq > folded).for_each(|event| run.evolve(event));
    Ok(run)
}

async fn plan_of(
    store: &Arc<dyn StateStore>,
    tenant_id: &TenantId,
    events: &[Event],
) -> Option<Arc<CompiledPlan>> {
    let Body::RunQueued(queued) = &events.first()?.body else { return None };
    let document = store.plan(tenant_id, &queued.plan_ref.sha256).await.ok()?;
    let plan: Plan = serde_json::from_str(&document).ok()?;
    CompiledPlan::new(plan).ok().map(Arc::new)
}

#[async_trait]
impl Layer for RebuildLayer {
    async fn append(&self, store: &Arc<dyn StateStore>, request: AppendRequest) -> Result<Appended> {
        let (tenant_id, run_id) = (request.tenant_id.clone(), request.run_id.clone());
        let appended = store.append(request).await?;
        if let Appended::Stored(_) = appended {
            self.compare(store, tenant_id, run_id).await?;
        }
        Ok(appended)
    }
}
