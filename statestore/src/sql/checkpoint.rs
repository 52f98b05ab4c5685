//! Checkpoints.

use async_trait::async_trait;
use engine_core::port::store::{Checkpoint, CheckpointRecord, CheckpointShelf, SaveCheckpoint};
use engine_core::{CheckpointId, Result, RunId, TenantId, Timestamp};
use sqlx::Row as _;

use super::log::facts;
use super::{Connection, Row, Store, broken};
use crate::append::PreparedAppend;
use crate::commit::{AppendJob, CheckpointRow, LogJob};
use crate::content;
use crate::page::{count, limit};
use crate::retry::Failure;

#[async_trait]
impl CheckpointShelf for Store {
    async fn save_checkpoint(&self, request: SaveCheckpoint) -> Result<CheckpointRecord> {
        let text =
            content::write_projection(&format!("checkpoint {}", request.checkpoint_id), &request.projection)?;
        // The writer puts in the time at which it is stored.
        let record = content::checkpoint_record(&request, &text, Timestamp::default());
        let call = PreparedAppend::new(content::checkpoint_created(&request, &record))?;
        let checkpoint = Some(CheckpointRow { record, content: text.into() });
        self.shared
            .queue
            .submit(|reply| LogJob::Append(AppendJob { call, checkpoint, answer: None, reply }))
            .await?;
        // What is there now is this one, or the one that had its name before.
        let known = self.checkpoints(&request.tenant_id, &request.run_id).await?;
        let id = &request.checkpoint_id;
        let known = known.into_iter().find(|record| record.checkpoint_id == *id);
        known.ok_or_else(|| content::pruned_checkpoint(&request.run_id, id))
    }

    async fn checkpoints(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<CheckpointRecord>> {
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        self.read(move |connection| {
            let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                let found = sqlx::query(
                    "SELECT checkpoint_id, up_to_seq, size_bytes, sha256, created_at FROM checkpoints
                     WHERE run_no = $1 ORDER BY position DESC",
                )
                .bind(facts.run_no)
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
                found.iter().map(record).collect()
            })
        })
        .await
    }

    async fn checkpoint(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        checkpoint_id: &CheckpointId,
    ) -> Result<Checkpoint> {
        let (tenant_id, run_id, id) = (tenant_id.clone(), run_id.clone(), checkpoint_id.clone());
        self.read(move |connection| {
            let (tenant_id, run_id, id) = (tenant_id.clone(), run_id.clone(), id.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                load(connection, facts.run_no, &run_id, &id).await
            })
        })
        .await
    }

    async fn prune_checkpoints(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        keep: usize,
    ) -> Result<Vec<CheckpointId>> {
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        self.write(move |connection, _| {
            let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                let gone = sqlx::query(
                    "DELETE FROM checkpoints WHERE run_no = $1 AND position NOT IN
                     (SELECT position FROM checkpoints WHERE run_no = $1 ORDER BY position DESC LIMIT $2)
                     RETURNING checkpoint_id",
                )
                .bind(facts.run_no)
                .bind(limit(keep, usize::MAX))
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
                let id = |row: &Row| Ok(CheckpointId::new(row.try_get::<&str, _>(0).map_err(broken)?)?);
                gone.iter().map(id).collect()
            })
        })
        .await
    }
}

/// A checkpoint, or the refusal of a corrupt one, which offers the newest sound one before it (CHECKPOINT-6).
async fn load(
    connection: &mut Connection,
    run_no: i64,
    run_id: &RunId,
    wanted: &CheckpointId,
) -> Result<Checkpoint, Failure> {
    let mut corrupt = false;
    let mut before = i64::MAX;
    loop {
        let row = sqlx::query(
            "SELECT checkpoint_id, up_to_seq, size_bytes, sha256, created_at, content, position FROM checkpoints
             WHERE run_no = $1 AND position < $2 AND ($3 OR checkpoint_id = $4) ORDER BY position DESC LIMIT 1",
        )
        .bind(run_no)
        .bind(before)
        .bind(corrupt)
        .bind(wanted.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(broken)?;
        let Some(row) = row else {
            return Err(if corrupt {
                content::corrupt_checkpoint(run_id, wanted, None).into()
            } else {
                content::no_such_checkpoint(run_id, wanted).into()
            });
        };
        let sound = content::verify_checkpoint(record(&row)?, row.try_get(5).map_err(broken)?);
        match sound {
            Some(checkpoint) if corrupt => {
                let offered = Some(&checkpoint.record.checkpoint_id);
                return Err(content::corrupt_checkpoint(run_id, wanted, offered).into());
            }
            Some(checkpoint) => return Ok(checkpoint),
            None => corrupt = true,
        }
        before = row.try_get(6).map_err(broken)?;
    }
}

fn record(row: &Row) -> Result<CheckpointRecord, Failure> {
    Ok(CheckpointRecord {
        checkpoint_id: CheckpointId::new(row.try_get::<&str, _>(0).map_err(broken)?)?,
        up_to_seq: count(row.try_get(1).map_err(broken)?),
        size_bytes: count(row.try_get(2).map_err(broken)?),
        sha256: row.try_get(3).map_err(broken)?,
        created_at: Timestamp::from_millis(row.try_get(4).map_err(broken)?),
    })
}
