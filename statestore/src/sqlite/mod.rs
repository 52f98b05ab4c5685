//! SQLite: one file, no server. One connection writes the log, another what belongs to it, in turns; others read beside
//! them (WAL).
//!
//! - `connect`: opening the file, its settings, and what its errors mean;
//! - `migrate`: bringing it to the current schema;
//! - `batch`: the statements of a group commit, on a thread of their own;
//! - `changes`: every write that is not to the log;
//! - `turn`: whose turn it is to write;
//! - `news`: hearing of what other processes write;
//! - the rest: one file a concern, named as in engine-core's `port::store`, shared with Postgres.

mod batch;
mod changes;
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
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine_core::port::Clock;
use engine_core::{Code, Error, Result, RunId, Timestamp};
use futures_core::future::BoxFuture;
use sqlx::SqlitePool;

use crate::commit::{Database, Log, LogJob, Queue, Writer};
use crate::options::{Options, SystemClock};
use crate::retry::{Failure, within};
use crate::stored::KnownFacts;
use crate::wake::Wakeups;

use connect::broken;
use turn::Turn;

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
    queue: Queue<LogJob>,
    changes: Queue<changes::Waiting>,
    readers: SqlitePool,
    wakeups: Arc<Wakeups>,
    facts: KnownFacts,
    clock: Option<Arc<dyn Clock>>,
    budget: Duration,
    in_force: Vec<(String, String)>,
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
        let connection = within(budget, || async {
            let mut connection = settings.connect().await?;
            migrate::run(&mut connection, &settings).await?;
            Ok(connection)
        })
        .await?;
        let wakeups = Arc::<Wakeups>::default();
        news::listen(within(budget, || settings.connect()).await?, &wakeups, options.foreign_check);
        let turn = Turn::default();
        let log_writer = within(budget, || async { settings.log_writer() }).await?;
        let in_force = in_force(&log_writer)?;
        let log = batch::Batch::new(log_writer, options.clock.clone(), options.outbox, turn.clone());
        let (queue, writer) = Queue::new(Log::new(log, Arc::clone(&wakeups)), budget);
        on_a_thread(writer)?;
        let changes = changes::Changes::new(connection, options.clock.clone(), turn);
        let (changes, writer) = Queue::new(changes, budget);
        tokio::spawn(writer.run());
        let shared = Shared {
            place: settings.place(),
            queue,
            changes,
            readers: settings.readers(options.readers),
            wakeups,
            facts: KnownFacts::default(),
            clock: options.clock,
            budget,
            in_force,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What the connection that writes the log is set to, as it said itself: names and values of `PRAGMA` settings.
    #[must_use]
    pub fn settings(&self) -> &[(String, String)] {
        &self.shared.in_force
    }

    /// Makes a change that is not to the log.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
    {
        changes::submit(&self.shared.changes, self.shared.budget, work).await
    }

    /// Makes a change that may take long.
    async fn write_slowly<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
    {
        changes::submit(&self.shared.changes, self.shared.budget.max(MAINTENANCE), work).await
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

/// Runs the writer of the log on a thread of its own until the store is dropped.
fn on_a_thread<D: Database>(writer: Writer<Log<D>>) -> Result<()> {
    let cannot = |cause: std::io::Error| {
        Error::new(
            Code::StoreUnavailable,
            format!("the thread of the store's writer cannot be started: {cause}"),
        )
        .with_hint("see that this process may start more threads")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(cannot)?;
    let run = move || runtime.block_on(writer.run());
    std::thread::Builder::new().name("sqlite-log".to_owned()).spawn(run).map_err(cannot)?;
    Ok(())
}

/// What a connection is set to.
fn in_force(connection: &rusqlite::Connection) -> Result<Vec<(String, String)>> {
    let value = |sql| connection.query_row(sql, [], |row| row.get(0)).map_err(connect::refused);
    let journal_mode =
        value("SELECT journal_mode FROM pragma_journal_mode").map_err(|failure| failure.error)?;
    let synchronous =
        value("SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous").map_err(|failure| failure.error)?;
    Ok(vec![("journal_mode".to_owned(), journal_mode), ("synchronous".to_owned(), synchronous)])
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
