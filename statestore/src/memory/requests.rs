//! Answers that are given again.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::store::{RequestKey, RequestLedger};
use engine_core::{Result, TenantId};

use super::MemoryStore;
use crate::content;

#[async_trait]
impl RequestLedger for MemoryStore {
    async fn remember(
        &self,
        tenant_id: &TenantId,
        key: &RequestKey,
        answer: &str,
        keep_ms: u64,
    ) -> Result<Arc<str>> {
        content::check_answer(answer)?;
        let now = self.now();
        let mut state = self.state();
        let kept = state.answers.entry((tenant_id.clone(), key.clone())).or_default();
        if kept.1 <= now {
            *kept = (answer.into(), now.plus_millis(keep_ms));
        }
        Ok(kept.0.clone())
    }

    async fn recall(&self, tenant_id: &TenantId, key: &RequestKey) -> Result<Option<Arc<str>>> {
        let now = self.now();
        let state = self.state();
        let kept = state.answers.get(&(tenant_id.clone(), key.clone()));
        Ok(kept.filter(|(_, until)| *until > now).map(|(answer, _)| answer.clone()))
    }

    async fn sweep(&self) -> Result<u64> {
        let now = self.now();
        let mut state = self.state();
        let before = state.answers.len();
        state.answers.retain(|_, (_, until)| *until > now);
        let swept = before - state.answers.len();
        for run in state.runs.values_mut() {
            run.claims.retain(|_, (_, until)| *until > now);
        }
        Ok(swept as u64)
    }
}
