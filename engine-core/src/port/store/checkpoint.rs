//! Checkpoints: snapshots of a run that a new run can be restored from.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{CheckpointId, RunId, TenantId};
use crate::projection::ProjectionRecord;
use crate::time::Timestamp;

/// The checkpoints of every run.
#[async_trait]
pub trait CheckpointShelf: Debug + Send + Sync + 'static {
    /// Stores a checkpoint, and in the same write CheckpointCreated in the run's log (CHECKPOINT-2). The same id again
    /// changes nothing and returns what is there.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run, `PAYLOAD_TOO_LARGE` when it is over the limit.
    async fn save_checkpoint(&self, request: SaveCheckpoint) -> Result<CheckpointRecord>;

    /// The checkpoints of a run, newest first.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn checkpoints(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<CheckpointRecord>>;

    /// A checkpoint with its content.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run or checkpoint. `CHECKPOINT_CORRUPT` when it does not match its
    /// checksum; the hint names the newest sound one before it.
    async fn checkpoint(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        checkpoint_id: &CheckpointId,
    ) -> Result<Checkpoint>;

    /// Deletes all but the newest `keep` checkpoints of a run, and says which.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn prune_checkpoints(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        keep: usize,
    ) -> Result<Vec<CheckpointId>>;
}

/// A checkpoint to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveCheckpoint {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Its name, unique within the run.
    pub checkpoint_id: CheckpointId,
    /// The run at that moment.
    pub projection: ProjectionRecord,
    /// Who makes it.
    pub emitted_by: Arc<str>,
}

/// What is known about a checkpoint without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Its name.
    pub checkpoint_id: CheckpointId,
    /// The last event it contains.
    pub up_to_seq: u64,
    /// Its size.
    pub size_bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// What is known about it.
    pub record: CheckpointRecord,
    /// The run at that moment.
    pub projection: ProjectionRecord,
}
