//! Leases, claims and who has acted.

use async_trait::async_trait;
use engine_core::port::store::{ClaimRequest, Coordination, Fence, LeaseRequest, RunRecord, UnclaimRequest};
use engine_core::{Result, RunId, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::{Connection, Store, broken, rows};
use crate::append::no_such_run;
use crate::content;
use crate::page::{self, count, limit, place};
use crate::retry::Failure;

#[async_trait]
impl Coordination for Store {
    async fn lease(&self, request: LeaseRequest) -> Result<Fence> {
        content::check_name("holder", &request.holder)?;
        self.write(move |connection, now| Box::pin(lease(connection, now, request.clone()))).await
    }

    async fn renew(&self, holder: &str, duration_ms: u64) -> Result<u64> {
        let holder = holder.to_owned();
        self.write(move |connection, now| {
            let holder = holder.clone();
            Box::pin(async move {
                let renewed = sqlx::query(
                    "UPDATE run_heads SET lease_until = $2 WHERE lease_holder = $1 AND open AND NOT ended",
                )
                .bind(holder)
                .bind(now.plus_millis(duration_ms).as_millis())
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(renewed.rows_affected())
            })
        })
        .await
    }

    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()> {
        let run_id = run_id.clone();
        self.write(move |connection, _| {
            let run_id = run_id.clone();
            Box::pin(async move {
                sqlx::query(
                    "UPDATE run_heads SET lease_holder = NULL, lease_until = 0
                     WHERE run_no = (SELECT run_no FROM runs WHERE run_id = $1) AND fence = $2",
                )
                .bind(run_id.as_str())
                .bind(place(fence.0))
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<()> {
        content::check_name("worker", &request.worker)?;
        self.write(move |connection, now| Box::pin(claim(connection, now, request.clone()))).await
    }

    async fn unclaim(&self, request: UnclaimRequest) -> Result<()> {
        content::check_name("worker", &request.worker)?;
        self.write(move |connection, _| {
            let request = request.clone();
            Box::pin(async move {
                sqlx::query(
                    "DELETE FROM claims WHERE run_no = (SELECT run_no FROM runs WHERE run_id = $1)
                     AND step_id = $2 AND attempt = $3 AND worker = $4",
                )
                .bind(request.run_id.as_str())
                .bind(request.step_id.as_str())
                .bind(i64::from(request.attempt))
                .bind(request.worker)
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    async fn acted(&self, run_id: &RunId, seq: u64) -> Result<()> {
        let run_id = run_id.clone();
        self.write(move |connection, _| {
            let run_id = run_id.clone();
            Box::pin(async move {
                sqlx::query(
                    "UPDATE run_heads SET acted_seq = CASE WHEN $2 < last_seq THEN $2 ELSE last_seq END,
                     ahead_since = COALESCE((SELECT e.emitted_at FROM events e
                         WHERE e.run_no = run_heads.run_no AND e.run_seq = $2 + 1), ahead_since),
                     open = open AND NOT (ended AND $2 >= last_seq)
                     WHERE run_no = (SELECT run_no FROM runs WHERE run_id = $1) AND acted_seq < $2",
                )
                .bind(run_id.as_str())
                .bind(place(seq).min(i64::MAX - 1))
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    async fn neglected(&self, since: Timestamp, limit: usize) -> Result<Vec<RunRecord>> {
        let condition = "h.open AND h.last_seq > h.acted_seq AND h.ahead_since < $1";
        self.oldest(condition, Some(since), limit).await
    }

    async fn unattended(&self, limit: usize) -> Result<Vec<RunRecord>> {
        let condition = "h.open AND NOT h.ended AND h.last_seq > h.acted_seq AND h.lease_until <= $1";
        self.oldest(condition, None, limit).await
    }

    async fn identify(&self, run_id: &RunId) -> Result<RunRecord> {
        let run_id = run_id.clone();
        self.read(move |connection| {
            let run_id = run_id.clone();
            Box::pin(async move {
                let sql = format!(
                    "SELECT {} FROM runs r JOIN run_heads h ON h.run_no = r.run_no WHERE r.run_id = $1",
                    rows::RECORD
                );
                let row = sqlx::query(AssertSqlSafe(sql))
                    .bind(run_id.as_str())
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(broken)?;
                row.as_ref().map_or_else(|| Err(no_such_run(run_id.as_str()).into()), rows::record)
            })
        })
        .await
    }
}

impl Store {
    /// Runs that meet a condition on a time, or on now.
    async fn oldest(
        &self,
        condition: &'static str,
        time: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<RunRecord>> {
        let clock = self.shared.clock.clone();
        self.read(move |connection| {
            let clock = clock.clone();
            Box::pin(async move {
                let time = match time {
                    Some(time) => time,
                    None => super::now(connection, clock.as_deref()).await?,
                };
                let sql = format!(
                    "SELECT {} FROM run_heads h JOIN runs r ON r.run_no = h.run_no WHERE {condition}
                     ORDER BY h.run_no LIMIT $2",
                    rows::RECORD
                );
                let found = sqlx::query(AssertSqlSafe(sql))
                    .bind(time.as_millis())
                    .bind(limit(most, page::ROWS))
                    .fetch_all(&mut *connection)
                    .await
                    .map_err(broken)?;
                found.iter().map(rows::record).collect()
            })
        })
        .await
    }
}

async fn lease(connection: &mut Connection, now: Timestamp, request: LeaseRequest) -> Result<Fence, Failure> {
    let taken = sqlx::query(
        "UPDATE run_heads SET fence = CASE WHEN lease_holder = $2 THEN fence ELSE fence + 1 END,
         lease_holder = $2, lease_until = $3
         WHERE run_no = (SELECT run_no FROM runs WHERE run_id = $1)
         AND (lease_holder IS NULL OR lease_holder = $2 OR lease_until <= $4) RETURNING fence",
    )
    .bind(request.run_id.as_str())
    .bind(request.holder.as_str())
    .bind(now.plus_millis(request.duration_ms).as_millis())
    .bind(now.as_millis())
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    if let Some(row) = taken {
        return Ok(Fence(count(row.try_get(0).map_err(broken)?)));
    }
    let held = sqlx::query(
        "SELECT h.lease_holder, h.lease_until FROM run_heads h JOIN runs r ON r.run_no = h.run_no
         WHERE r.run_id = $1",
    )
    .bind(request.run_id.as_str())
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    let Some(row) = held else { return Err(no_such_run(request.run_id.as_str()).into()) };
    let holder: Option<&str> = row.try_get(0).map_err(broken)?;
    let until = Timestamp::from_millis(row.try_get(1).map_err(broken)?);
    Err(content::lease_held(&request.run_id, holder.unwrap_or("another"), until).into())
}

async fn claim(connection: &mut Connection, now: Timestamp, request: ClaimRequest) -> Result<(), Failure> {
    let claimed = sqlx::query(
        "INSERT INTO claims (run_no, step_id, attempt, worker, claimed_until)
         SELECT run_no, $2, $3, $4, $5 FROM runs WHERE run_id = $1
         ON CONFLICT (run_no, step_id, attempt)
         DO UPDATE SET worker = excluded.worker, claimed_until = excluded.claimed_until
         WHERE claims.worker = excluded.worker OR claims.claimed_until <= $6",
    )
    .bind(request.run_id.as_str())
    .bind(request.step_id.as_str())
    .bind(i64::from(request.attempt))
    .bind(request.worker.as_str())
    .bind(now.plus_millis(request.duration_ms).as_millis())
    .bind(now.as_millis())
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    if claimed.rows_affected() > 0 {
        return Ok(());
    }
    let held = sqlx::query(
        "SELECT c.worker, c.claimed_until FROM claims c JOIN runs r ON r.run_no = c.run_no
         WHERE r.run_id = $1 AND c.step_id = $2 AND c.attempt = $3",
    )
    .bind(request.run_id.as_str())
    .bind(request.step_id.as_str())
    .bind(i64::from(request.attempt))
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    let Some(row) = held else { return Err(no_such_run(request.run_id.as_str()).into()) };
    let until = Timestamp::from_millis(row.try_get(1).map_err(broken)?);
    Err(content::claim_held(&request, row.try_get(0).map_err(broken)?, until).into())
}
