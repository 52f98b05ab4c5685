//! SQLite: one file, no server. One connection writes, others read beside it (WAL).
//!
//! - `connect`: opening the file, its settings, and what its errors mean;
//! - `migrate`: bringing it to the current schema;
//! - `batch`: the statements of a group commit;
//! - `news`: hearing of what other processes write;
//! - the rest: one file a concern, named as in engine-core's `port::store`, shared with Postgres.

mod batch;
#[path = "../sql/checkpoint.rs"]
mod checkpoint;
mod connect;
#[path = "../sql/coordination.rs"]
mod coordination;
#[path = "../sql/inbox.rs"]
mod inbox;
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
use sqlx::{Row as _, SqlitePool};

use crate::commit::Queue;
use crate::options::{Options, SystemClock};
use crate::retry::{Failure, within};
use crate::wake::Wakeups;

use connect::broken;

type Connection = sqlx::SqliteConnection;
type Row = sqlx::sqlite::SqliteRow;
type Store = SqliteStore;

/// The least that maintenance (retention, sweeping) may take; it writes much more than an append.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// A store in a SQLite file. Clones share its connections.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    place: String,
    queue: Queue<Connection>,
    readers: SqlitePool,
    wakeups: Arc<Wakeups>,
    clock: Option<Arc<dyn Clock>>,
    budget: Duration,
}

impl SqliteStore {
    /// Opens the file that a URL names, as `sqlite://data/drivetrain.db`, and makes it when it is not there. The
    /// parameter `durability=normal` is the same as [`crate::Durability::Normal`].
    ///
    /// # Errors
    /// `UNSUPPORTED` when the URL is not understood, `STORE_SCHEMA_NEWER` when a newer version wrote the file,
    /// `STORE_UNAVAILABLE` when it cannot be opened.
    pub async fn open(url: &str, options: Options) -> Result<Self> {
        let settings = connect::Settings::new(url, &options)?;
        let budget = options.write_budget;
        let writer = within(budget, || async {
            let mut writer = settings.writer().await?;
            migrate::run(&mut writer, &settings).await?;
            Ok(writer)
        })
        .await?;
        let wakeups = Arc::<Wakeups>::default();
        news::listen(within(budget, || settings.reader()).await?, &wakeups, options.foreign_check);
        let database = batch::Batch::new(writer, options.clock.clone(), options.outbox);
        let shared = Shared {
            place: settings.place(),
            queue: Queue::start(database, Arc::clone(&wakeups), budget),
            readers: settings.readers(options.readers),
            wakeups,
            clock: options.clock,
            budget,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What the writer's connection is set to, as it says itself: names and values of `PRAGMA` settings.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the file is busy for longer than the budget.
    pub async fn settings(&self) -> Result<Vec<(String, String)>> {
        self.write(|connection, _| {
            Box::pin(async move {
                let mut settings = Vec::new();
                for (name, sql) in [
                    ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode"),
                    ("synchronous", "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous"),
                ] {
                    let row = sqlx::query(sql).fetch_one(&mut *connection).await.map_err(broken)?;
                    settings.push((name.to_owned(), row.try_get(0).map_err(broken)?));
                }
                Ok(settings)
            })
        })
        .await
    }

    /// Hands a change to the writer.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
    {
        self.shared.queue.change(None, work).await
    }

    /// Hands a change that may take long to the writer.
    async fn write_slowly<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
    {
        self.shared.queue.change(Some(self.shared.budget.max(MAINTENANCE)), work).await
    }

    /// Reads beside the writer.
    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send,
        F: for<'c> Fn(&'c mut Connection) -> BoxFuture<'c, Result<T, Failure>> + Send + Sync,
    {
        within(self.shared.budget, || async {
            let mut connection = self.shared.readers.acquire().await.map_err(broken)?;
            work(&mut connection).await
        })
        .await
    }
}

/// The time. SQLite has no clock of its own.
async fn now(_: &mut Connection, clock: Option<&dyn Clock>) -> Result<Timestamp, Failure> {
    Ok(time(clock))
}

fn time(clock: Option<&dyn Clock>) -> Timestamp {
    clock.unwrap_or(&SystemClock).now()
}

/// Other processes look for signals themselves.
async fn announce_signal(_: &mut Connection, _: &RunId) -> Result<(), Failure> {
    Ok(())
}

/// Changes come one after another as it is.
async fn lock_outbox(_: &mut Connection) -> Result<(), Failure> {
    Ok(())
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteStore").field("place", &self.shared.place).finish_non_exhaustive()
    }
}
