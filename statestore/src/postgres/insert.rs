//! The statement that stores a group: events, where runs stand, what waits for the bus, what changes about runs, and
//! telling who listens, in one go.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use engine_core::event::SCHEMA_VERSION;
use engine_core::port::store::NewLease;
use engine_core::{RunId, Timestamp};
use sqlx::AssertSqlSafe;

use super::{Connection, broken};
use crate::append::{Changes, Head, PreparedRun};
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
    /// Runs that are new themselves.
    pub(super) made: &'a [(i64, &'a PreparedRun)],
    /// Where the runs must stand, or nothing is stored; they are locked already when there is none.
    pub(super) expected: Option<&'a [Head]>,
    /// Names that must not be taken, or nothing is stored; only where it is said where the runs stand.
    pub(super) presumed_free: &'a [(i64, &'a Arc<str>)],
    pub(super) now: Timestamp,
    pub(super) outbox: bool,
    pub(super) channel: &'a str,
    /// Who stores, for who listens.
    pub(super) author: &'a str,
}

/// Moves heads on that stand where they are expected to. Their numbers are in order and the plan keeps it, so two
/// processes never wait for each other. One that stands elsewhere makes the statement fail, see [`REST`].
const MOVE: &str = "WITH moved AS (
        UPDATE run_heads h SET last_seq = u.last_seq, decisions = u.decisions, ended = u.ended,
            waiting_since = COALESCE(h.waiting_since, CASE WHEN $23 THEN $22 END),
            ahead_since = CASE WHEN h.acted_seq < h.last_seq THEN h.ahead_since ELSE $22 END
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[])
            AS u (run_no, last_seq, decisions, ended, was_seq, were_decisions, fence)
        WHERE h.run_no = u.run_no AND h.last_seq = u.was_seq AND h.decisions = u.were_decisions
            AND h.fence = u.fence AND NOT h.ended
        RETURNING 1
    ), agreed AS (
        SELECT count(*) = cardinality($1) AND NOT EXISTS (
            SELECT FROM unnest($31::bigint[], $32::text[]) AS w (run_no, takes) CROSS JOIN LATERAL
                (SELECT FROM events e WHERE e.run_no = w.run_no AND e.takes = w.takes LIMIT 1) taken
        ) AS yes FROM moved
    )";

/// Writes heads that are locked, or new; new ones may have a lease.
const WRITE: &str = "WITH moved AS (
        INSERT INTO run_heads AS h (run_no, last_seq, decisions, ended, ahead_since, waiting_since,
            fence, lease_holder, lease_until)
        SELECT u.run_no, u.last_seq, u.decisions, u.ended, $22, CASE WHEN $23 THEN $22 END,
            CASE WHEN u.lease_holder IS NULL THEN 0 ELSE 1 END, u.lease_holder, u.lease_until
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $29::text[], $30::bigint[])
            AS u (run_no, last_seq, decisions, ended, lease_holder, lease_until)
        ON CONFLICT (run_no) DO UPDATE SET last_seq = excluded.last_seq, decisions = excluded.decisions,
            ended = excluded.ended, waiting_since = COALESCE(h.waiting_since, excluded.waiting_since),
            ahead_since = CASE WHEN h.acted_seq < h.last_seq THEN h.ahead_since ELSE excluded.ahead_since END
    ), agreed AS (
        SELECT TRUE AS yes
    )";

/// Makes runs. One that is there already, by its identity, makes the statement fail.
const MAKE: &str = ", made AS (
        INSERT INTO runs (run_no, run_id, identity, tenant_id, plan_id, plan_version, plan_hash, correlation_id,
            source_run_id, status, created_at)
        SELECT u.run_no, u.run_id, u.identity, u.tenant_id, u.plan_id, u.plan_version, u.plan_hash, u.correlation_id,
            u.source_run_id, 'PENDING', $22
        FROM unnest($31::bigint[], $32::text[], $33::text[], $34::text[], $35::text[], $36::text[], $37::text[],
            $38::text[], $39::text[]) AS u (run_no, run_id, identity, tenant_id, plan_id, plan_version, plan_hash,
            correlation_id, source_run_id)
        ORDER BY u.tenant_id, u.identity
    )";

/// Everything else. Dividing by nothing is what undoes it all when the runs stand elsewhere.
const REST: &str = ", stored AS (
        INSERT INTO events (run_no, run_seq, takes, event_type, event_id, idempotency_key, schema_version,
            emitted_at, emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload)
        SELECT u.run_no, u.run_seq, u.takes, u.event_type, u.event_id, u.idempotency_key, $20,
            $22, u.emitted_by, u.occurred_at, u.step_id, u.logical_attempt, u.engine_attempt, u.payload
        FROM unnest($8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bytea[], $13::bytea[],
            $14::text[], $15::bigint[], $16::text[], $17::bigint[], $18::bigint[], $19::text[])
            AS u (run_no, run_seq, takes, event_type, event_id, idempotency_key, emitted_by, occurred_at,
            step_id, logical_attempt, engine_attempt, payload)
        WHERE (SELECT yes FROM agreed)
    ), changed AS (
        UPDATE runs r SET status = COALESCE(u.status, r.status),
            engine_run_ref = COALESCE(u.engine_run_ref, r.engine_run_ref),
            ended_at = COALESCE(u.ended_at, r.ended_at)
        FROM unnest($24::bigint[], $25::text[], $26::text[], $27::bigint[])
            AS u (run_no, status, engine_run_ref, ended_at)
        WHERE r.run_no = u.run_no AND (SELECT yes FROM agreed)
    ), told AS (
        SELECT pg_notify($21, told) FROM unnest($28::text[]) AS told WHERE (SELECT yes FROM agreed)
    )
    SELECT 1 / yes::int, (SELECT count(*) FROM told) FROM agreed";

/// Moves heads on and stores their events.
static MOVE_AND_STORE: LazyLock<Arc<str>> = LazyLock::new(|| format!("{MOVE}{REST}").into());
/// Writes heads and stores their events.
static WRITE_AND_STORE: LazyLock<Arc<str>> = LazyLock::new(|| format!("{WRITE}{REST}").into());
/// Makes runs and stores their first events.
static MAKE_AND_STORE: LazyLock<Arc<str>> = LazyLock::new(|| format!("{WRITE}{MAKE}{REST}").into());

/// The state of SQL when something is divided by nothing.
const DIVISION_BY_ZERO: &str = "22012";
/// What keeps a run from being made twice.
const IDENTITY: &str = "runs_by_identity";
/// What keeps a name from being taken twice.
const TAKES: &str = "events_by_takes";

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
        let (events, heads, changes) = (self.events, self.heads, self.changes);
        let (expected, statement) = match self.expected {
            Some(expected) => (in_order_of(heads, expected), &*MOVE_AND_STORE),
            None if self.made.is_empty() => (Vec::new(), &*WRITE_AND_STORE),
            None => (Vec::new(), &*MAKE_AND_STORE),
        };
        let lease_of: HashMap<i64, &NewLease> =
            self.made.iter().filter_map(|(run_no, run)| Some((*run_no, run.lease.as_ref()?))).collect();
        let lease = |head: &HeadRow| lease_of.get(&head.run_no);
        let lease_until = |lease: &&NewLease| self.now.plus_millis(lease.duration_ms).as_millis();
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(statement)))
            .bind(column(heads, |head| head.run_no))
            .bind(column(heads, |head| place(head.last_seq)))
            .bind(column(heads, |head| place(head.decisions)))
            .bind(column(heads, |head| head.ended))
            .bind(column(&expected, |head| place(head.last_seq)))
            .bind(column(&expected, |head| place(head.decisions)))
            .bind(column(&expected, |head| place(head.fence)))
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
            .bind(self.channel)
            .bind(self.now.as_millis())
            .bind(self.outbox)
            .bind(column(changes, |(run_no, _)| *run_no))
            .bind(column(changes, |(_, changes)| changes.status.map(|status| status.as_str())))
            .bind(column(changes, |(_, changes)| changes.engine_run_ref.as_deref()))
            .bind(column(changes, |(_, changes)| changes.ended_at.map(Timestamp::as_millis)))
            .bind(told)
            .bind(column(heads, |head| lease(head).map(|lease| lease.holder.as_str())))
            .bind(column(heads, |head| lease(head).map_or(0, lease_until)));
        if self.expected.is_some() {
            query = query
                .bind(column(self.presumed_free, |(run_no, _)| *run_no))
                .bind(column(self.presumed_free, |(_, name)| &***name));
        }
        if !self.made.is_empty() {
            let made = self.made;
            query = query
                .bind(column(made, |(run_no, _)| *run_no))
                .bind(column(made, |(_, run)| run.run_id.as_str()))
                .bind(column(made, |(_, run)| &*run.identity))
                .bind(column(made, |(_, run)| run.tenant_id.as_str()))
                .bind(column(made, |(_, run)| &*run.plan_id))
                .bind(column(made, |(_, run)| run.plan_version.as_str()))
                .bind(column(made, |(_, run)| &*run.plan_hash))
                .bind(column(made, |(_, run)| &*run.correlation_id))
                .bind(column(made, |(_, run)| run.source_run_id.as_ref().map(RunId::as_str)));
        }
        let presumed = self.expected.is_some();
        query.execute(connection).await.map_err(|error| refused(error, presumed))?;
        Ok(())
    }
}

/// What an error of the statement means; `presumed` when nobody has looked where the runs stand.
fn refused(error: sqlx::Error, presumed: bool) -> Failure {
    let sqlx::Error::Database(refusal) = &error else { return broken(error) };
    let stale = match refusal.constraint() {
        Some(IDENTITY) => true,
        Some(TAKES) => presumed,
        _ => refusal.code().is_some_and(|code| code == DIVISION_BY_ZERO),
    };
    if stale { Failure::stale() } else { broken(error) }
}

/// Where the runs of these rows stand as far as is known, in the order of the rows.
fn in_order_of<'a>(rows: &[HeadRow], heads: &'a [Head]) -> Vec<&'a Head> {
    let by_number: HashMap<i64, &Head> = heads.iter().map(|head| (head.run_no, head)).collect();
    rows.iter().filter_map(|row| by_number.get(&row.run_no).copied()).collect()
}

/// One column of many rows.
pub(super) fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Events in portions of a size that is still built and sent at one go.
pub(super) fn portions<'a, 'e>(mut events: &'a [EventRow<'e>]) -> impl Iterator<Item = &'a [EventRow<'e>]> {
    /// About what a row has besides its texts.
    const ROW_BYTES: usize = 200;
    const PORTION_BYTES: usize = 1024 * 1024;
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
