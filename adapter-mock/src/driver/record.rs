//! The lease and the log of a run.

use std::sync::Arc;

use engine_core::decider;
use engine_core::event::{Body, Event, Kind};
use engine_core::port::store::{AppendAs, AppendRequest, Fence, LeaseRequest, ReadRequest};
use engine_core::{Code, Error, Result, RunId, TenantId};
use worker::History;

use super::AWAY;
use crate::engine::Shared;

/// More events than a run has that never started.
const PAGE: usize = 1000;

/// Takes the lease of a run, and goes on trying while the store is away.
pub(super) async fn lease(shared: &Shared, run_id: &RunId) -> Result<Fence> {
    let duration_ms = u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX);
    loop {
        let request = LeaseRequest { run_id: run_id.clone(), holder: shared.holder.clone(), duration_ms };
        match shared.store().lease(request).await {
            // Held by another is retryable too, but not by waiting here.
            Err(error) if error.is_retryable() && error.code() != Code::LeaseHeld => {
                tracing::warn!(%run_id, %error, "the lease cannot be taken for now");
                tokio::time::sleep(AWAY).await;
            }
            result => return result,
        }
    }
}

/// A run whose log is its first event.
pub(super) async fn begin(
    shared: &Shared,
    tenant_id: &TenantId,
    run_id: &RunId,
    queued: &Event,
) -> Result<History> {
    let plan = match &queued.body {
        Body::RunQueued(queued) => queued.plan_ref.sha256.clone(),
        _ => String::new(),
    };
    match shared.worker.plans().get(&**shared.store(), tenant_id, &plan).await {
        Ok(code) => {
            let mut history = History::new(tenant_id.clone(), run_id.clone(), code);
            history.evolve(queued);
            Ok(history)
        }
        // Whatever is wrong with it, reading the log finds out.
        Err(_) => load(shared, tenant_id, run_id, Fence(1)).await,
    }
}

/// Folds a run's log, and goes on trying while the store is away. A run whose plan is gone or another cannot start, and
/// fails (RUN-3).
pub(super) async fn load(
    shared: &Shared,
    tenant_id: &TenantId,
    run_id: &RunId,
    fence: Fence,
) -> Result<History> {
    loop {
        let store = shared.store();
        match History::load(&**store, shared.worker.plans(), tenant_id, run_id).await {
            Err(error) if error.is_retryable() => {
                tracing::warn!(%run_id, %error, "the run cannot be read for now");
                tokio::time::sleep(AWAY).await;
            }
            Err(error) if matches!(error.code(), Code::PlanMissing | Code::PlanHashMismatch) => {
                refuse_start(shared, tenant_id, run_id, fence, &error).await?;
                return Err(error);
            }
            result => return result,
        }
    }
}

/// Ends a run that cannot start, unless it has started.
async fn refuse_start(
    shared: &Shared,
    tenant_id: &TenantId,
    run_id: &RunId,
    fence: Fence,
    error: &Error,
) -> Result<()> {
    let store = shared.store();
    let record = store.find(tenant_id, run_id).await?;
    let Ok(drafts) = decider::refuse_start(record.status, error.code(), error.message().to_owned()) else {
        return Ok(());
    };
    let request = ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after: 0, limit: PAGE };
    let events = store.read(request).await?;
    let decisions = events.iter().filter(|event| event.body.kind() == Kind::Decision).count();
    let request = AppendRequest {
        tenant_id: tenant_id.clone(),
        run_id: run_id.clone(),
        drafts,
        emitted_by: Arc::from(shared.worker.name()),
        append_as: AppendAs::Decision {
            expected: u64::try_from(decisions).unwrap_or(u64::MAX),
            nothing_after: None,
            folded_through: events.last().map_or(0, |event| event.run_seq),
        },
        fence: Some(fence),
    };
    store.append(request).await?;
    Ok(())
}
