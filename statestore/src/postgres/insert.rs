//! The statement that stores a group: events and their rows in the outbox, where runs stand, what changes about them,
//! and telling who listens, in one go.

use engine_core::event::SCHEMA_VERSION;
use engine_core::{RunId, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::{Connection, broken};
use crate::append::{Changes, Head};
use crate::commit::{EventRow, HeadRow};
use crate::page::place;
use crate::retry::Failure;

/// Runs told of in one message; Postgres takes up to 8000 bytes, and a run id has at most 128.
const TOLD_AT_ONCE: usize = 55;

/// Everything that a statement stores.
pub(super) struct Insert<'a> {
    pub(super) events: &'a [EventRow<'a>],
    pub(super) heads: &'a [HeadRow],
    pub(super) changes: &'a [(i64, Changes)],
    /// Runs with new events, for who listens.
    pub(super) runs: &'a [RunId],
    /// Where these runs must stand, or nothing is stored; they are locked already when there is none.
    pub(super) expected: &'a [Head],
    pub(super) now: Timestamp,
    pub(super) outbox: bool,
    pub(super) channel: &'a str,
    /// Who stores, for who listens.
    pub(super) author: &'a str,
}

/// Locked in the order of their numbers, so that two processes never wait for each other.
const STATEMENT: &str = "WITH held AS (
        SELECT h.run_no FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
            AS x (run_no, last_seq, decisions, fence)
        JOIN run_heads h ON h.run_no = x.run_no
        WHERE h.last_seq = x.last_seq AND h.decisions = x.decisions AND h.fence = x.fence AND NOT h.ended
        ORDER BY h.run_no FOR UPDATE OF h
    ), agreed AS (
        SELECT count(*) = cardinality($1) AS yes FROM held
    ), stored AS (
        INSERT INTO events (run_no, run_seq, takes, event_type, event_id, idempotency_key, schema_version,
            emitted_at, emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload)
        SELECT u.run_no, u.run_seq, u.takes, u.event_type, u.event_id, u.idempotency_key, $17,
            $18, u.emitted_by, u.occurred_at, u.step_id, u.logical_attempt, u.engine_attempt, u.payload
        FROM unnest($5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bytea[], $10::bytea[],
            $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::text[])
            AS u (run_no, run_seq, takes, event_type, event_id, idempotency_key, emitted_by, occurred_at,
            step_id, logical_attempt, engine_attempt, payload)
        WHERE (SELECT yes FROM agreed)
        RETURNING position, run_no, run_seq
    ), waiting AS (
        INSERT INTO outbox (position, run_no, run_seq) SELECT position, run_no, run_seq FROM stored WHERE $19
    ), moved AS (
        INSERT INTO run_heads AS h (run_no, last_seq, decisions, ended, ahead_since)
        SELECT u.run_no, u.last_seq, u.decisions, u.ended, $18
        FROM unnest($20::bigint[], $21::bigint[], $22::bigint[], $23::boolean[])
            AS u (run_no, last_seq, decisions, ended)
        WHERE (SELECT yes FROM agreed)
        ON CONFLICT (run_no) DO UPDATE SET last_seq = excluded.last_seq, decisions = excluded.decisions,
            ended = excluded.ended,
            ahead_since = CASE WHEN h.acted_seq < h.last_seq THEN h.ahead_since ELSE excluded.ahead_since END
    ), changed AS (
        UPDATE runs r SET status = COALESCE(u.status, r.status),
            engine_run_ref = COALESCE(u.engine_run_ref, r.engine_run_ref),
            ended_at = COALESCE(u.ended_at, r.ended_at)
        FROM unnest($24::bigint[], $25::text[], $26::text[], $27::bigint[])
            AS u (run_no, status, engine_run_ref, ended_at)
        WHERE r.run_no = u.run_no AND (SELECT yes FROM agreed)
    ), told AS (
        SELECT pg_notify($28, told) FROM unnest($29::text[]) AS told WHERE (SELECT yes FROM agreed)
    )
    SELECT yes, (SELECT count(*) FROM told) FROM agreed";

impl Insert<'_> {
    /// Stores it.
    ///
    /// # Errors
    /// A stale failure when the runs do not stand where they are expected to: nothing is stored then.
    pub(super) async fn run(&self, connection: &mut Connection) -> Result<(), Failure> {
        let told: Vec<String> = self
            .runs
            .chunks(TOLD_AT_ONCE)
            .map(|runs| {
                let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
                format!("e{}:{}", self.author, runs.join(","))
            })
            .collect();
        let (expected, events, heads, changes) = (self.expected, self.events, self.heads, self.changes);
        let row = sqlx::query(AssertSqlSafe(STATEMENT))
            .bind(column(expected, |head| head.run_no))
            .bind(column(expected, |head| place(head.last_seq)))
            .bind(column(expected, |head| place(head.decisions)))
            .bind(column(expected, |head| place(head.fence)))
            .bind(column(events, |row| row.run_no))
            .bind(column(events, |row| place(row.run_seq)))
            .bind(column(events, |row| &*row.entry.takes))
            .bind(column(events, |row| row.entry.draft.body.type_name()))
            .bind(column(events, |row| &row.entry.event_id.as_bytes()[..]))
            .bind(column(events, |row| &row.key.as_bytes()[..]))
            .bind(column(events, |row| &**row.emitted_by))
            .bind(column(events, |row| row.entry.draft.occurred_at.map(Timestamp::as_millis)))
            .bind(column(events, |row| row.entry.draft.subject.as_ref().map(|subject| subject.step.as_str())))
            .bind(column(events, |row| {
                row.entry.draft.subject.as_ref().map(|subject| i64::from(subject.attempt))
            }))
            .bind(column(events, |row| {
                row.entry.draft.subject.as_ref().and_then(|subject| subject.engine_attempt).map(i64::from)
            }))
            .bind(column(events, |row| &*row.entry.payload))
            .bind(SCHEMA_VERSION)
            .bind(self.now.as_millis())
            .bind(self.outbox)
            .bind(column(heads, |head| head.run_no))
            .bind(column(heads, |head| place(head.last_seq)))
            .bind(column(heads, |head| place(head.decisions)))
            .bind(column(heads, |head| head.ended))
            .bind(column(changes, |(run_no, _)| *run_no))
            .bind(column(changes, |(_, changes)| changes.status.map(|status| status.as_str())))
            .bind(column(changes, |(_, changes)| changes.engine_run_ref.as_deref()))
            .bind(column(changes, |(_, changes)| changes.ended_at.map(Timestamp::as_millis)))
            .bind(self.channel)
            .bind(told)
            .fetch_one(connection)
            .await
            .map_err(broken)?;
        if row.try_get(0).map_err(broken)? { Ok(()) } else { Err(Failure::stale()) }
    }
}

/// One column of many rows.
pub(super) fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Events in portions that a local connection sends at once. The driver does not switch off the delay of small packets
/// (TCP_NODELAY), so the rest of a larger message waits until the server confirms the beginning, which takes it 40 ms.
pub(super) fn portions<'a, 'e>(mut events: &'a [EventRow<'e>]) -> impl Iterator<Item = &'a [EventRow<'e>]> {
    /// About what a row has besides its texts.
    const ROW_BYTES: usize = 200;
    const PORTION_BYTES: usize = 60 * 1024;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |row: &EventRow<'_>| {
            bytes += ROW_BYTES + row.entry.payload.len() + 2 * row.entry.takes.len() + row.emitted_by.len();
            bytes <= PORTION_BYTES
        };
        let count = events.iter().take_while(|row| fits(row)).count();
        let (portion, rest) = events.split_at(count.max(1).min(events.len()));
        events = rest;
        (!portion.is_empty()).then_some(portion)
    })
}
