//! A store that is late when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use engine_core::event::{Body, Event};
use engine_core::port::StateStore;
use engine_core::port::store::*;
use engine_core::projection::{ProjectionRecord, ResyncReply, ResyncRequest};
use engine_core::signal::Signal;
use engine_core::{CheckpointId, Code, Error, Result, RunId, SignalId, TenantId, Timestamp};
use futures_core::stream::BoxStream;

/// Another store, except that the next appends of starts and ends take longer than their budget.
#[derive(Debug)]
pub(crate) struct LateStore {
    pub(crate) inner: Arc<dyn StateStore>,
    pub(crate) late_starts: AtomicU32,
    pub(crate) late_ends: AtomicU32,
    /// The next ends are never answered.
    pub(crate) hanging_ends: AtomicU32,
}

impl LateStore {
    pub(crate) fn new(inner: Arc<dyn StateStore>) -> Self {
        Self {
            inner,
            late_starts: AtomicU32::new(0),
            late_ends: AtomicU32::new(0),
            hanging_ends: AtomicU32::new(0),
        }
    }

    fn is_late(&self, request: &AppendRequest) -> bool {
        let has = |wanted: fn(&Body) -> bool| request.drafts.iter().any(|draft| wanted(&draft.body));
        let counter = if ends(request) {
            &self.late_ends
        } else if has(|body| matches!(body, Body::StepStarted(_))) {
            &self.late_starts
        } else {
            return false;
        };
        taken(counter)
    }
}

fn ends(request: &AppendRequest) -> bool {
    let is_end = |body: &Body| matches!(body, Body::StepCompleted(_) | Body::StepFailed(_));
    request.drafts.iter().any(|draft| is_end(&draft.body))
}

fn taken(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl EventLog for LateStore {
    async fn append(&self, request: AppendRequest) -> Result<Appended> {
        if self.is_late(&request) {
            return Err(Error::new(Code::WriteBudgetExceeded, "the store is late"));
        }
        if ends(&request) && taken(&self.hanging_ends) {
            std::future::pending::<()>().await;
        }
        self.inner.append(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>> {
        self.inner.read(request).await
    }

    fn tail(&self, request: ReadRequest) -> BoxStream<'static, Result<Event>> {
        self.inner.tail(request)
    }

    async fn resync(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        request: ResyncRequest,
    ) -> Result<ResyncReply> {
        self.inner.resync(tenant_id, run_id, request).await
    }

    async fn keep_snapshot(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        snapshot: &ProjectionRecord,
    ) -> Result<()> {
        self.inner.keep_snapshot(tenant_id, run_id, snapshot).await
    }
}

#[async_trait]
impl RunRegistry for LateStore {
    async fn create(&self, request: CreateRequest) -> Result<Created> {
        self.inner.create(request).await
    }

    async fn find(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        self.inner.find(tenant_id, run_id).await
    }

    async fn list(&self, request: ListRequest) -> Result<RunPage> {
        self.inner.list(request).await
    }

    async fn forget(&self, request: ForgetRequest) -> Result<Vec<RunId>> {
        self.inner.forget(request).await
    }
}

#[async_trait]
impl PlanShelf for LateStore {
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()> {
        self.inner.put_plan(tenant_id, hash, document).await
    }

    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>> {
        self.inner.plan(tenant_id, hash).await
    }
}

#[async_trait]
impl Coordination for LateStore {
    async fn renew(&self, holder: &str, duration_ms: u64) -> Result<u64> {
        self.inner.renew(holder, duration_ms).await
    }

    async fn identify(&self, run_id: &RunId) -> Result<RunRecord> {
        self.inner.identify(run_id).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Fence> {
        self.inner.lease(request).await
    }

    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()> {
        self.inner.release(run_id, fence).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<()> {
        self.inner.claim(request).await
    }

    async fn unclaim(&self, request: UnclaimRequest) -> Result<()> {
        self.inner.unclaim(request).await
    }

    async fn acted(&self, run_id: &RunId, seq: u64) -> Result<()> {
        self.inner.acted(run_id, seq).await
    }

    async fn neglected(&self, since: Timestamp, limit: usize) -> Result<Vec<RunRecord>> {
        self.inner.neglected(since, limit).await
    }

    async fn unattended(&self, limit: usize) -> Result<Vec<RunRecord>> {
        self.inner.unattended(limit).await
    }
}

#[async_trait]
impl SignalInbox for LateStore {
    async fn awaited(&self, limit: usize) -> Result<Vec<RunId>> {
        self.inner.awaited(limit).await
    }

    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()> {
        self.inner.submit(tenant_id, run_id, signal).await
    }

    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>> {
        self.inner.undecided(run_id).await
    }

    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()> {
        self.inner.decided(run_id, signal_id).await
    }

    fn arrivals(&self) -> BoxStream<'static, RunId> {
        self.inner.arrivals()
    }
}

#[async_trait]
impl CheckpointShelf for LateStore {
    async fn save_checkpoint(&self, request: SaveCheckpoint) -> Result<CheckpointRecord> {
        self.inner.save_checkpoint(request).await
    }

    async fn checkpoints(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<CheckpointRecord>> {
        self.inner.checkpoints(tenant_id, run_id).await
    }

    async fn checkpoint(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        checkpoint_id: &CheckpointId,
    ) -> Result<Checkpoint> {
        self.inner.checkpoint(tenant_id, run_id, checkpoint_id).await
    }

    async fn prune_checkpoints(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        keep: usize,
    ) -> Result<Vec<CheckpointId>> {
        self.inner.prune_checkpoints(tenant_id, run_id, keep).await
    }
}

#[async_trait]
impl ProgressBoard for LateStore {
    async fn note_progress(&self, run_id: &RunId, progress: StepProgress) -> Result<()> {
        self.inner.note_progress(run_id, progress).await
    }

    async fn progress(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<StepProgress>> {
        self.inner.progress(tenant_id, run_id).await
    }
}

#[async_trait]
impl Outbox for LateStore {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<Vec<OutboxEntry>> {
        self.inner.claim_outbox(request).await
    }

    async fn acknowledge(&self, delivered: Delivered) -> Result<()> {
        self.inner.acknowledge(delivered).await
    }

    async fn fail_delivery(&self, failed: FailedDelivery) -> Result<()> {
        self.inner.fail_delivery(failed).await
    }

    async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>> {
        self.inner.dead_letters(limit).await
    }

    async fn replay(&self, run_id: Option<&RunId>) -> Result<u64> {
        self.inner.replay(run_id).await
    }
}

#[async_trait]
impl RequestLedger for LateStore {
    async fn remember(
        &self,
        tenant_id: &TenantId,
        key: &RequestKey,
        answer: &str,
        keep_ms: u64,
    ) -> Result<Arc<str>> {
        self.inner.remember(tenant_id, key, answer, keep_ms).await
    }

    async fn recall(&self, tenant_id: &TenantId, key: &RequestKey) -> Result<Option<Arc<str>>> {
        self.inner.recall(tenant_id, key).await
    }

    async fn sweep(&self) -> Result<u64> {
        self.inner.sweep().await
    }
}
