//! Checkpoints.

use async_trait::async_trait;
use engine_core::port::store::{Appended, Checkpoint, CheckpointRecord, CheckpointShelf, SaveCheckpoint};
use engine_core::{CheckpointId, Result, RunId, TenantId};

use super::MemoryStore;
use crate::append::PreparedAppend;
use crate::content;
use crate::wake::ANYWHERE;

#[async_trait]
impl CheckpointShelf for MemoryStore {
    async fn save_checkpoint(&self, request: SaveCheckpoint) -> Result<CheckpointRecord> {
        let text =
            content::write_projection(&format!("checkpoint {}", request.checkpoint_id), &request.projection)?;
        let now = self.now();
        let record = content::checkpoint_record(&request, &text, now);
        let call = PreparedAppend::new(content::checkpoint_created(&request, &record))?;
        let mut state = self.state();
        let appended = state.append(call, now, self.shared.outbox)?;
        let run = state.run_of(&request.tenant_id, &request.run_id)?;
        if matches!(&appended, Appended::Stored(stored) if stored.iter().all(|event| event.fresh)) {
            run.checkpoints.push((record, text));
            self.shared.wakeups.stored([(&request.run_id, ANYWHERE)]);
        }
        // What is there now is this one, or the one that had its name before.
        let id = &request.checkpoint_id;
        let known = run.checkpoints.iter().find(|(known, _)| known.checkpoint_id == *id);
        known.map(|(record, _)| record.clone()).ok_or_else(|| content::pruned_checkpoint(&request.run_id, id))
    }

    async fn checkpoints(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<CheckpointRecord>> {
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        Ok(run.checkpoints.iter().rev().map(|(record, _)| record.clone()).collect())
    }

    async fn checkpoint(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        checkpoint_id: &CheckpointId,
    ) -> Result<Checkpoint> {
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        let position = run.checkpoints.iter().position(|(record, _)| record.checkpoint_id == *checkpoint_id);
        let position = position.ok_or_else(|| content::no_such_checkpoint(run_id, checkpoint_id))?;
        let sound =
            |(record, text): &(CheckpointRecord, String)| content::verify_checkpoint(record.clone(), text);
        sound(&run.checkpoints[position]).ok_or_else(|| {
            let before = run.checkpoints[..position].iter().rev().find_map(sound);
            content::corrupt_checkpoint(
                run_id,
                checkpoint_id,
                before.map(|before| before.record.checkpoint_id).as_ref(),
            )
        })
    }

    async fn prune_checkpoints(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        keep: usize,
    ) -> Result<Vec<CheckpointId>> {
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        let gone = run.checkpoints.len().saturating_sub(keep);
        Ok(run.checkpoints.drain(..gone).map(|(record, _)| record.checkpoint_id).collect())
    }
}

#[cfg(feature = "suite")]
impl MemoryStore {
    /// Changes the stored content of a checkpoint behind the store's back, for the suite.
    #[doc(hidden)]
    pub fn damage_checkpoint(&self, run_id: &RunId, checkpoint_id: &CheckpointId) {
        if let Ok(run) = self.state().run(run_id) {
            for (record, text) in &mut run.checkpoints {
                if record.checkpoint_id == *checkpoint_id {
                    text.push(' ');
                }
            }
        }
    }
}
