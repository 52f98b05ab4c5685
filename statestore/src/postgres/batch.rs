//! The statements of a group commit. Rows go in many at a time, as arrays: one statement serves any number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_core::event::Event;
use engine_core::port::Clock;
use engine_core::port::store::NewLease;
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
    heads: Heads,
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
            heads: Heads::default(),
            expected: None,
            time: ServerTime { clock, asked: None },
        }
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

    /// Leases that new runs are made with.
    async fn write_leases(&mut self, leases: &[(i64, &NewLease)], now: Timestamp) -> Result<(), Failure> {
        sqlx::query(
            "UPDATE run_heads h SET fence = 1, lease_holder = u.holder, lease_until = u.until
             FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (run_no, holder, until)
             WHERE h.run_no = u.run_no",
        )
        .bind(column(leases, |(run_no, _)| *run_no))
        .bind(column(leases, |(_, lease)| lease.holder.as_str()))
        .bind(column(leases, |(_, lease)| now.plus_millis(lease.duration_ms).as_millis()))
        .execute(self.connection().await?)
        .await
        .map_err(broken)?;
        Ok(())
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
        let known: Option<Vec<Head>> = runs.iter().map(|run_id| self.heads.get(run_id).cloned()).collect();
        if let (Some(known), Some(now), true) = (known, self.time.now(), identities.is_empty()) {
            self.expected = Some(known.clone());
            return Ok(Begun { now, heads: known, identities: Vec::new() });
        }
        let begun = self.begin_locked(runs, identities).await?;
        self.time.set(begun.now);
        begun.heads.iter().for_each(|head| self.heads.keep(head.clone()));
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

    async fn create(&mut self, runs: &[&PreparedRun], now: Timestamp) -> Result<Vec<i64>, Failure> {
        self.lock().await?;
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
        let numbers: Vec<i64> = runs.iter().map(number).collect::<Option<_>>().ok_or_else(made)?;
        runs.iter().zip(&numbers).for_each(|(run, run_no)| self.heads.keep(run.head(*run_no)));
        Ok(numbers)
    }

    async fn write(&mut self, writes: &Writes<'_>, then_commit: bool) -> Result<(), Failure> {
        let mut portions = portions(&writes.events).peekable();
        let mut portion = portions.next().unwrap_or_default();
        let at_once = then_commit && portions.peek().is_none() && writes.checkpoints.is_empty();
        if !at_once {
            self.lock().await?;
        }
        // What is stored by one statement alone needs no other to begin and end a transaction.
        let expected = self.expected.take();
        let (now, outbox, channel) = (writes.now, self.outbox, self.settings.channel().to_owned());
        let channel = channel.as_str();
        while portions.peek().is_some() {
            let (heads, changes, runs, expected) = (&[][..], &[][..], &[][..], &[][..]);
            let part = Insert { events: portion, heads, changes, runs, expected, now, outbox, channel };
            part.run(self.connection().await?).await?;
            portion = portions.next().unwrap_or_default();
        }
        let Writes { heads, changes, runs, .. } = writes;
        let alone = expected.is_some();
        let expected = expected.as_deref().unwrap_or_default();
        let last = Insert { events: portion, heads, changes, runs, expected, now, outbox, channel };
        last.run(self.connection().await?).await?;
        if !writes.leases.is_empty() {
            self.write_leases(&writes.leases, writes.now).await?;
        }
        for (run_no, row) in &writes.checkpoints {
            insert_checkpoint(self.connection().await?, *run_no, row, writes.now).await?;
        }
        self.heads.advance(writes);
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
        // Whether the connection is still good is not known, nor what was committed: the next transaction has a new one
        // and looks for itself.
        self.connection = None;
        self.expected = None;
        self.heads.forget();
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
