//! A database for one trial: a file, or a database of its own on the server that tests share.

use std::path::PathBuf;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

use super::patience::{LIMIT, soon};

/// An empty database at first.
#[derive(Debug)]
pub(crate) enum Place {
    /// SQLite.
    File(TempDir),
    /// Postgres.
    Database(Box<PgConnectOptions>),
}

impl Place {
    /// A file in a directory that goes with this value.
    pub(crate) fn file() -> Self {
        Self::File(TempDir::new().expect("a directory"))
    }

    /// A database of its own: who is connected to it is somebody of this trial. Stays on the server, which is one for
    /// tests.
    pub(crate) fn database() -> Self {
        Self::database_on(&dev_servers::postgres::shared_url().expect("a Postgres server"))
    }

    pub(crate) fn database_on(url: &str) -> Self {
        let server = PgConnectOptions::from_str(url).expect("the address of the server");
        let name = format!("crash_{}", uuid::Uuid::new_v4().simple());
        let create = format!("CREATE DATABASE {name}");
        super::patience::runtime().block_on(async {
            let mut connection = connect(&server).await;
            sqlx::query(AssertSqlSafe(create)).execute(&mut connection).await.expect("a database");
            connection.close().await.expect("closed");
        });
        Self::Database(Box::new(server.database(&name)))
    }

    /// What a store is opened with.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::File(_) => format!("sqlite://{}", self.path().display()),
            Self::Database(options) => options.to_url_lossy().to_string(),
        }
    }

    /// Another place of the same kind in the same directory or on the same server, and empty.
    pub(crate) fn fresh_url(&self, number: u32) -> String {
        match self {
            Self::File(directory) => {
                format!("sqlite://{}", directory.path().join(format!("{number}.db")).display())
            }
            Self::Database(options) => {
                let url = options.to_url_lossy();
                let separator = if url.query().is_some() { '&' } else { '?' };
                format!("{url}{separator}schema=fresh_{number}")
            }
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::File(directory) => directory.path().join("store.db"),
            Self::Database(_) => panic!("a server has no file"),
        }
    }

    /// Whether a killed process left changes that are not in the file yet: the next to open it must bring them in.
    pub(crate) fn has_changes_beside(&self) -> bool {
        match self {
            Self::File(_) => {
                let beside = self.path().with_extension("db-wal");
                std::fs::metadata(beside).is_ok_and(|beside| beside.len() > 0)
            }
            Self::Database(_) => false,
        }
    }

    /// Waits until the server has noticed that its clients are gone: until then what they sent last may still be done.
    pub(crate) async fn rest(&self) {
        let Self::Database(options) = self else { return };
        let mut connection = connect(options).await;
        let others = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        soon("the server to notice that its clients are gone", async {
            loop {
                let row = sqlx::query(others).fetch_one(&mut connection).await.expect("an answer");
                if row.get::<i64, _>(0) == 0 {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        })
        .await;
        connection.close().await.expect("closed");
    }

    /// The file is sound, as the database itself says. A server keeps its files itself.
    pub(crate) async fn integrity(&self) {
        if let Self::File(_) = self {
            integrity(&self.url()).await;
        }
    }
}

/// The SQLite file that a URL names is sound.
pub(crate) async fn integrity(url: &str) {
    let mut connection = connect_file(url).await;
    let rows = sqlx::query("PRAGMA integrity_check").fetch_all(&mut connection).await.expect("a check");
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, ["ok"], "the integrity of {url}");
    connection.close().await.expect("closed");
}

/// A connection beside the store, to a file.
pub(crate) async fn connect_file(url: &str) -> SqliteConnection {
    let path = url.strip_prefix("sqlite://").expect("a file");
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(LIMIT).disable_statement_logging();
    SqliteConnection::connect_with(&options).await.expect("a connection")
}

/// A connection beside the store, to a server.
pub(crate) async fn connect(options: &PgConnectOptions) -> PgConnection {
    let options = options.clone().disable_statement_logging();
    PgConnection::connect_with(&options).await.expect("a connection")
}
