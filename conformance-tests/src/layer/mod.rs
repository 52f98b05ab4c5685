//! A store with something around it: every call goes through a layer, which may delay it, refuse it or look at it. So a
//! variant needs nothing from the engine that is tested, and a harness one line.
//!
//! - [`slow`]: a store that takes its time, and says of some appends that they took too long;
//! - [`rebuild`]: after every append, the state that is rebuilt from the log is the one that was carried.

pub mod rebuild;
pub mod slow;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::event::Event;
use engine_core::port::StateStore;
use engine_core::port::store::{
    AppendRequest, Appended, Checkpoint, CheckpointRecord, CheckpointShelf, ClaimOutbox, ClaimRequest,
    Coordination, CreateRequest, Created, DeadLetter, Delivered, EventLog, FailedDelivery, Fence,
    ForgetRequest, LeaseRequest, ListRequest, Outbox, OutboxEntry, PlanShelf, ProgressBoard, ReadRequest,
    RequestKey, RequestLedger, RunPage, RunRecord, RunRegistry, SaveCheckpoint, SignalInbox, StepProgress,
    UnclaimRequest,
};
use engine_core::projection::{ProjectionRecord, ResyncReply, ResyncRequest};
use engine_core::signal::Signal;
use engine_core::{CheckpointId, Result, RunId, SignalId, TenantId, Timestamp};
use futures_core::stream::BoxStream;

/// What is around a store.
#[async_trait]
pub trait Layer: Debug + Send + Sync + 'static {
    /// Every call but streams comes by here first.
    ///
    /// # Errors
    /// Then the call is not made.
    async fn before(&self) -> Result<()> {
        Ok(())
    }

    /// An append, on its way to the store.
    ///
    /// # Errors
    /// What the caller is told.
    async fn append(&self, store: &Arc<dyn StateStore>, request: AppendRequest) -> Result<Appended> {
        store.append(request).await
    }

    /// A lease that was taken.
    fn leased(&self, run_id: &RunId, fence: Fence) {
        let _ = (run_id, fence);
    }
}

/// A store with a layer around it.
#[derive(Debug)]
pub struct Layered {
    inner: Arc<dyn StateStore>,
    layer: Arc<dyn Layer>,
}

impl Layered {
    /// The store with the layer around it.
    #[must_use]
    pub fn around(inner: Arc<dyn StateStore>, layer: Arc<dyn Layer>) -> Arc<dyn StateStore> {
        Arc::new(Self { inner, layer })
    }

    async fn inner(&self) -> Result<&Arc<dyn StateStore>> {
        self.layer.before().await?;
        Ok(&self.inner)
    }
}

#[async_trait]
impl EventLog for Layered {
    async fn append(&self, request: AppendRequest) -> Result<Appended> {
        self.layer.before().await?;
        self.layer.append(&self.inner, request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>> {
        self.inner().await?.read(request).await
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
        self.inner().await?.resync(tenant_id, run_id, request).await
    }

    async fn keep_snapshot(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        snapshot: &ProjectionRecord,
    ) -> Result<()> {
        self.inner().await?.keep_snapshot(tenant_id, run_id, snapshot).await
    }
}

#[async_trait]
impl RunRegistry for Layered {
    async fn create(&self, request: CreateRequest) -> Result<Created> {
        let leased = request.lease.is_some();
        let created = self.inner().await?.create(request).await?;
        if leased && created.fresh {
            self.layer.leased(&created.run_id, Fence(1));
        }
        Ok(created)
    }

    async fn find(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        self.inner().await?.find(tenant_id, run_id).await
    }

    async fn list(&self, request: ListRequest) -> Result<RunPage> {
        self.inner().await?.list(request).await
    }

    async fn forget(&self, request: ForgetRequest) -> Result<Vec<RunId>> {
        self.inner().await?.forget(request).await
    }
}

#[async_trait]
impl PlanShelf for Layered {
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()> {
        self.inner().await?.put_plan(tenant_id, hash, document).await
    }

    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>> {
        self.inner().await?.plan(tenant_id, hash).await
    }
}

#[async_trait]
impl Coordination for Layered {
    async fn renew(&self, holder: &str, duration_ms: u64) -> Result<u64> {
        self.inner().await?.renew(holder, duration_ms).await
    }

    async fn identify(&self, run_id: &RunId) -> Result<RunRecord> {
        self.inner().await?.identify(run_id).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Fence> {
        let run_id = request.run_id.clone();
        let fence = self.inner().await?.lease(request).await?;
        self.layer.leased(&run_id, fence);
        Ok(fence)
    }

    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()> {
        self.inner().await?.release(run_id, fence).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<()> {
        self.inner().await?.claim(request).await
    }

    async fn unclaim(&self, request: UnclaimRequest) -> Result<()> {
        self.inner().await?.unclaim(request).await
    }

    async fn acted(&self, run_id: &RunId, seq: u64) -> Result<()> {
        self.inner().await?.acted(run_id, seq).await
    }

    async fn neglected(&self, since: Timestamp, limit: usize) -> Result<Vec<RunRecord>> {
        self.inner().await?.neglected(since, limit).await
    }

    async fn unattended(&self, limit: usize) -> Result<Vec<RunRecord>> {
        self.inner().await?.unattended(limit).await
    }
}

#[async_trait]
impl SignalInbox for Layered {
    async fn awaited(&self, limit: usize) -> Result<Vec<RunId>> {
        self.inner().await?.awaited(limit).await
    }

    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()> {
        self.inner().await?.submit(tenant_id, run_id, signal).await
    }

    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>> {
        self.inner().await?.undecided(run_id).await
    }

    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()> {
        self.inner().await?.decided(run_id, signal_id).await
    }

    fn arrivals(&self) -> BoxStream<'static, RunId> {
        self.inner.arrivals()
    }
}

#[async_trait]
impl CheckpointShelf for Layered {
    async fn save_checkpoint(&self, request: SaveCheckpoint) -> Result<CheckpointRecord> {
        self.inner().await?.save_checkpoint(request).await
    }

    async fn checkpoints(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<CheckpointRecord>> {
        self.inner().await?.checkpoints(tenant_id, run_id).await
    }

    async fn checkpoint(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        checkpoint_id: &CheckpointId,
    ) -> Result<Checkpoint> {
        self.inner().await?.checkpoint(tenant_id, run_id, checkpoint_id).await
    }

    async fn prune_checkpoints(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        keep: usize,
    ) -> Result<Vec<CheckpointId>> {
        self.inner().await?.prune_checkpoints(tenant_id, run_id, keep).await
    }
}

#[async_trait]
impl ProgressBoard for Layered {
    async fn note_progress(&self, run_id: &RunId, progress: StepProgress) -> Result<()> {
        self.inner().await?.note_progress(run_id, progress).await
    }

    async fn progress(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<StepProgress>> {
        self.inner().await?.progress(tenant_id, run_id).await
    }
}

#[async_trait]
impl Outbox for Layered {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<Vec<OutboxEntry>> {
        self.inner().await?.claim_outbox(request).await
    }

    async fn acknowledge(&self, delivered: Delivered) -> Result<()> {
        self.inner().await?.acknowledge(delivered).await
    }

    async fn fail_delivery(&self, failed: FailedDelivery) -> Result<()> {
        self.inner().await?.fail_delivery(failed).await
    }

    async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>> {
        self.inner().await?.dead_letters(limit).await
    }

    async fn replay(&self, run_id: Option<&RunId>) -> Result<u64> {
        self.inner().await?.replay(run_id).await
    }
}

#[async_trait]
impl RequestLedger for Layered {
    async fn remember(
        &self,
        tenant_id: &TenantId,
        key: &RequestKey,
        answer: &str,
        keep_ms: u64,
    ) -> Result<Arc<str>> {
        self.inner().await?.remember(tenant_id, key, answer, keep_ms).await
    }

    async fn recall(&self, tenant_id: &TenantId, key: &RequestKey) -> Result<Option<Arc<str>>> {
        self.inner().await?.recall(tenant_id, key).await
    }

    async fn sweep(&self) -> Result<u64> {
        self.inner().await?.sweep().await
    }
}
