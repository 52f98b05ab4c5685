//! Answers that are given again.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::store::{RequestKey, RequestLedger};
use engine_core::{Result, TenantId, Timestamp};
use sqlx::Row as _;

use super::{Connection, Store, broken};
use crate::content;
use crate::retry::Failure;

#[async_trait]
impl RequestLedger for Store {
    async fn remember(
        &self,
        tenant_id: &TenantId,
        key: &RequestKey,
        answer: &str,
        keep_ms: u64,
    ) -> Result<Arc<str>> {
        content::check_answer(answer)?;
        let (tenant_id, key, answer) = (tenant_id.clone(), key.clone(), Arc::<str>::from(answer));
        self.write(move |connection, now| {
            let (tenant_id, key, answer) = (tenant_id.clone(), key.clone(), answer.clone());
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO answers (tenant_id, request_key, answer, kept_until) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (tenant_id, request_key)
                     DO UPDATE SET answer = excluded.answer, kept_until = excluded.kept_until
                     WHERE answers.kept_until <= $5",
                )
                .bind(tenant_id.as_str())
                .bind(key.as_str())
                .bind(answer.clone())
                .bind(now.plus_millis(keep_ms).as_millis())
                .bind(now.as_millis())
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                // A keep of 0 ms leaves nothing to find.
                Ok(recall(connection, &tenant_id, &key, now).await?.unwrap_or(answer))
            })
        })
        .await
    }

    async fn recall(&self, tenant_id: &TenantId, key: &RequestKey) -> Result<Option<Arc<str>>> {
        let (tenant_id, key, clock) = (tenant_id.clone(), key.clone(), self.shared.clock.clone());
        self.read(move |connection| {
            let (tenant_id, key, clock) = (tenant_id.clone(), key.clone(), clock.clone());
            Box::pin(async move {
                let now = super::now(connection, clock.as_deref()).await?;
                recall(connection, &tenant_id, &key, now).await
            })
        })
        .await
    }

    async fn sweep(&self) -> Result<u64> {
        self.write_slowly(move |connection, now| {
            Box::pin(async move {
                let swept = sqlx::query("DELETE FROM answers WHERE kept_until <= $1")
                    .bind(now.as_millis())
                    .execute(&mut *connection)
                    .await
                    .map_err(broken)?;
                sqlx::query("DELETE FROM claims WHERE claimed_until <= $1")
                    .bind(now.as_millis())
                    .execute(&mut *connection)
                    .await
                    .map_err(broken)?;
                Ok(swept.rows_affected())
            })
        })
        .await
    }
}

async fn recall(
    connection: &mut Connection,
    tenant_id: &TenantId,
    key: &RequestKey,
    now: Timestamp,
) -> Result<Option<Arc<str>>, Failure> {
    let row = sqlx::query(
        "SELECT answer FROM answers WHERE tenant_id = $1 AND request_key = $2 AND kept_until > $3",
    )
    .bind(tenant_id.as_str())
    .bind(key.as_str())
    .bind(now.as_millis())
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    row.map(|row| Ok(row.try_get::<&str, _>(0).map_err(broken)?.into())).transpose()
}
