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

/// Statements of the writer come in sizes of powers of two; all of them fit.
const STATEMENTS: usize = 256;
/// Pages that the log in front of the file (WAL) may have before they are copied into it: 16 MiB. Copying waits for
/// the disk twice, so seldom is better; readers look through the WAL, so never is not.
const CHECKPOINT_PAGES: &str = "4000";
/// The page cache of the writer, in KiB.
const CACHE: &str = "-65536";
/// How long a statement waits for another process that writes, before the writer looks at its budget again.
const BUSY: Duration = Duration::from_millis(500);

/// How to connect.
#[derive(Debug)]
pub(super) struct Settings {
    path: PathBuf,
    connection: SqliteConnectOptions,
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
        let synchronous = match durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let connection = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(BUSY.min(options.write_budget))
            .foreign_keys(false)
            .statement_cache_capacity(STATEMENTS)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .disable_statement_logging();
        Ok(Self { path, connection, patience: options.write_budget })
    }

    /// The connection that writes.
    pub(super) async fn writer(&self) -> Result<Connection, Failure> {
        let options =
            self.connection.clone().pragma("cache_size", CACHE).thread_name(|_| "sqlite-writer".to_owned());
        options.connect().await.map_err(|error| self.cannot_open(error))
    }

    /// A connection that reads.
    pub(super) async fn reader(&self) -> Result<Connection, Failure> {
        self.connection.clone().connect().await.map_err(|error| self.cannot_open(error))
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

    fn cannot_open(&self, error: sqlx::Error) -> Failure {
        let away = broken(error);
        let message = format!("{} cannot be opened: {}", self.place(), away.error.message());
        let error = Error::new(Code::StoreUnavailable, message)
            .with_hint("see that it is a SQLite database and that this user may write to it and its folder");
        Failure { error, ..away }
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
    // Primary result codes: busy, locked, input or output error, disk full, cannot open.
    const PASSING: [i32; 5] = [5, 6, 10, 13, 14];
    let passing = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse::<i32>().ok());
            code.is_some_and(|code| PASSING.contains(&(code & 0xff)))
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        _ => false,
    };
    if passing { Failure::away(error) } else { Failure::broken(error) }
}
