//! Events on their way to the bus.

use std::collections::BTreeMap;

use async_trait::async_trait;
use engine_core::port::store::{
    ClaimOutbox, DeadLetter, Delivered, FailedDelivery, NextTry, Outbox, OutboxEntry,
};
use engine_core::{Result, RunId, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::{Connection, Row, Store, broken, lock_outbox, rows};
use crate::content;
use crate::page::{self, limit, place};
use crate::retry::Failure;
use crate::stored::EVENT;

/// Where the columns of the run begin, behind those of an event.
const RUN: usize = 12;
/// Where the columns of the delivery begin, behind those of the run.
const DELIVERY: usize = 17;

#[async_trait]
impl Outbox for Store {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<Vec<OutboxEntry>> {
        content::check_name("relay", &request.relay)?;
        self.write(move |connection, now| Box::pin(claim(connection, now, request.clone()))).await
    }

    async fn acknowledge(&self, delivered: Delivered) -> Result<()> {
        content::check_name("relay", &delivered.relay)?;
        self.write(move |connection, _| {
            let delivered = delivered.clone();
            Box::pin(async move {
                if let Some(mine) = claimed(connection, &delivered.run_id, &delivered.relay).await? {
                    remove(connection, &mine, delivered.up_to_seq).await?;
                    let sql = "DELETE FROM outbox_runs WHERE run_no = $1";
                    sqlx::query(sql).bind(mine.run_no).execute(&mut *connection).await.map_err(broken)?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn fail_delivery(&self, failed: FailedDelivery) -> Result<()> {
        content::check_name("relay", &failed.relay)?;
        self.write(move |connection, now| Box::pin(fail(connection, now, failed.clone()))).await
    }

    async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>> {
        self.read(move |connection| {
            Box::pin(async move {
                let sql = format!(
                    "SELECT {}, {}, d.failures, d.error, d.given_up_at FROM dead_letters d
                     JOIN events e ON e.run_no = d.run_no AND e.run_seq = d.run_seq JOIN runs r ON r.run_no = d.run_no
                     ORDER BY d.position LIMIT $1",
                    EVENT,
                    rows::FACTS
                );
                let found = sqlx::query(AssertSqlSafe(sql))
                    .bind(limit(most, page::ROWS))
                    .fetch_all(&mut *connection)
                    .await
                    .map_err(broken)?;
                found.iter().map(dead_letter).collect()
            })
        })
        .await
    }

    async fn replay(&self, run_id: Option<&RunId>) -> Result<u64> {
        let run_id = run_id.cloned();
        self.write(move |connection, now| {
            let run_id = run_id.clone();
            Box::pin(async move {
                lock_outbox(connection).await?;
                let (all, run_id) = (run_id.is_none(), run_id.as_ref().map_or("", RunId::as_str).to_owned());
                // Not while a relay has the run: it would acknowledge what it was never given.
                let chosen = "($1 OR run_no = (SELECT run_no FROM runs WHERE run_id = $2)) AND NOT EXISTS
                    (SELECT 1 FROM outbox_runs q WHERE q.run_no = dead_letters.run_no AND q.claimed_until > $3)";
                let add = format!(
                    "INSERT INTO outbox (position, run_no, run_seq)
                     SELECT position, run_no, run_seq FROM dead_letters WHERE {chosen}"
                );
                let remove = format!("DELETE FROM dead_letters WHERE {chosen}");
                let mut replayed = 0;
                for sql in [add, remove] {
                    let done = sqlx::query(AssertSqlSafe(sql))
                        .bind(all)
                        .bind(run_id.clone())
                        .bind(now.as_millis())
                        .execute(&mut *connection)
                        .await
                        .map_err(broken)?;
                    replayed = done.rows_affected();
                }
                Ok(replayed)
            })
        })
        .await
    }
}

/// Finds what waits of runs that are free, and claims these runs. One relay at a time does this: what it sees of a free
/// run is then all that waits of it.
async fn claim(
    connection: &mut Connection,
    now: Timestamp,
    request: ClaimOutbox,
) -> Result<Vec<OutboxEntry>, Failure> {
    lock_outbox(connection).await?;
    let sql = format!(
        "SELECT {}, {}, COALESCE(q.failures, 0) FROM outbox o LEFT JOIN outbox_runs q ON q.run_no = o.run_no
         JOIN events e ON e.run_no = o.run_no AND e.run_seq = o.run_seq JOIN runs r ON r.run_no = o.run_no
         WHERE q.run_no IS NULL OR (q.claimed_until <= $1 AND q.not_before <= $1) ORDER BY o.position LIMIT $2",
        EVENT,
        rows::FACTS
    );
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(now.as_millis())
        .bind(limit(request.limit, page::ROWS))
        .fetch_all(&mut *connection)
        .await
        .map_err(broken)?;
    let entries = found.iter().map(entry).collect::<Result<Vec<OutboxEntry>, Failure>>()?;
    let mut first_of: BTreeMap<i64, u64> = BTreeMap::new();
    for (row, entry) in found.iter().zip(&entries) {
        let first = first_of.entry(row.try_get(RUN).map_err(broken)?).or_insert(u64::MAX);
        *first = entry.event.run_seq.min(*first);
    }
    for (run_no, first) in first_of {
        sqlx::query(
            "INSERT INTO outbox_runs (run_no, relay, claimed_until, from_seq) VALUES ($1, $2, $3, $4)
             ON CONFLICT (run_no) DO UPDATE SET relay = excluded.relay, claimed_until = excluded.claimed_until,
             from_seq = excluded.from_seq",
        )
        .bind(run_no)
        .bind(request.relay.as_str())
        .bind(now.plus_millis(request.duration_ms).as_millis())
        .bind(place(first))
        .execute(&mut *connection)
        .await
        .map_err(broken)?;
    }
    Ok(entries)
}

/// A run whose events a relay has.
struct Claimed {
    run_no: i64,
    from_seq: i64,
}

async fn claimed(
    connection: &mut Connection,
    run_id: &RunId,
    relay: &str,
) -> Result<Option<Claimed>, Failure> {
    let row = sqlx::query(
        "SELECT q.run_no, q.from_seq FROM outbox_runs q JOIN runs r ON r.run_no = q.run_no
         WHERE r.run_id = $1 AND q.relay = $2",
    )
    .bind(run_id.as_str())
    .bind(relay)
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Claimed { run_no: row.try_get(0).map_err(broken)?, from_seq: row.try_get(1).map_err(broken)? }))
}

/// Takes events out of the outbox up to a place.
async fn remove(connection: &mut Connection, mine: &Claimed, up_to_seq: u64) -> Result<(), Failure> {
    sqlx::query(
        "DELETE FROM outbox WHERE position IN
         (SELECT e.position FROM events e WHERE e.run_no = $1 AND e.run_seq BETWEEN $2 AND $3)",
    )
    .bind(mine.run_no)
    .bind(mine.from_seq)
    .bind(place(up_to_seq))
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    Ok(())
}

async fn fail(connection: &mut Connection, now: Timestamp, failed: FailedDelivery) -> Result<(), Failure> {
    let Some(mine) = claimed(connection, &failed.run_id, &failed.relay).await? else { return Ok(()) };
    remove(connection, &mine, failed.run_seq.saturating_sub(1)).await?;
    // Failures are those of the first event that waits; another one begins anew.
    let again = place(failed.run_seq) == mine.from_seq;
    match failed.next {
        NextTry::At(time) => {
            sqlx::query(
                "UPDATE outbox_runs SET relay = NULL, claimed_until = 0, not_before = $2, from_seq = $3,
                 failures = CASE WHEN $4 THEN failures + 1 ELSE 1 END WHERE run_no = $1",
            )
            .bind(mine.run_no)
            .bind(time.as_millis())
            .bind(place(failed.run_seq))
            .bind(again)
            .execute(&mut *connection)
            .await
            .map_err(broken)?;
        }
        NextTry::Never => {
            sqlx::query(
                "INSERT INTO dead_letters (position, run_no, run_seq, failures, error, given_up_at)
                 SELECT o.position, o.run_no, o.run_seq, CASE WHEN $5 THEN q.failures + 1 ELSE 1 END, $3, $4
                 FROM events e JOIN outbox o ON o.position = e.position JOIN outbox_runs q ON q.run_no = o.run_no
                 WHERE e.run_no = $1 AND e.run_seq = $2",
            )
            .bind(mine.run_no)
            .bind(place(failed.run_seq))
            .bind(content::without_nul(&failed.error))
            .bind(now.as_millis())
            .bind(again)
            .execute(&mut *connection)
            .await
            .map_err(broken)?;
            let given_up = Claimed { run_no: mine.run_no, from_seq: place(failed.run_seq) };
            remove(connection, &given_up, failed.run_seq).await?;
            let sql = "DELETE FROM outbox_runs WHERE run_no = $1";
            sqlx::query(sql).bind(mine.run_no).execute(&mut *connection).await.map_err(broken)?;
        }
    }
    Ok(())
}

fn failures(row: &Row) -> Result<u32, Failure> {
    let failures: i64 = row.try_get(DELIVERY).map_err(broken)?;
    Ok(u32::try_from(failures).unwrap_or(u32::MAX))
}

fn entry(row: &Row) -> Result<OutboxEntry, Failure> {
    let facts = rows::facts(row, RUN)?;
    let event = rows::event(row, &facts)?;
    Ok(OutboxEntry { tenant_id: facts.tenant_id, event, failures: failures(row)? })
}

fn dead_letter(row: &Row) -> Result<DeadLetter, Failure> {
    let OutboxEntry { tenant_id, event, failures } = entry(row)?;
    let error = row.try_get(DELIVERY + 1).map_err(broken)?;
    let given_up_at = Timestamp::from_millis(row.try_get(DELIVERY + 2).map_err(broken)?);
    Ok(DeadLetter { tenant_id, event, failures, error, given_up_at })
}
