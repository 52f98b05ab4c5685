//! The statements of a group commit. They run on a thread of their own, straight on SQLite: handing each statement to
//! another thread, as the driver of the other connections does, costs more than the statement.

use std::sync::Arc;

use engine_core::event::{Event, SCHEMA_VERSION};
use engine_core::port::Clock;
use engine_core::{PlanVersion, RunId, TenantId, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::connect::refused;
use super::time;
use super::turn::Turn;
use crate::append::{Changes, Head, PreparedRun, Taken};
use crate::commit::{Begun, CheckpointRow, Database, EventRow, HeadRow, Heads, Identity, Wanted, Writes};
use crate::page::{count, place};
use crate::retry::Failure;
use crate::stored::{self, EVENT, EventColumns, Facts};

/// The most rows of one statement.
const ROWS: usize = 64;
/// Parameters of a row of the log.
const COLUMNS: usize = 13;

/// Where a run stands, whether it is new or not.
const WRITE_HEAD: &str = "INSERT INTO run_heads (run_no, last_seq, decisions, ended, ahead_since, waiting_since) \
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run_no) DO UPDATE SET last_seq = excluded.last_seq, \
    decisions = excluded.decisions, ended = excluded.ended, \
    waiting_since = COALESCE(waiting_since, excluded.waiting_since), \
    ahead_since = CASE WHEN acted_seq < last_seq THEN ahead_since ELSE excluded.ahead_since END";

/// The lease that a run is made with.
const WRITE_LEASE: &str =
    "UPDATE run_heads SET fence = 1, lease_holder = ?, lease_until = ? WHERE run_no = ?";

const READ_HEAD: &str = "SELECT r.run_no, r.tenant_id, r.plan_version, r.correlation_id, h.last_seq, h.decisions, \
    h.ended, h.fence FROM runs r JOIN run_heads h ON h.run_no = r.run_no WHERE r.run_id = ?";

const INSERT_RUN: &str = "INSERT INTO runs (run_id, identity, tenant_id, plan_id, plan_version, plan_hash, \
    correlation_id, source_run_id, status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'PENDING', ?)";

const WRITE_CHANGES: &str = "UPDATE runs SET status = COALESCE(?, status), \
    engine_run_ref = COALESCE(?, engine_run_ref), ended_at = COALESCE(?, ended_at) WHERE run_no = ?";

const INSERT_CHECKPOINT: &str = "INSERT INTO checkpoints \
    (run_no, checkpoint_id, up_to_seq, size_bytes, sha256, created_at, content) VALUES (?, ?, ?, ?, ?, ?, ?)";

/// The connection that writes the log.
pub(super) struct Batch {
    connection: Connection,
    clock: Option<Arc<dyn Clock>>,
    outbox: bool,
    turn: Turn,
    heads: Heads,
    /// SQLite's number that changes when another connection has written: while it stays, `heads` are true.
    version: i64,
    /// Statements for 1, 2, 4, … rows.
    insert_events: Vec<String>,
    read_events: String,
}

impl Batch {
    pub(super) fn new(
        connection: Connection,
        clock: Option<Arc<dyn Clock>>,
        outbox: bool,
        turn: Turn,
    ) -> Self {
        let row = format!("(?, ?, ?, ?, ?, ?, '{SCHEMA_VERSION}', ?, ?, ?, ?, ?, ?, ?)");
        let insert_events = |rows: usize| {
            format!(
                "INSERT OR FAIL INTO events (run_no, run_seq, takes, event_type, event_id, idempotency_key, \
                 schema_version, emitted_at, emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, \
                 payload) VALUES {}",
                vec![row.as_str(); rows].join(", ")
            )
        };
        Self {
            connection,
            clock,
            outbox,
            turn,
            heads: Heads::default(),
            version: 0,
            insert_events: (0..=ROWS.ilog2()).map(|power| insert_events(1 << power)).collect(),
            read_events: format!(
                "SELECT {EVENT} FROM events e WHERE e.run_no = ? AND e.run_seq > ? ORDER BY e.run_seq LIMIT ?"
            ),
        }
    }

    fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, Failure> {
        self.connection.prepare_cached(sql).map_err(refused)
    }

    fn execute(&self, sql: &str) -> Result<(), Failure> {
        self.statement(sql)?.execute([]).map_err(refused)?;
        Ok(())
    }

    fn read_head(&self, run_id: &RunId) -> Result<Option<Head>, Failure> {
        let mut statement = self.statement(READ_HEAD)?;
        let head = |row: &Row<'_>| -> rusqlite::Result<Result<Head, Failure>> {
            let head = || {
                Ok(Head {
                    run_no: row.get(0).map_err(refused)?,
                    run_id: run_id.clone(),
                    tenant_id: TenantId::new(row.get::<_, String>(1).map_err(refused)?)?,
                    plan_version: PlanVersion::new(row.get::<_, String>(2).map_err(refused)?)?,
                    correlation_id: row.get::<_, Arc<str>>(3).map_err(refused)?,
                    last_seq: count(row.get(4).map_err(refused)?),
                    decisions: count(row.get(5).map_err(refused)?),
                    ended: row.get(6).map_err(refused)?,
                    fence: count(row.get(7).map_err(refused)?),
                })
            };
            Ok(head())
        };
        statement.query_row([run_id.as_str()], head).optional().map_err(refused)?.transpose()
    }

    fn insert_events(&self, mut events: &[EventRow<'_>], now: Timestamp) -> Result<(), Failure> {
        while !events.is_empty() {
            let power = events.len().min(ROWS).ilog2();
            let (portion, rest) = events.split_at(1 << power);
            let mut statement = self.statement(&self.insert_events[power as usize])?;
            for (number, row) in portion.iter().enumerate() {
                bind_event(&mut statement, number * COLUMNS, row, now).map_err(refused)?;
            }
            statement.raw_execute().map_err(refused)?;
            events = rest;
        }
        Ok(())
    }

    fn write_head(&self, head: &HeadRow, now: Timestamp) -> Result<(), Failure> {
        let (now, since) = (now.as_millis(), self.outbox.then(|| now.as_millis()));
        let values =
            params![head.run_no, place(head.last_seq), place(head.decisions), head.ended, now, since];
        self.statement(WRITE_HEAD)?.execute(values).map_err(refused)?;
        Ok(())
    }

    fn write_changes(&self, run_no: i64, changes: &Changes) -> Result<(), Failure> {
        let values = params![
            changes.status.map(|status| status.as_str()),
            changes.engine_run_ref.as_deref(),
            changes.ended_at.map(Timestamp::as_millis),
            run_no
        ];
        self.statement(WRITE_CHANGES)?.execute(values).map_err(refused)?;
        Ok(())
    }

    fn insert_checkpoint(&self, run_no: i64, row: &CheckpointRow, now: Timestamp) -> Result<(), Failure> {
        let values = params![
            run_no,
            row.record.checkpoint_id.as_str(),
            place(row.record.up_to_seq),
            place(row.record.size_bytes),
            row.record.sha256,
            now.as_millis(),
            &*row.content
        ];
        self.statement(INSERT_CHECKPOINT)?.execute(values).map_err(refused)?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.execute("COMMIT")?;
        self.turn.give_back();
        Ok(())
    }
}

fn bind_event(
    statement: &mut CachedStatement<'_>,
    before: usize,
    row: &EventRow<'_>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let draft = &row.entry.draft;
    let subject = draft.subject.as_ref();
    let mut bind = {
        let mut index = before;
        move |value: &dyn rusqlite::ToSql| {
            index += 1;
            statement.raw_bind_parameter(index, value)
        }
    };
    bind(&row.run_no)?;
    bind(&place(row.run_seq))?;
    bind(&&*row.entry.takes)?;
    bind(&draft.body.type_name())?;
    bind(&&row.entry.event_id.as_bytes()[..])?;
    bind(&&row.key.as_bytes()[..])?;
    bind(&now.as_millis())?;
    bind(&&**row.emitted_by)?;
    bind(&draft.occurred_at.map(Timestamp::as_millis))?;
    bind(&subject.map(|subject| subject.step.as_str()))?;
    bind(&subject.map(|subject| i64::from(subject.attempt)))?;
    bind(&subject.and_then(|subject| subject.engine_attempt).map(i64::from))?;
    bind(&&*row.entry.payload)
}

fn event(row: &Row<'_>, facts: &Facts) -> Result<Event, Failure> {
    let columns = || -> rusqlite::Result<EventColumns<'_>> {
        Ok(EventColumns {
            run_seq: row.get(0)?,
            event_type: row.get_ref(1)?.as_str()?,
            event_id: row.get_ref(2)?.as_blob()?,
            idempotency_key: row.get_ref(3)?.as_blob()?,
            schema_version: row.get_ref(4)?.as_str()?,
            emitted_at: row.get(5)?,
            emitted_by: row.get_ref(6)?.as_str()?,
            occurred_at: row.get(7)?,
            step_id: row.get_ref(8)?.as_str_or_null()?,
            logical_attempt: row.get(9)?,
            engine_attempt: row.get(10)?,
            payload: row.get_ref(11)?.as_str()?,
        })
    };
    columns().map_err(refused)?.into_event(facts)
}

/// Adds who holds a slot or name: the place and the event's id are in the two columns from `first` on.
fn add_holder(taken: &mut Taken, name: Arc<str>, row: &Row<'_>, first: usize) -> Result<(), Failure> {
    let id = row.get_ref(first + 1).map_err(refused)?.as_blob().map_err(|error| refused(error.into()))?;
    taken.insert(name, stored::holder(row.get(first).map_err(refused)?, id)?);
    Ok(())
}

impl Database for Batch {
    async fn begin(&mut self, runs: &[RunId], identities: &[Identity]) -> Result<Begun, Failure> {
        self.turn.take().await;
        self.execute("BEGIN IMMEDIATE")?;
        let version = self.statement("PRAGMA data_version")?.query_row([], |row| row.get(0));
        let version: i64 = version.map_err(refused)?;
        if version != self.version {
            self.heads.forget();
            self.version = version;
        }
        let mut heads = Vec::with_capacity(runs.len());
        for run_id in runs {
            if let Some(head) = self.heads.get(run_id) {
                heads.push(head.clone());
            } else if let Some(head) = self.read_head(run_id)? {
                self.heads.keep(head.clone());
                heads.push(head);
            }
        }
        let mut known = Vec::new();
        for identity in identities {
            let sql = "SELECT run_id FROM runs WHERE tenant_id = ? AND identity = ?";
            let run_id: Option<String> = self
                .statement(sql)?
                .query_row(params![identity.0.as_str(), &*identity.1], |row| row.get(0))
                .optional()
                .map_err(refused)?;
            if let Some(run_id) = run_id {
                known.push((identity.clone(), RunId::new(run_id)?));
            }
        }
        Ok(Begun { now: time(self.clock.as_deref()), heads, identities: known })
    }

    async fn holders(&mut self, run_no: i64, names: Option<&[Arc<str>]>) -> Result<Taken, Failure> {
        let mut taken = Taken::new();
        let Some(names) = names else {
            let sql = "SELECT takes, run_seq, event_id FROM events WHERE run_no = ?";
            let mut statement = self.statement(sql)?;
            let mut rows = statement.query([run_no]).map_err(refused)?;
            while let Some(row) = rows.next().map_err(refused)? {
                add_holder(&mut taken, row.get(0).map_err(refused)?, row, 1)?;
            }
            return Ok(taken);
        };
        for name in names {
            let sql = "SELECT run_seq, event_id FROM events WHERE run_no = ? AND takes = ?";
            let mut statement = self.statement(sql)?;
            let mut rows = statement.query(params![run_no, &**name]).map_err(refused)?;
            if let Some(row) = rows.next().map_err(refused)? {
                add_holder(&mut taken, Arc::clone(name), row, 0)?;
            }
        }
        Ok(taken)
    }

    async fn create(&mut self, runs: &[&PreparedRun], now: Timestamp) -> Result<Vec<i64>, Failure> {
        let mut numbers = Vec::with_capacity(runs.len());
        for run in runs {
            let values = params![
                run.run_id.as_str(),
                &*run.identity,
                run.tenant_id.as_str(),
                &*run.plan_id,
                run.plan_version.as_str(),
                &*run.plan_hash,
                &*run.correlation_id,
                run.source_run_id.as_ref().map(RunId::as_str),
                now.as_millis()
            ];
            let run_no = self.statement(INSERT_RUN)?.insert(values).map_err(refused)?;
            self.heads.keep(run.head(run_no));
            numbers.push(run_no);
        }
        Ok(numbers)
    }

    async fn write(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        self.insert_events(&writes.events, writes.now)?;
        for head in &writes.heads {
            self.write_head(head, writes.now)?;
        }
        for (run_no, lease) in
            writes.made.iter().filter_map(|(run_no, run)| Some((run_no, run.lease.as_ref()?)))
        {
            let until = writes.now.plus_millis(lease.duration_ms).as_millis();
            let values = params![lease.holder, until, run_no];
            self.statement(WRITE_LEASE)?.execute(values).map_err(refused)?;
        }
        for (run_no, changes) in &writes.changes {
            self.write_changes(*run_no, changes)?;
        }
        for (run_no, row) in &writes.checkpoints {
            self.insert_checkpoint(*run_no, row, writes.now)?;
        }
        self.heads.advance(writes);
        if then_commit { self.end() } else { Ok(()) }
    }

    async fn events(&mut self, head: &Head, wanted: Wanted) -> Result<Vec<Event>, Failure> {
        let (after, limit) = match wanted {
            Wanted::After(after) => (after, i64::MAX),
            Wanted::At(run_seq) => (run_seq.saturating_sub(1), 1),
        };
        let facts = Facts::from(head);
        let mut statement = self.statement(&self.read_events)?;
        let mut rows = statement.query(params![facts.run_no, place(after), limit]).map_err(refused)?;
        let mut events = Vec::new();
        while let Some(row) = rows.next().map_err(refused)? {
            events.push(event(row, &facts)?);
        }
        Ok(events)
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.end()
    }

    async fn rollback(&mut self) {
        // What was remembered may have been undone.
        self.heads.forget();
        // It fails when nothing was begun, and then there is nothing to give up.
        let _ = self.execute("ROLLBACK");
        self.turn.give_back();
    }

    async fn close(self) {
        if let Err((_, error)) = self.connection.close() {
            tracing::debug!(%error, "closing the writer's connection failed");
        }
    }
}
