//! The statements of a group commit. Rows go in many at a time, as arrays: one statement serves any number.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine_core::event::Event;
use engine_core::port::Clock;
use engine_core::{RunId, TenantId, Timestamp};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use super::connect::Settings;
use super::insert::{Insert, column, portions};
use super::{Connection, Row, broken, log, now, rows};
use crate::append::{Head, PreparedRun, Taken};
use crate::commit::{Begun, CheckpointRow, Database, Heads, Identity, Wanted, Writes};
use crate::page::{count, place};
use crate::retry::Failure;
use crate::stored::{self, Facts};

/// The writer's connection.
pub(super) struct Batch {
    connection: Option<Connection>,
    settings: Settings,
    outbox: bool,
    read_heads: Arc<str>,
    /// Shared with the connection that makes runs: what that has made, this one need not look for.
    heads: Arc<Mutex<Heads>>,
    /// Numbers that no run has yet.
    numbers: VecDeque<i64>,
    /// Whether the last statement was refused because what was remembered is not true: the connection is fine, and the
    /// next transaction looks for itself.
    refused: bool,
    /// Where this transaction's runs stand as far as is known, while they are not locked.
    expected: Option<Vec<Head>>,
    time: ServerTime,
}

/// The server's time, as this process reckons from when it last asked.
struct ServerTime {
    clock: Option<Arc<dyn Clock>>,
    asked: Option<(Timestamp, Instant)>,
}

impl ServerTime {
    /// So long the two clocks hardly drift apart.
    const GOOD_FOR: Duration = Duration::from_secs(1);

    fn now(&self) -> Option<Timestamp> {
        if let Some(clock) = &self.clock {
            return Some(clock.now());
        }
        let (time, asked) = self.asked?;
        let passed = asked.elapsed();
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        (passed < Self::GOOD_FOR).then(|| time.plus_millis(passed_ms))
    }

    fn set(&mut self, time: Timestamp) {
        self.asked = Some((time, Instant::now()));
    }
}

impl Batch {
    pub(super) fn new(
        connection: Connection,
        settings: Settings,
        clock: Option<Arc<dyn Clock>>,
        outbox: bool,
        heads: Arc<Mutex<Heads>>,
    ) -> Self {
        // Locked in the order of their numbers, so that two processes never wait for each other.
        let read_heads = format!(
            "SELECT {}, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint
             FROM runs r JOIN run_heads h ON h.run_no = r.run_no
             WHERE r.run_id = ANY($1) ORDER BY r.run_no FOR UPDATE OF h",
            HEAD
        );
        Self {
            connection: Some(connection),
            settings,
            outbox,
            read_heads: read_heads.into(),
            heads,
            numbers: VecDeque::new(),
            refused: false,
            expected: None,
            time: ServerTime { clock, asked: None },
        }
    }

    fn known_heads(&self) -> MutexGuard<'_, Heads> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Numbers for new runs; the server is asked for many at a time.
    async fn numbers(&mut self, count: usize) -> Result<Vec<i64>, Failure> {
        const AT_ONCE: i64 = 256;
        while self.numbers.len() < count {
            let found = sqlx::query("SELECT nextval('run_numbers') FROM generate_series(1, $1)")
                .bind(AT_ONCE)
                .fetch_all(self.connection().await?)
                .await
                .map_err(broken)?;
            for row in &found {
                self.numbers.push_back(row.try_get(0).map_err(broken)?);
            }
        }
        Ok(self.numbers.drain(..count).collect())
    }

    /// Locks the runs of this transaction, unless they are locked; refuses when they stand elsewhere than was thought.
    async fn lock(&mut self) -> Result<(), Failure> {
        let Some(expected) = self.expected.take() else { return Ok(()) };
        let runs: Vec<RunId> = expected.iter().map(|head| head.run_id.clone()).collect();
        let Begun { heads, .. } = self.begin_locked(&runs, &[]).await?;
        let same = |head: &Head| expected.iter().any(|other| other == head);
        if heads.len() == expected.len() && heads.iter().all(same) { Ok(()) } else { Err(Failure::stale()) }
    }

    /// Begins, locks these runs, and says where they stand.
    async fn begin_locked(&mut self, runs: &[RunId], identities: &[Identity]) -> Result<Begun, Failure> {
        self.execute("BEGIN").await?;
        let clock = self.time.clock.clone();
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
                known.push(identity(row)?);
            }
        }
        Ok(Begun { now: time, heads, identities: known })
    }
}

/// Where a run stands: the columns of [`HEAD`].
fn head(row: &super::Row) -> Result<Head, Failure> {
    let Facts { run_no, run_id, tenant_id, plan_version, correlation_id } = rows::facts(row, 0)?;
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

impl Database for Batch {
    async fn begin(&mut self, runs: &[RunId], identities: &[Identity]) -> Result<Begun, Failure> {
        let known: Option<Vec<Head>> = {
            let heads = self.known_heads();
            runs.iter().map(|run_id| heads.get(run_id).cloned()).collect()
        };
        let trusting = !std::mem::take(&mut self.refused);
        if let (Some(known), Some(now), true) = (known, self.time.now(), trusting) {
            self.expected = Some(known.clone());
            return Ok(Begun { now, heads: known, identities: Vec::new() });
        }
        let begun = self.begin_locked(runs, identities).await?;
        self.time.set(begun.now);
        begun.heads.iter().for_each(|head| self.known_heads().keep(head.clone()));
        Ok(begun)
    }

    async fn holders(&mut self, run_no: i64, names: Option<&[Arc<str>]>) -> Result<Taken, Failure> {
        self.lock().await?;
        let connection = self.connection().await?;
        let Some(names) = names else {
            let found = sqlx::query("SELECT takes, run_seq, event_id FROM events WHERE run_no = $1")
                .bind(run_no)
                .fetch_all(connection)
                .await
                .map_err(broken)?;
            return holders_in(&found);
        };
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let found = sqlx::query(
            // One look into the index a name: without statistics a plainer query would read the whole run.
            "SELECT w.name, e.run_seq, e.event_id FROM unnest($2::text[]) AS w (name) CROSS JOIN LATERAL
                (SELECT run_seq, event_id FROM events WHERE run_no = $1 AND takes = w.name LIMIT 1) e",
        )
        .bind(run_no)
        .bind(names)
        .fetch_all(connection)
        .await
        .map_err(broken)?;
        holders_in(&found)
    }

    fn presumes(&self) -> bool {
        // Runs that are locked already have cost a look; then their names are looked up as well.
        self.expected.is_some()
    }

    async fn create(&mut self, runs: &[&PreparedRun], _: Timestamp) -> Result<Vec<i64>, Failure> {
        self.numbers(runs.len()).await
    }

    async fn write(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        let mut portions = portions(&writes.events).peekable();
        let mut portion = portions.next().unwrap_or_default();
        let all_made = writes.made.len() == writes.heads.len();
        let at_once = then_commit
            && portions.peek().is_none()
            && writes.checkpoints.is_empty()
            && (all_made || writes.made.is_empty());
        if !at_once {
            if writes.presumes {
                self.refused = true;
                return Err(Failure::stale());
            }
            self.lock().await?;
        }
        // What is stored by one statement alone needs no other to begin and end a transaction.
        let expected = self.expected.take();
        let (channel, author) = (self.settings.channel().to_owned(), self.settings.author().to_owned());
        let insert = Insert {
            events: &[],
            heads: &[],
            changes: &[],
            runs: &[],
            made: &[],
            expected: None,
            presumed_free: &[],
            now: writes.now,
            outbox: self.outbox,
            channel: &channel,
            author: &author,
        };
        while portions.peek().is_some() {
            Insert { events: portion, ..insert }.run(self.connection().await?).await?;
            portion = portions.next().unwrap_or_default();
        }
        let Writes { heads, changes, runs, made, presumed_free, .. } = writes;
        let alone = expected.is_some();
        // Nobody can have moved a run that is new.
        let expected = expected.as_deref().filter(|_| made.is_empty());
        let stored =
            Insert { events: portion, heads, changes, runs, made, expected, presumed_free, ..insert }
                .run(self.connection().await?)
                .await;
        if let Err(failure) = stored {
            self.refused = alone && failure.stale;
            if made.is_empty() {
                self.known_heads().forget();
            }
            return Err(failure);
        }
        for (run_no, run) in made {
            self.known_heads().keep(run.head(*run_no));
        }
        for (run_no, row) in &writes.checkpoints {
            insert_checkpoint(self.connection().await?, *run_no, row, writes.now).await?;
        }
        self.known_heads().advance(writes);
        if then_commit && !alone { self.commit().await } else { Ok(()) }
    }

    async fn events(&mut self, head: &Head, wanted: Wanted) -> Result<Vec<Event>, Failure> {
        self.lock().await?;
        wanted_events(self.connection().await?, &head.into(), wanted).await
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        // Nothing was done when nothing is locked.
        if self.expected.take().is_some() { Ok(()) } else { self.execute("COMMIT").await }
    }

    async fn rollback(&mut self) {
        // Otherwise it is not known whether the connection is still good, nor what was committed: the next transaction
        // has a new one and looks for itself.
        if !self.refused {
            self.connection = None;
            self.known_heads().forget();
        }
        self.expected = None;
    }

    async fn close(self) {
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::debug!(%error, "closing the writer's connection failed");
        }
    }
}

/// The columns that say where a run stands, of tables named `r` and `h`.
const HEAD: &str = "r.run_no, r.run_id, r.tenant_id, r.plan_version, r.correlation_id, h.last_seq, \
    h.decisions, h.ended, h.fence";

/// What makes a run unique, and the run: tenant, identity, run id.
fn identity(row: &Row) -> Result<(Identity, RunId), Failure> {
    let text = |index: usize| row.try_get::<&str, _>(index).map_err(broken);
    Ok(((TenantId::new(text(0)?)?, text(1)?.into()), RunId::new(text(2)?)?))
}

/// Who holds what: rows of a slot or name, the place and the event's id.
fn holders_in(found: &[Row]) -> Result<Taken, Failure> {
    let mut taken = Taken::with_capacity(found.len());
    for row in found {
        let (run_seq, id) = (row.try_get(1).map_err(broken)?, row.try_get(2).map_err(broken)?);
        taken.insert(row.try_get::<&str, _>(0).map_err(broken)?.into(), stored::holder(run_seq, id)?);
    }
    Ok(taken)
}

/// Stores a checkpoint, for the writer.
async fn insert_checkpoint(
    connection: &mut Connection,
    run_no: i64,
    row: &CheckpointRow,
    now: Timestamp,
) -> Result<(), Failure> {
    sqlx::query(
        "INSERT INTO checkpoints (run_no, checkpoint_id, up_to_seq, size_bytes, sha256, created_at, content)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(run_no)
    .bind(row.record.checkpoint_id.as_str())
    .bind(place(row.record.up_to_seq))
    .bind(place(row.record.size_bytes))
    .bind(row.record.sha256.as_str())
    .bind(now.as_millis())
    .bind(&*row.content)
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    Ok(())
}

/// Events of a run for the writer's answers.
async fn wanted_events(
    connection: &mut Connection,
    facts: &Facts,
    wanted: Wanted,
) -> Result<Vec<Event>, Failure> {
    match wanted {
        Wanted::After(after) => log::page_of(connection, facts, after, i64::MAX).await,
        Wanted::At(run_seq) => log::page_of(connection, facts, run_seq.saturating_sub(1), 1).await,
    }
}
