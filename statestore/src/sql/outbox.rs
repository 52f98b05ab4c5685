//! Events on their way to the bus. The log is the outbox: an event waits as soon as it is stored, and the head of its run,
//! which is written with it, says from where on.

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
        self.write(move |connection, now| {
            let delivered = delivered.clone();
            Box::pin(async move {
                if let Some(mine) = claimed(connection, &delivered.run_id, &delivered.relay).await? {
                    give_back(connection, mine.run_no).await?;
                    remove(connection, now, &mine, delivered.up_to_seq).await?;
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
                     ORDER BY d.given_up_at, d.run_no, d.run_seq LIMIT $1",
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
        self.write(move |connection, now| Box::pin(replay(connection, now, run_id.clone()))).await
    }
}

/// Whether nobody has run `h` and it need not wait.
const FREE: &str = "NOT EXISTS (SELECT 1 FROM outbox_runs q WHERE q.run_no = h.run_no
    AND (q.claimed_until > $1 OR q.not_before > $1))";

/// Finds what waits of runs that are free, and claims these runs. One relay at a time does this: what it sees of a free
/// run is then all that waits of it.
async fn claim(
    connection: &mut Connection,
    now: Timestamp,
    request: ClaimOutbox,
) -> Result<Vec<OutboxEntry>, Failure> {
    lock_outbox(connection).await?;
    let limit = limit(request.limit, page::ROWS);
    let columns = format!(
        "SELECT {EVENT}, {}, COALESCE((SELECT q.failures FROM outbox_runs q WHERE q.run_no = h.run_no), 0)",
        rows::FACTS
    );
    // Repeats are older than all that was never delivered.
    let repeats = format!(
        "{columns} FROM outbox_repeats w JOIN run_heads h ON h.run_no = w.run_no JOIN runs r ON r.run_no = w.run_no
         JOIN events e ON e.run_no = w.run_no AND e.run_seq = w.run_seq
         WHERE {FREE} ORDER BY w.run_no, w.run_seq LIMIT $2"
    );
    let waiting = format!(
        "{columns} FROM run_heads h JOIN runs r ON r.run_no = h.run_no
         JOIN events e ON e.run_no = h.run_no AND e.run_seq > h.delivered_seq
         WHERE h.waiting_since IS NOT NULL AND {FREE} ORDER BY h.waiting_since, h.run_no, e.run_seq LIMIT $2"
    );
    let mut entries = Vec::new();
    let mut first_of: BTreeMap<i64, u64> = BTreeMap::new();
    for sql in [repeats, waiting] {
        let found = sqlx::query(AssertSqlSafe(sql))
            .bind(now.as_millis())
            .bind(limit - i64::try_from(entries.len()).unwrap_or(limit))
            .fetch_all(&mut *connection)
            .await
            .map_err(broken)?;
        for row in &found {
            let entry = entry(row)?;
            first_of.entry(row.try_get(RUN).map_err(broken)?).or_insert(entry.event.run_seq);
            entries.push(entry);
        }
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

/// Lets dead letters wait again, except those of runs that a relay has: it would acknowledge what it was never given.
async fn replay(connection: &mut Connection, now: Timestamp, run_id: Option<RunId>) -> Result<u64, Failure> {
    lock_outbox(connection).await?;
    let (all, run_id) = (run_id.is_none(), run_id.as_ref().map_or("", RunId::as_str).to_owned());
    let chosen = "($1 OR run_no = (SELECT run_no FROM runs WHERE run_id = $2)) AND NOT EXISTS
        (SELECT 1 FROM outbox_runs q WHERE q.run_no = dead_letters.run_no AND q.claimed_until > $3)";
    let statements = [
        // A relay whose claim has run out may still come back.
        format!(
            "UPDATE outbox_runs SET relay = NULL WHERE run_no IN (SELECT run_no FROM dead_letters WHERE {chosen})"
        ),
        format!(
            "UPDATE run_heads SET waiting_since = COALESCE(waiting_since, $3)
             WHERE run_no IN (SELECT run_no FROM dead_letters WHERE {chosen})"
        ),
        format!(
            "INSERT INTO outbox_repeats (run_no, run_seq) SELECT run_no, run_seq FROM dead_letters WHERE {chosen}"
        ),
        format!("DELETE FROM dead_letters WHERE {chosen}"),
    ];
    let mut replayed = 0;
    for sql in statements {
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

/// Takes events out of the outbox up to a place. A run of which more waits goes to the end of the queue.
async fn remove(
    connection: &mut Connection,
    now: Timestamp,
    mine: &Claimed,
    up_to_seq: u64,
) -> Result<(), Failure> {
    sqlx::query("DELETE FROM outbox_repeats WHERE run_no = $1 AND run_seq BETWEEN $2 AND $3")
        .bind(mine.run_no)
        .bind(mine.from_seq)
        .bind(place(up_to_seq))
        .execute(&mut *connection)
        .await
        .map_err(broken)?;
    // An append changes this row too, so nothing is stored between looking for what waits and saying that nothing does.
    sqlx::query(
        "UPDATE run_heads SET
            delivered_seq = CASE WHEN $2 > last_seq THEN last_seq WHEN $2 > delivered_seq THEN $2 ELSE delivered_seq END,
            waiting_since = CASE WHEN last_seq > delivered_seq AND last_seq > $2
                OR EXISTS (SELECT 1 FROM outbox_repeats w WHERE w.run_no = run_heads.run_no) THEN $3 END
         WHERE run_no = $1",
    )
    .bind(mine.run_no)
    .bind(place(up_to_seq))
    .bind(now.as_millis())
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    Ok(())
}

/// Gives a claim back.
async fn give_back(connection: &mut Connection, run_no: i64) -> Result<(), Failure> {
    let sql = "DELETE FROM outbox_runs WHERE run_no = $1";
    sqlx::query(sql).bind(run_no).execute(&mut *connection).await.map_err(broken)?;
    Ok(())
}

async fn fail(connection: &mut Connection, now: Timestamp, failed: FailedDelivery) -> Result<(), Failure> {
    let Some(mine) = claimed(connection, &failed.run_id, &failed.relay).await? else { return Ok(()) };
    // Failures are those of the first event that waits; another one begins anew.
    let again = place(failed.run_seq) == mine.from_seq;
    match failed.next {
        NextTry::At(time) => {
            remove(connection, now, &mine, failed.run_seq.saturating_sub(1)).await?;
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
                "INSERT INTO dead_letters (run_no, run_seq, failures, error, given_up_at)
                 SELECT e.run_no, e.run_seq, CASE WHEN $5 THEN q.failures + 1 ELSE 1 END, $3, $4
                 FROM events e JOIN run_heads h ON h.run_no = e.run_no JOIN outbox_runs q ON q.run_no = e.run_no
                 WHERE e.run_no = $1 AND e.run_seq = $2 AND (e.run_seq > h.delivered_seq OR EXISTS
                    (SELECT 1 FROM outbox_repeats w WHERE w.run_no = e.run_no AND w.run_seq = e.run_seq))",
            )
            .bind(mine.run_no)
            .bind(place(failed.run_seq))
            .bind(content::without_nul(&failed.error))
            .bind(now.as_millis())
            .bind(again)
            .execute(&mut *connection)
            .await
            .map_err(broken)?;
            give_back(connection, mine.run_no).await?;
            remove(connection, now, &mine, failed.run_seq).await?;
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
