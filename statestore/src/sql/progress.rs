//! How far steps are.

use async_trait::async_trait;
use engine_core::port::store::{ProgressBoard, StepProgress};
use engine_core::{Result, RunId, StepId, TenantId, Timestamp};
use sqlx::Row as _;

use super::log::facts;
use super::{Row, Store, broken};
use crate::content;
use crate::retry::Failure;

#[async_trait]
impl ProgressBoard for Store {
    async fn note_progress(&self, run_id: &RunId, progress: StepProgress) -> Result<()> {
        let (run_id, progress) = (run_id.clone(), content::clamp_progress(progress));
        self.write(move |connection, _| {
            let (run_id, progress) = (run_id.clone(), progress.clone());
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO step_progress (run_no, step_id, attempt, done, noted_at)
                     SELECT run_no, $2, $3, $4, $5 FROM runs WHERE run_id = $1
                     ON CONFLICT (run_no, step_id)
                     DO UPDATE SET attempt = excluded.attempt, done = excluded.done, noted_at = excluded.noted_at
                     WHERE (step_progress.attempt, step_progress.done) < (excluded.attempt, excluded.done)",
                )
                .bind(run_id.as_str())
                .bind(progress.step_id.as_str())
                .bind(i64::from(progress.attempt))
                .bind(progress.done)
                .bind(progress.at.as_millis())
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    async fn progress(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<StepProgress>> {
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        self.read(move |connection| {
            let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                let found = sqlx::query(
                    "SELECT step_id, attempt, done, noted_at FROM step_progress WHERE run_no = $1 ORDER BY step_id",
                )
                .bind(facts.run_no)
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
                found.iter().map(step_progress).collect()
            })
        })
        .await
    }
}

fn step_progress(row: &Row) -> Result<StepProgress, Failure> {
    let attempt: i64 = row.try_get(1).map_err(broken)?;
    Ok(StepProgress {
        step_id: StepId::new(row.try_get::<&str, _>(0).map_err(broken)?)?,
        attempt: u32::try_from(attempt).unwrap_or(1),
        done: row.try_get(2).map_err(broken)?,
        at: Timestamp::from_millis(row.try_get(3).map_err(broken)?),
    })
}
