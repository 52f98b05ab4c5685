//! Plans by content.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::store::PlanShelf;
use engine_core::{Result, TenantId};

use super::MemoryStore;
use crate::content;

#[async_trait]
impl PlanShelf for MemoryStore {
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()> {
        content::check_plan(hash, document)?;
        let key = (tenant_id.clone(), hash.to_owned());
        self.state().plans.entry(key).or_insert_with(|| document.into());
        Ok(())
    }

    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>> {
        let key = (tenant_id.clone(), hash.to_owned());
        self.state().plans.get(&key).cloned().ok_or_else(|| content::no_such_plan(hash))
    }
}
