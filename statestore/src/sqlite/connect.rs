//! Opening the file, its settings, and what its errors mean.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine_core::{Code, Error, Result};
use sqlx::ConnectOptions as _;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::Connection;
use crate::options::{Durability, Options};
use crate::retry::Failure;

/// Statements that a connection keeps ready: all there are.
const STATEMENTS: usize = 256;
/// Pages that the log in front of the file (WAL) may have before they are copied into it: 64 MiB. Copying waits for
/// the disk twice, so seldom is better; readers look through the WAL, so never is not.
const CHECKPOINT_PAGES: u32 = 16_000;
/// The page cache of the writer, in KiB.
const CACHE: i32 = -65536;
/// How long a statement waits for another process that writes, before the writer looks at its budget again.
const BUSY: Duration = Duration::from_millis(500);

/// How to connect.
#[derive(Debug)]
pub(super) struct Settings {
    path: PathBuf,
    connection: SqliteConnectOptions,
    synchronous: &'static str,
    /// How long a statement waits for another process that writes.
    busy: Duration,
    /// How long a reader may wait for its turn.
    patience: Duration,
}

impl Settings {
    /// Reads a URL.
    ///
    /// # Errors
    /// `UNSUPPORTED` when it is not understood, `STORE_UNAVAILABLE` when the folder cannot be made.
    pub(super) fn new(url: &str, options: &Options) -> Result<Self> {
        let refuse = |message: String| {
            Error::new(Code::Unsupported, message).with_hint(
                "write it as sqlite://path/to/file.db or sqlite://path/to/file.db?durability=normal",
            )
        };
        let place =
            url.strip_prefix("sqlite://").ok_or_else(|| refuse(format!("{url:?} is not a SQLite URL")))?;
        let (path, parameters) = place.split_once('?').unwrap_or((place, ""));
        if path.is_empty() || path.contains('\0') {
            return Err(refuse(format!("{url:?} names no file")));
        }
        let mut durability = options.durability;
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            durability = match parameter {
                "durability=full" => Durability::Full,
                "durability=normal" => Durability::Normal,
                other => {
                    return Err(refuse(format!("{url:?} has the parameter {other:?}, which means nothing")));
                }
            };
        }
        let path = PathBuf::from(path);
        make_folder(&path)?;
        let (synchronous, name) = match durability {
            Durability::Full => (SqliteSynchronous::Full, "FULL"),
            Durability::Normal => (SqliteSynchronous::Normal, "NORMAL"),
        };
        let busy = BUSY.min(options.write_budget);
        let connection = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(busy)
            .foreign_keys(false)
            .statement_cache_capacity(STATEMENTS)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
            .disable_statement_logging();
        Ok(Self { path, connection, synchronous: name, busy, patience: options.write_budget })
    }

    /// A connection like all the others, for reading and for what is not the log.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        self.connection.clone().connect().await.map_err(|error| self.cannot_open(&broken(error)))
    }

    /// The connection that writes the log, of the driver that runs statements on the thread it is called from. The file
    /// is there and has its tables.
    pub(super) fn log_writer(&self) -> Result<rusqlite::Connection, Failure> {
        let open = || {
            let connection = rusqlite::Connection::open(&self.path)?;
            connection.busy_timeout(self.busy)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", self.synchronous)?;
            connection.pragma_update(None, "foreign_keys", false)?;
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            connection.pragma_update(None, "cache_size", CACHE)?;
            Ok(connection)
        };
        open().map_err(|error| self.cannot_open(&refused(error)))
    }

    /// Connections that read, opened when they are needed.
    pub(super) fn readers(&self, count: u32) -> SqlitePool {
        SqlitePoolOptions::new()
            .max_connections(count.max(1))
            .acquire_timeout(self.patience)
            .test_before_acquire(false)
            .connect_lazy_with(self.connection.clone())
    }

    /// Where the file is, for people.
    pub(super) fn place(&self) -> String {
        format!("sqlite://{}", self.path.display())
    }

    fn cannot_open(&self, away: &Failure) -> Failure {
        let message = format!("{} cannot be opened: {}", self.place(), away.error.message());
        let error = Error::new(Code::StoreUnavailable, message)
            .with_hint("see that it is a SQLite database and that this user may write to it and its folder");
        Failure { away: away.away, database: true, stale: false, error }
    }
}

fn make_folder(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        None => Ok(()),
        Some(parent) => std::fs::create_dir_all(parent).map_err(|cause| {
            let message = format!("the folder {} cannot be made: {cause}", parent.display());
            Error::new(Code::StoreUnavailable, message)
                .with_hint("make it, or choose another place for the file")
        }),
    }
}

/// What an error of the database means.
pub(super) fn broken(error: sqlx::Error) -> Failure {
    let passing = match &error {
        sqlx::Error::Database(database) => {
            database.code().and_then(|code| code.parse().ok()).is_some_and(is_passing)
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        _ => false,
    };
    if passing { Failure::away(error) } else { Failure::broken(error) }
}

/// The same for the writer of the log.
pub(super) fn refused(error: rusqlite::Error) -> Failure {
    let passing = error.sqlite_error().is_some_and(|error| is_passing(error.extended_code));
    if passing { Failure::away(error) } else { Failure::broken(error) }
}

/// Whether the same may succeed later: busy, locked, input or output error, disk full, cannot open.
fn is_passing(code: i32) -> bool {
    [5, 6, 10, 13, 14].contains(&(code & 0xff))
}
