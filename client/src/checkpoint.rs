//! Stored states of a run, from which a new run can be made.

use engine_core::port::Operation;
use engine_core::port::store::{CheckpointRecord, SaveCheckpoint};
use engine_core::{CheckpointId, Result, RunId};

use crate::Client;
use crate::origin::{Rerun, RerunFrom};
use crate::start::Started;

impl Client {
    /// Stores the run as it stands now.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run, `PAYLOAD_TOO_LARGE` when it is over the limit.
    pub async fn checkpoint(&self, run_id: &RunId, id: Option<CheckpointId>) -> Result<CheckpointRecord> {
        let projection = self.projection(run_id).await?;
        let checkpoint_id = match id {
            Some(id) => id,
            None => CheckpointId::new(format!("at-{}", projection.last_event_seq()))?,
        };
        self.0
            .store
            .save_checkpoint(SaveCheckpoint {
                tenant_id: self.tenant().clone(),
                run_id: run_id.clone(),
                checkpoint_id,
                projection: projection.record(),
                emitted_by: self.0.emitted_by.clone(),
            })
            .await
    }

    /// The checkpoints of a run, newest first.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn checkpoints(&self, run_id: &RunId) -> Result<Vec<CheckpointRecord>> {
        self.authorize(&self.0.actor, Operation::Read(run_id.clone())).await?;
        self.0.store.checkpoints(self.tenant(), run_id).await
    }

    /// Makes a new run from a checkpoint: what had ended well by then is taken over.
    ///
    /// # Errors
    /// As [`Client::rerun`]; `CHECKPOINT_CORRUPT` names the newest sound one before it.
    pub async fn restore(&self, run_id: &RunId, id: CheckpointId) -> Result<Started> {
        let rerun = Rerun { from: RerunFrom::Checkpoint(id), ..Rerun::default() };
        self.rerun(run_id, rerun).await
    }

    /// Deletes all but the newest `keep` checkpoints of a run, and says which.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn prune_checkpoints(&self, run_id: &RunId, keep: usize) -> Result<Vec<CheckpointId>> {
        self.authorize(&self.0.actor, Operation::Read(run_id.clone())).await?;
        self.0.store.prune_checkpoints(self.tenant(), run_id, keep).await
    }
}
