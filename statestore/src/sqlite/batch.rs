//! The statements of a group commit. Rows go in many at a time: one statement a row costs more than the row.

use std::sync::Arc;

use engine_core::event::{Event, SCHEMA_VERSION};
use engine_core::port::Clock;
use engine_core::{Error, PlanVersion, RunId, TenantId, Timestamp};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection as _, Row as _, Sqlite};

use super::{Connection, broken, checkpoint, log, rows, time};
use crate::append::{Changes, Head, PreparedRun, Taken};
use crate::commit::{Begun, Change, Database, EventRow, Identity, Wanted, Writes};
use crate::page::place;
use crate::retry::Failure;

/// The most rows of one statement.
const ROWS: usize = 128;

/// Nobody else writes during a transaction, so its events have the last positions, without a gap.
const OUTBOX: &str = "INSERT INTO outbox (position, run_no, run_seq) SELECT position, run_no, run_seq FROM events \
    WHERE position > (SELECT MAX(position) FROM events) - ?";

/// Where runs stand, whether they are new or not.
const HEADS: &str = "INSERT INTO run_heads (run_no, last_seq, decisions, ended, ahead_since) VALUES ";
const HEAD_ROW: &str = "(?, ?, ?, ?, ?)";
const HEADS_END: &str = " ON CONFLICT (run_no) DO UPDATE SET last_seq = excluded.last_seq, \
    decisions = excluded.decisions, ended = excluded.ended, \
    ahead_since = CASE WHEN acted_seq < last_seq THEN ahead_since ELSE excluded.ahead_since END";

/// The writer's connection.
pub(super) struct Batch {
    connection: Connection,
    clock: Option<Arc<dyn Clock>>,
    outbox: bool,
    insert_events: Sized,
    /// Where runs stand, and nothing after it.
    write_heads: Sized,
    /// The end of a transaction: the outbox, where runs stand, and the commit, in one go.
    finish: Sized,
    insert_runs: Sized,
    /// The begin of a transaction and where runs stand, in one go.
    begin: Sized,
    read_heads: Sized,
    read_identities: Sized,
    read_names: Sized,
    read_slots: Sized,
}

/// One statement for every number of rows, prepared when it is first needed.
struct Sized(Vec<Arc<str>>);

impl Sized {
    fn new(before: &str, row: &str, after: &str) -> Self {
        let text = |rows: usize| format!("{before}{}{after}", vec![row; rows].join(", ")).into();
        Self((1..=ROWS).map(text).collect())
    }

    /// The statement for exactly this many rows.
    fn for_rows(&self, rows: usize) -> Query<'static, Sqlite, SqliteArguments> {
        sqlx::query(AssertSqlSafe(Arc::clone(&self.0[rows - 1])))
    }

    /// The statement for at least this many rows, and for how many: powers of two, so that there are few of them.
    fn for_at_least(&self, rows: usize) -> (Query<'static, Sqlite, SqliteArguments>, usize) {
        let rows = rows.next_power_of_two().min(ROWS);
        (self.for_rows(rows), rows)
    }
}

/// A short list, filled up to a size with its last value: a value twice in a list of values changes nothing.
fn filled<T>(values: &[T], size: usize) -> impl Iterator<Item = &T> {
    values.iter().chain(std::iter::repeat_n(values.last(), size - values.len()).flatten())
}

impl Batch {
    pub(super) fn new(connection: Connection, clock: Option<Arc<dyn Clock>>, outbox: bool) -> Self {
        let event = format!("(?, ?, ?, ?, ?, ?, ?, '{SCHEMA_VERSION}', ?, ?, ?, ?, ?, ?, ?)");
        // One row with all of them: the driver hands each row from one thread to another, which costs more than the row.
        let read_heads = format!(
            "SELECT json_group_array(json_array({})) FROM runs r JOIN run_heads h ON h.run_no = r.run_no \
             WHERE r.run_id IN (",
            rows::HEAD
        );
        Self {
            connection,
            clock,
            outbox,
            insert_events: Sized::new(
                "INSERT INTO events (run_no, run_seq, name, slot, event_type, event_id, idempotency_key, schema_version, \
                 emitted_at, emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload) VALUES ",
                &event,
                "",
            ),
            write_heads: Sized::new(HEADS, HEAD_ROW, HEADS_END),
            finish: Sized::new(
                &format!("{}{HEADS}", if outbox { format!("{OUTBOX}; ") } else { String::new() }),
                HEAD_ROW,
                &format!("{HEADS_END}; COMMIT"),
            ),
            insert_runs: Sized::new(
                "INSERT INTO runs (run_id, identity, tenant_id, plan_id, plan_version, plan_hash, correlation_id, \
                 source_run_id, status, created_at) VALUES ",
                "(?, ?, ?, ?, ?, ?, ?, ?, 'PENDING', ?)",
                " RETURNING run_no, run_id",
            ),
            begin: Sized::new(&format!("BEGIN IMMEDIATE; {read_heads}"), "?", ")"),
            read_heads: Sized::new(&read_heads, "?", ")"),
            // From the list to the table: the other way round every run there is would be looked at.
            read_identities: Sized::new(
                "SELECT r.tenant_id, r.identity, r.run_id FROM (VALUES ",
                "(?, ?)",
                ") v CROSS JOIN runs r ON r.tenant_id = v.column1 AND r.identity = v.column2",
            ),
            read_names: Sized::new(
                "SELECT name, run_seq, event_id FROM events WHERE run_no = ? AND name IN (",
                "?",
                ")",
            ),
            read_slots: Sized::new(
                "SELECT slot, run_seq, event_id FROM events WHERE run_no = ? AND slot IN (",
                "?",
                ")",
            ),
        }
    }

    async fn execute(&mut self, sql: &'static str) -> Result<(), Failure> {
        sqlx::query(sql).execute(&mut self.connection).await.map_err(broken)?;
        Ok(())
    }

    async fn insert_events(&mut self, events: &[EventRow<'_>], now: Timestamp) -> Result<(), Failure> {
        for portion in events.chunks(ROWS) {
            let mut query = self.insert_events.for_rows(portion.len());
            for row in portion {
                let draft = &row.entry.draft;
                let subject = draft.subject.as_ref();
                query = query
                    .bind(row.run_no)
                    .bind(place(row.run_seq))
                    .bind(row.entry.name.clone())
                    .bind(row.entry.slot.clone())
                    .bind(draft.body.type_name())
                    .bind(&row.entry.event_id.as_bytes()[..])
                    .bind(&row.key.as_bytes()[..])
                    .bind(now.as_millis())
                    .bind(row.emitted_by.clone())
                    .bind(draft.occurred_at.map(Timestamp::as_millis))
                    .bind(subject.map(|subject| subject.step.as_str()))
                    .bind(subject.map(|subject| i64::from(subject.attempt)))
                    .bind(subject.and_then(|subject| subject.engine_attempt).map(i64::from))
                    .bind(row.entry.payload.clone());
            }
            query.execute(&mut self.connection).await.map_err(broken)?;
        }
        Ok(())
    }

    /// The outbox and where runs stand, and with `then_commit` the end of the transaction.
    async fn finish(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        let stored = i64::try_from(writes.events.len()).unwrap_or(i64::MAX);
        let mut portions = writes.heads.chunks(ROWS).peekable();
        if self.outbox && !then_commit {
            sqlx::query(OUTBOX).bind(stored).execute(&mut self.connection).await.map_err(broken)?;
        }
        while let Some(portion) = portions.next() {
            let last = then_commit && portions.peek().is_none();
            let statement = if last { &self.finish } else { &self.write_heads };
            let (mut query, size) = statement.for_at_least(portion.len());
            if last && self.outbox {
                query = query.bind(stored);
            }
            for head in filled(portion, size) {
                query = query
                    .bind(head.run_no)
                    .bind(place(head.last_seq))
                    .bind(place(head.decisions))
                    .bind(head.ended)
                    .bind(writes.now.as_millis());
            }
            query.execute(&mut self.connection).await.map_err(broken)?;
        }
        Ok(())
    }

    async fn write_changes(&mut self, run_no: i64, changes: &Changes) -> Result<(), Failure> {
        sqlx::query(
            "UPDATE runs SET status = COALESCE(?, status), engine_run_ref = COALESCE(?, engine_run_ref),
             ended_at = COALESCE(?, ended_at) WHERE run_no = ?",
        )
        .bind(changes.status.map(|status| status.as_str()))
        .bind(changes.engine_run_ref.as_deref())
        .bind(changes.ended_at.map(Timestamp::as_millis))
        .bind(run_no)
        .execute(&mut self.connection)
        .await
        .map_err(broken)?;
        Ok(())
    }
}

/// Where runs stand, from the text that one row carries: the columns of [`rows::HEAD`].
fn heads_in(text: &str) -> Result<Vec<Head>, Failure> {
    type Columns = (i64, String, String, String, String, u64, u64, u8, u64);
    let found: Vec<Columns> = serde_json::from_str(text).map_err(Failure::broken)?;
    let head = |(
        run_no,
        run_id,
        tenant_id,
        plan_version,
        correlation_id,
        last_seq,
        decisions,
        ended,
        fence,
    ): Columns| {
        Ok(Head {
            run_no,
            run_id: RunId::new(run_id)?,
            tenant_id: TenantId::new(tenant_id)?,
            plan_version: PlanVersion::new(plan_version)?,
            correlation_id: correlation_id.into(),
            last_seq,
            decisions,
            ended: ended != 0,
            fence,
        })
    };
    found.into_iter().map(head).collect()
}

impl Database for Batch {
    type Connection = Connection;

    async fn begin(&mut self, runs: &[RunId], identities: &[Identity]) -> Result<Begun, Failure> {
        if runs.is_empty() {
            self.execute("BEGIN IMMEDIATE").await?;
        }
        let mut heads = Vec::with_capacity(runs.len());
        for (number, portion) in runs.chunks(ROWS).enumerate() {
            let statement = if number == 0 { &self.begin } else { &self.read_heads };
            let (mut query, size) = statement.for_at_least(portion.len());
            for run_id in filled(portion, size) {
                query = query.bind(run_id.as_str());
            }
            let found = query.fetch_all(&mut self.connection).await.map_err(broken)?;
            for row in &found {
                heads.extend(heads_in(row.try_get(0).map_err(broken)?)?);
            }
        }
        let mut known = Vec::new();
        for portion in identities.chunks(ROWS) {
            let (mut query, size) = self.read_identities.for_at_least(portion.len());
            for identity in filled(portion, size) {
                query = query.bind(identity.0.as_str()).bind(identity.1.clone());
            }
            for row in query.fetch_all(&mut self.connection).await.map_err(broken)? {
                known.push(rows::identity(&row)?);
            }
        }
        Ok(Begun { now: time(self.clock.as_deref()), heads, identities: known })
    }

    async fn holders(&mut self, run_no: i64, names: Option<&[Arc<str>]>) -> Result<Taken, Failure> {
        let mut taken = Taken::new();
        let Some(names) = names else {
            let found = sqlx::query("SELECT name, slot, run_seq, event_id FROM events WHERE run_no = ?")
                .bind(run_no)
                .fetch_all(&mut self.connection)
                .await
                .map_err(broken)?;
            for row in &found {
                rows::add_holder(&mut taken, row, 0, 2)?;
                rows::add_holder(&mut taken, row, 1, 2)?;
            }
            return Ok(taken);
        };
        let (slots, names): (Vec<Arc<str>>, Vec<Arc<str>>) =
            names.iter().cloned().partition(|name| name.starts_with('|'));
        for (statement, wanted) in [(&self.read_slots, slots), (&self.read_names, names)] {
            for portion in wanted.chunks(ROWS) {
                let (mut query, size) = statement.for_at_least(portion.len());
                query = query.bind(run_no);
                for name in filled(portion, size) {
                    query = query.bind(name.clone());
                }
                let found = query.fetch_all(&mut self.connection).await.map_err(broken)?;
                for row in &found {
                    rows::add_holder(&mut taken, row, 0, 1)?;
                }
            }
        }
        Ok(taken)
    }

    async fn create(&mut self, runs: &[&PreparedRun], now: Timestamp) -> Result<Vec<i64>, Failure> {
        let mut numbers = std::collections::HashMap::with_capacity(runs.len());
        for portion in runs.chunks(ROWS) {
            let mut query = self.insert_runs.for_rows(portion.len());
            for run in portion {
                query = query
                    .bind(run.run_id.as_str())
                    .bind(run.identity.clone())
                    .bind(run.tenant_id.as_str())
                    .bind(run.plan_id.clone())
                    .bind(run.plan_version.as_str())
                    .bind(run.plan_hash.clone())
                    .bind(run.correlation_id.clone())
                    .bind(run.source_run_id.as_ref().map(RunId::as_str))
                    .bind(now.as_millis());
            }
            for row in query.fetch_all(&mut self.connection).await.map_err(broken)? {
                let run_id: String = row.try_get(1).map_err(broken)?;
                numbers.insert(run_id, row.try_get::<i64, _>(0).map_err(broken)?);
            }
        }
        let number = |run: &&PreparedRun| numbers.get(run.run_id.as_str()).copied();
        runs.iter().map(number).collect::<Option<Vec<i64>>>().ok_or_else(lost_number)
    }

    async fn write(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        self.insert_events(&writes.events, writes.now).await?;
        for (run_no, changes) in &writes.changes {
            self.write_changes(*run_no, changes).await?;
        }
        for (run_no, row) in &writes.checkpoints {
            checkpoint::insert(&mut self.connection, *run_no, row, writes.now).await?;
        }
        self.finish(writes, then_commit).await
    }

    async fn events(&mut self, head: &Head, wanted: Wanted) -> Result<Vec<Event>, Failure> {
        log::wanted(&mut self.connection, &head.into(), wanted).await
    }

    async fn change(&mut self, change: &mut dyn Change<Connection>, now: Timestamp) -> Result<(), Failure> {
        self.execute("SAVEPOINT change").await?;
        change.apply(&mut self.connection, now).await?;
        if change.is_refused() {
            self.execute("ROLLBACK TO change").await?;
        }
        self.execute("RELEASE change").await
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.execute("COMMIT").await
    }

    async fn rollback(&mut self) {
        // It fails when nothing was begun, and then there is nothing to give up.
        let _ = self.execute("ROLLBACK").await;
    }

    async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::debug!(%error, "closing the writer's connection failed");
        }
    }
}

fn lost_number() -> Failure {
    Failure::from(Error::new(engine_core::Code::Internal, "the database gave a new run no number"))
}
