//! How far steps are.

use async_trait::async_trait;
use engine_core::port::store::{ProgressBoard, StepProgress};
use engine_core::{Result, RunId, TenantId};

use super::MemoryStore;
use crate::content;

#[async_trait]
impl ProgressBoard for MemoryStore {
    async fn note_progress(&self, run_id: &RunId, progress: StepProgress) -> Result<()> {
        let progress = content::clamp_progress(progress);
        if let Ok(run) = self.state().run(run_id) {
            let known = run.progress.get(&progress.step_id);
            if known.is_none_or(|known| (known.attempt, known.done) < (progress.attempt, progress.done)) {
                run.progress.insert(progress.step_id.clone(), progress);
            }
        }
        Ok(())
    }

    async fn progress(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<StepProgress>> {
        Ok(self.state().run_of(tenant_id, run_id)?.progress.values().cloned().collect())
    }
}
