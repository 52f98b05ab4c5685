//! Postgres: several processes on one database. One connection of each writes its log, others do the rest.
//!
//! - `connect`: the URL, the connections, and what their errors mean;
//! - `migrate`: bringing the database to the current schema;
//! - `batch`: the statements of a group commit;
//! - `news`: hearing of what other processes write;
//! - the rest: one file a concern, named as in engine-core's `port::store`, shared with SQLite.

mod batch;
#[path = "../sql/checkpoint.rs"]
mod checkpoint;
mod connect;
#[path = "../sql/coordination.rs"]
mod coordination;
#[path = "../sql/inbox.rs"]
mod inbox;
mod insert;
#[path = "../sql/log.rs"]
mod log;
mod migrate;
mod news;
#[path = "../sql/outbox.rs"]
mod outbox;
#[path = "../sql/plans.rs"]
mod plans;
#[path = "../sql/progress.rs"]
mod progress;
#[path = "../sql/registry.rs"]
mod registry;
#[path = "../sql/requests.rs"]
mod requests;
#[path = "../sql/rows.rs"]
mod rows;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine_core::port::Clock;
use engine_core::{Result, RunId, Timestamp};
use futures_core::future::BoxFuture;
use sqlx::{PgPool, Row as _};

use crate::commit::{Log, LogJob, Queue};
use crate::options::Options;
use crate::retry::{Failure, within};
use crate::stored::KnownFacts;
use crate::wake::Wakeups;

use connect::broken;

type Connection = sqlx::PgConnection;
type Row = sqlx::postgres::PgRow;
type Store = PostgresStore;

/// The least that maintenance (retention, sweeping) may take; it writes much more than an append.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// A store in a Postgres database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    place: String,
    queue: Queue<LogJob>,
    pool: PgPool,
    wakeups: Arc<Wakeups>,
    facts: KnownFacts,
    clock: Option<Arc<dyn Clock>>,
    budget: Duration,
    _listener: news::Listening,
}

impl PostgresStore {
    /// Opens the database that a URL names, as `postgres://user@host/database`, with the parameters that Postgres
    /// clients know. The tables stand in a schema of their own, `options.schema`, or the URL's parameter `schema`.
    ///
    /// # Errors
    /// `UNSUPPORTED` when the URL is not understood, `STORE_SCHEMA_NEWER` when a newer version wrote the schema,
    /// `STORE_UNAVAILABLE` when the server cannot be reached or refuses the connection.
    pub async fn open(url: &str, options: Options) -> Result<Self> {
        let settings = connect::Settings::new(url, &options)?;
        let budget = options.write_budget;
        let writer = within(budget, || async {
            let mut writer = settings.connect().await?;
            migrate::run(&mut writer, &settings).await?;
            Ok(writer)
        })
        .await?;
        let wakeups = Arc::<Wakeups>::default();
        let pool = settings.pool(options.readers);
        let listener = within(budget, || news::listen(&settings, &pool, &wakeups)).await?;
        let place = settings.place();
        let database = batch::Batch::new(writer, settings, options.clock.clone(), options.outbox);
        let (queue, writer) = Queue::new(Log::new(database, Arc::clone(&wakeups)), budget);
        tokio::spawn(writer.run());
        let shared = Shared {
            place,
            queue,
            pool,
            wakeups,
            facts: KnownFacts::default(),
            clock: options.clock,
            budget,
            _listener: listener,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What decides about durability, as the server says itself: names and values of settings.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the server is away for longer than the budget.
    pub async fn settings(&self) -> Result<Vec<(String, String)>> {
        self.read(|connection| {
            Box::pin(async move {
                let mut settings = Vec::new();
                for name in ["fsync", "synchronous_commit", "full_page_writes"] {
                    let sql = "SELECT current_setting($1)";
                    let row =
                        sqlx::query(sql).bind(name).fetch_one(&mut *connection).await.map_err(broken)?;
                    settings.push((name.to_owned(), row.try_get(0).map_err(broken)?));
                }
                Ok(settings)
            })
        })
        .await
    }

    /// Makes a change in a transaction of its own. Not in the writer's: two groups that change the same rows in
    /// another order would wait for each other.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>>
            + Send
            + Sync
            + 'static,
    {
        self.write_within(self.shared.budget, work).await
    }

    /// Makes a change that may take long.
    async fn write_slowly<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>>
            + Send
            + Sync
            + 'static,
    {
        self.write_within(self.shared.budget.max(MAINTENANCE), work).await
    }

    async fn write_within<T, F>(&self, budget: Duration, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>>
            + Send
            + Sync
            + 'static,
    {
        within(budget, || async {
            let mut transaction = self.shared.pool.begin().await.map_err(broken)?;
            let now = now(&mut transaction, self.shared.clock.as_deref()).await?;
            let value = work(&mut transaction, now).await?;
            transaction.commit().await.map_err(broken)?;
            Ok(value)
        })
        .await
    }

    /// Reads beside the writer.
    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send,
        F: for<'c> Fn(&'c mut Connection) -> BoxFuture<'c, Result<T, Failure>> + Send + Sync,
    {
        within(self.shared.budget, || async {
            let mut connection = self.shared.pool.acquire().await.map_err(broken)?;
            work(&mut connection).await
        })
        .await
    }
}

/// The time by the server's clock, the only one that all processes share, unless another one was given.
async fn now(connection: &mut Connection, clock: Option<&dyn Clock>) -> Result<Timestamp, Failure> {
    if let Some(clock) = clock {
        return Ok(clock.now());
    }
    let row = sqlx::query("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint")
        .fetch_one(&mut *connection)
        .await
        .map_err(broken)?;
    Ok(Timestamp::from_millis(row.try_get(0).map_err(broken)?))
}

/// Tells every process of this database that a signal came.
async fn announce_signal(connection: &mut Connection, run_id: &RunId) -> Result<(), Failure> {
    sqlx::query("SELECT pg_notify('drivetrain.' || current_schema(), 's' || $1)")
        .bind(run_id.as_str())
        .execute(&mut *connection)
        .await
        .map_err(broken)?;
    Ok(())
}

/// Until the end of the transaction, nobody else hands out or puts back rows of the outbox.
async fn lock_outbox(connection: &mut Connection) -> Result<(), Failure> {
    sqlx::query(
        "SELECT pg_advisory_xact_lock(hashtextextended('drivetrain.outbox.' || current_schema(), 0))",
    )
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    Ok(())
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresStore").field("place", &self.shared.place).finish_non_exhaustive()
    }
}
