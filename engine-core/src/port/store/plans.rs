//! Plans by content.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// Plans by content.
#[async_trait]
pub trait PlanShelf: Debug + Send + Sync + 'static {
    /// Keeps a plan's canonical document under its hash. Keeping it again changes nothing.
    ///
    /// # Errors
    /// `PLAN_HASH_MISMATCH` when the content is not of that hash.
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()>;

    /// The document with this hash.
    ///
    /// # Errors
    /// `PLAN_MISSING` when the tenant has none.
    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>>;
}
