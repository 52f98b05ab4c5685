//! The statements of a group commit. Rows go in many at a time, as arrays: one statement serves any number.

use std::collections::HashMap;
use std::sync::Arc;

use engine_core::event::{Event, SCHEMA_VERSION};
use engine_core::port::Clock;
use engine_core::{RunId, Timestamp};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use super::connect::Settings;
use super::{Connection, broken, checkpoint, log, now, rows};
use crate::append::{Changes, Head, PreparedRun, Taken};
use crate::commit::{Begun, Change, Database, EventRow, HeadRow, Identity, Wanted, Writes};
use crate::page::{count, place};
use crate::retry::Failure;

/// Runs told of in one message; Postgres takes up to 8000 bytes, and a run id has at most 128.
const TOLD_AT_ONCE: usize = 60;

/// The writer's connection.
pub(super) struct Batch {
    connection: Option<Connection>,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    outbox: bool,
    read_heads: Arc<str>,
}

impl Batch {
    pub(super) fn new(
        connection: Connection,
        settings: Settings,
        clock: Option<Arc<dyn Clock>>,
        outbox: bool,
    ) -> Self {
        // Locked in the order of their numbers, so that two processes never wait for each other.
        let read_heads = format!(
            "SELECT {}, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint
             FROM runs r JOIN run_heads h ON h.run_no = r.run_no
             WHERE r.run_id = ANY($1) ORDER BY r.run_no FOR UPDATE OF h",
            rows::HEAD
        );
        Self { connection: Some(connection), settings, clock, outbox, read_heads: read_heads.into() }
    }

    /// The connection; a new one after one was lost.
    async fn connection(&mut self) -> Result<&mut Connection, Failure> {
        if self.connection.is_none() {
            self.connection = Some(self.settings.connect().await?);
        }
        self.connection.as_mut().ok_or_else(|| Failure::away("there is no connection"))
    }

    async fn execute(&mut self, sql: &'static str) -> Result<(), Failure> {
        sqlx::raw_sql(sql).execute(self.connection().await?).await.map_err(broken)?;
        Ok(())
    }

    /// Stores events and their rows in the outbox; with the last of them says where runs stand, and tells who listens.
    async fn insert(
        &mut self,
        events: &[EventRow<'_>],
        heads: &[HeadRow],
        runs: &[RunId],
        now: Timestamp,
    ) -> Result<(), Failure> {
        let outbox = self.outbox;
        let channel = self.settings.channel();
        let connection = self.connection().await?;
        let told: Vec<String> = runs
            .chunks(TOLD_AT_ONCE)
            .map(|runs| format!("e{}", runs.iter().map(RunId::as_str).collect::<Vec<&str>>().join(",")))
            .collect();
        sqlx::query(
            "WITH stored AS (
                INSERT INTO events (run_no, run_seq, name, slot, event_type, event_id, idempotency_key, schema_version,
                    emitted_at, emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload)
                SELECT u.run_no, u.run_seq, u.name, u.slot, u.event_type, u.event_id, u.idempotency_key, $14,
                    $15, u.emitted_by, u.occurred_at, u.step_id, u.logical_attempt, u.engine_attempt, u.payload
                FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[],
                    $8::text[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::text[])
                    AS u (run_no, run_seq, name, slot, event_type, event_id, idempotency_key, emitted_by, occurred_at,
                    step_id, logical_attempt, engine_attempt, payload)
                RETURNING position, run_no, run_seq
            ), waiting AS (
                INSERT INTO outbox (position, run_no, run_seq) SELECT position, run_no, run_seq FROM stored WHERE $16
            ), moved AS (
                INSERT INTO run_heads AS h (run_no, last_seq, decisions, ended, ahead_since)
                SELECT u.run_no, u.last_seq, u.decisions, u.ended, $15
                FROM unnest($17::bigint[], $18::bigint[], $19::bigint[], $20::boolean[])
                    AS u (run_no, last_seq, decisions, ended)
                ON CONFLICT (run_no) DO UPDATE SET last_seq = excluded.last_seq, decisions = excluded.decisions,
                    ended = excluded.ended,
                    ahead_since = CASE WHEN h.acted_seq < h.last_seq THEN h.ahead_since ELSE excluded.ahead_since END
            )
            SELECT pg_notify($21, told) FROM unnest($22::text[]) AS told",
        )
        .bind(column(events, |row| row.run_no))
        .bind(column(events, |row| place(row.run_seq)))
        .bind(column(events, |row| &*row.entry.name))
        .bind(column(events, |row| row.entry.slot.as_deref()))
        .bind(column(events, |row| row.entry.draft.body.type_name()))
        .bind(column(events, |row| &row.entry.event_id.as_bytes()[..]))
        .bind(column(events, |row| &row.key.as_bytes()[..]))
        .bind(column(events, |row| &**row.emitted_by))
        .bind(column(events, |row| row.entry.draft.occurred_at.map(Timestamp::as_millis)))
        .bind(column(events, |row| row.entry.draft.subject.as_ref().map(|subject| subject.step.as_str())))
        .bind(column(events, |row| row.entry.draft.subject.as_ref().map(|subject| i64::from(subject.attempt))))
        .bind(column(events, |row| {
            row.entry.draft.subject.as_ref().and_then(|subject| subject.engine_attempt).map(i64::from)
        }))
        .bind(column(events, |row| &*row.entry.payload))
        .bind(SCHEMA_VERSION)
        .bind(now.as_millis())
        .bind(outbox)
        .bind(column(heads, |head| head.run_no))
        .bind(column(heads, |head| place(head.last_seq)))
        .bind(column(heads, |head| place(head.decisions)))
        .bind(column(heads, |head| head.ended))
        .bind(channel)
        .bind(told)
        .execute(&mut *connection)
        .await
        .map_err(broken)?;
        Ok(())
    }

    async fn write_changes(&mut self, all: &[(i64, Changes)]) -> Result<(), Failure> {
        sqlx::query(
            "UPDATE runs r SET status = COALESCE(u.status, r.status),
                engine_run_ref = COALESCE(u.engine_run_ref, r.engine_run_ref),
                ended_at = COALESCE(u.ended_at, r.ended_at)
             FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
                AS u (run_no, status, engine_run_ref, ended_at)
             WHERE r.run_no = u.run_no",
        )
        .bind(column(all, |(run_no, _)| *run_no))
        .bind(column(all, |(_, changes)| changes.status.map(|status| status.as_str())))
        .bind(column(all, |(_, changes)| changes.engine_run_ref.as_deref()))
        .bind(column(all, |(_, changes)| changes.ended_at.map(Timestamp::as_millis)))
        .execute(self.connection().await?)
        .await
        .map_err(broken)?;
        Ok(())
    }
}

/// Events in portions that a local connection sends at once. The driver does not switch off the delay of small packets
/// (TCP_NODELAY), so the rest of a larger message waits until the server confirms the beginning, which takes it 40 ms.
fn portions<'a, 'e>(mut events: &'a [EventRow<'e>]) -> impl Iterator<Item = &'a [EventRow<'e>]> {
    /// About what a row has besides its texts.
    const ROW_BYTES: usize = 200;
    const PORTION_BYTES: usize = 48 * 1024;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |row: &EventRow<'_>| {
            bytes += ROW_BYTES + row.entry.payload.len() + 3 * row.entry.name.len() + row.emitted_by.len();
            bytes <= PORTION_BYTES
        };
        let count = events.iter().take_while(|row| fits(row)).count();
        let (portion, rest) = events.split_at(count.max(1).min(events.len()));
        events = rest;
        (!portion.is_empty()).then_some(portion)
    })
}

/// Where a run stands: the columns of [`rows::HEAD`].
fn head(row: &super::Row) -> Result<Head, Failure> {
    let rows::Facts { run_no, run_id, tenant_id, plan_version, correlation_id } = rows::facts(row, 0)?;
    Ok(Head {
        run_no,
        run_id,
        tenant_id,
        plan_version,
        correlation_id,
        last_seq: count(row.try_get(5).map_err(broken)?),
        decisions: count(row.try_get(6).map_err(broken)?),
        ended: row.try_get(7).map_err(broken)?,
        fence: count(row.try_get(8).map_err(broken)?),
    })
}

/// One column of many rows.
fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

impl Database for Batch {
    type Connection = Connection;

    async fn begin(&mut self, runs: &[RunId], identities: &[Identity]) -> Result<Begun, Failure> {
        self.execute("BEGIN").await?;
        let clock = self.clock.clone();
        let read_heads = Arc::clone(&self.read_heads);
        let connection = self.connection().await?;
        let mut heads = Vec::with_capacity(runs.len());
        let mut time = clock.as_ref().map(|clock| clock.now());
        if !runs.is_empty() {
            let found = sqlx::query(AssertSqlSafe(read_heads))
                .bind(column(runs, RunId::as_str))
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
            for row in &found {
                heads.push(head(row)?);
                if time.is_none() {
                    time = Some(Timestamp::from_millis(row.try_get(9).map_err(broken)?));
                }
            }
        }
        let time = match time {
            Some(time) => time,
            None => now(connection, None).await?,
        };
        let mut known = Vec::new();
        if !identities.is_empty() {
            let found = sqlx::query(
                "SELECT r.tenant_id, r.identity, r.run_id FROM unnest($1::text[], $2::text[]) AS u (tenant_id, identity)
                 JOIN runs r ON r.tenant_id = u.tenant_id AND r.identity = u.identity",
            )
            .bind(column(identities, |identity| identity.0.as_str()))
            .bind(column(identities, |identity| &*identity.1))
            .fetch_all(&mut *connection)
            .await
            .map_err(broken)?;
            for row in &found {
                known.push(rows::identity(row)?);
            }
        }
        Ok(Begun { now: time, heads, identities: known })
    }

    async fn holders(&mut self, run_no: i64, names: Option<&[Arc<str>]>) -> Result<Taken, Failure> {
        let connection = self.connection().await?;
        let mut taken = Taken::new();
        let Some(names) = names else {
            let found = sqlx::query("SELECT name, slot, run_seq, event_id FROM events WHERE run_no = $1")
                .bind(run_no)
                .fetch_all(connection)
                .await
                .map_err(broken)?;
            for row in &found {
                rows::add_holder(&mut taken, row, 0, 2)?;
                rows::add_holder(&mut taken, row, 1, 2)?;
            }
            return Ok(taken);
        };
        let (slots, names): (Vec<&str>, Vec<&str>) =
            names.iter().map(|name| &**name).partition(|name| name.starts_with('|'));
        let found = sqlx::query(
            // One look into the index a name: without statistics a plainer query would read the whole run.
            "SELECT w.name, e.run_seq, e.event_id FROM unnest($2::text[]) AS w (name) CROSS JOIN LATERAL
                (SELECT run_seq, event_id FROM events WHERE run_no = $1 AND name = w.name LIMIT 1) e
             UNION ALL SELECT w.slot, e.run_seq, e.event_id FROM unnest($3::text[]) AS w (slot) CROSS JOIN LATERAL
                (SELECT run_seq, event_id FROM events WHERE run_no = $1 AND slot = w.slot LIMIT 1) e",
        )
        .bind(run_no)
        .bind(names)
        .bind(slots)
        .fetch_all(connection)
        .await
        .map_err(broken)?;
        for row in &found {
            rows::add_holder(&mut taken, row, 0, 1)?;
        }
        Ok(taken)
    }

    async fn create(&mut self, runs: &[&PreparedRun], now: Timestamp) -> Result<Vec<i64>, Failure> {
        let found = sqlx::query(
            "INSERT INTO runs (run_id, identity, tenant_id, plan_id, plan_version, plan_hash, correlation_id,
                source_run_id, status, created_at)
             SELECT u.run_id, u.identity, u.tenant_id, u.plan_id, u.plan_version, u.plan_hash, u.correlation_id,
                u.source_run_id, 'PENDING', $9
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
                AS u (run_id, identity, tenant_id, plan_id, plan_version, plan_hash, correlation_id,
                source_run_id)
             ORDER BY u.tenant_id, u.identity ON CONFLICT (tenant_id, identity) DO NOTHING RETURNING run_no, run_id",
        )
        .bind(column(runs, |run| run.run_id.as_str()))
        .bind(column(runs, |run| &*run.identity))
        .bind(column(runs, |run| run.tenant_id.as_str()))
        .bind(column(runs, |run| &*run.plan_id))
        .bind(column(runs, |run| run.plan_version.as_str()))
        .bind(column(runs, |run| &*run.plan_hash))
        .bind(column(runs, |run| &*run.correlation_id))
        .bind(column(runs, |run| run.source_run_id.as_ref().map(RunId::as_str)))
        .bind(now.as_millis())
        .fetch_all(self.connection().await?)
        .await
        .map_err(broken)?;
        let mut numbers: HashMap<String, i64> = HashMap::with_capacity(found.len());
        for row in &found {
            numbers.insert(row.try_get(1).map_err(broken)?, row.try_get(0).map_err(broken)?);
        }
        let number = |run: &&PreparedRun| numbers.get(run.run_id.as_str()).copied();
        // Another process has made one of them since this transaction looked; the next try finds it.
        let made = || Failure::away("another process made the same run at the same moment");
        runs.iter().map(number).collect::<Option<Vec<i64>>>().ok_or_else(made)
    }

    async fn write(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        let mut portions = portions(&writes.events).peekable();
        while let Some(portion) = portions.next() {
            let is_last = portions.peek().is_none();
            let (heads, runs) = if is_last { (&*writes.heads, &*writes.runs) } else { (&[][..], &[][..]) };
            self.insert(portion, heads, runs, writes.now).await?;
        }
        if !writes.changes.is_empty() {
            self.write_changes(&writes.changes).await?;
        }
        for (run_no, row) in &writes.checkpoints {
            checkpoint::insert(self.connection().await?, *run_no, row, writes.now).await?;
        }
        if then_commit { self.commit().await } else { Ok(()) }
    }

    async fn events(&mut self, head: &Head, wanted: Wanted) -> Result<Vec<Event>, Failure> {
        log::wanted(self.connection().await?, &head.into(), wanted).await
    }

    async fn change(&mut self, change: &mut dyn Change<Connection>, now: Timestamp) -> Result<(), Failure> {
        self.execute("SAVEPOINT change").await?;
        change.apply(self.connection().await?, now).await?;
        if change.is_refused() {
            self.execute("ROLLBACK TO change").await?;
        }
        self.execute("RELEASE change").await
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.execute("COMMIT").await
    }

    async fn rollback(&mut self) {
        // Whether the connection is still good is not known: the next transaction has a new one.
        self.connection = None;
    }

    async fn close(self) {
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::debug!(%error, "closing the writer's connection failed");
        }
    }
}
