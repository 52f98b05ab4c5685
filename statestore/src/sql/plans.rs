//! Plans by content.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::store::PlanShelf;
use engine_core::{Result, TenantId};
use sqlx::Row as _;

use super::{Store, broken};
use crate::content;

#[async_trait]
impl PlanShelf for Store {
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()> {
        content::check_plan(hash, document)?;
        let (tenant_id, hash, document) = (tenant_id.clone(), hash.to_owned(), Arc::<str>::from(document));
        self.write(move |connection, _| {
            let (tenant_id, hash, document) = (tenant_id.clone(), hash.clone(), document.clone());
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO plans (tenant_id, plan_hash, document) VALUES ($1, $2, $3)
                     ON CONFLICT (tenant_id, plan_hash) DO NOTHING",
                )
                .bind(tenant_id.as_str())
                .bind(hash)
                .bind(document)
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>> {
        let (tenant_id, hash) = (tenant_id.clone(), content::without_nul(hash));
        self.read(move |connection| {
            let (tenant_id, hash) = (tenant_id.clone(), hash.clone());
            Box::pin(async move {
                let row = sqlx::query("SELECT document FROM plans WHERE tenant_id = $1 AND plan_hash = $2")
                    .bind(tenant_id.as_str())
                    .bind(hash.as_str())
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(broken)?;
                let row = row.ok_or_else(|| content::no_such_plan(&hash))?;
                Ok(row.try_get::<&str, _>(0).map_err(broken)?.into())
            })
        })
        .await
    }
}
