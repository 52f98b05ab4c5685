//! The store suite against SQLite, each case in a file of its own.

#![cfg(feature = "suite")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine_core::port::{Clock, StateStore};
use engine_core::{CheckpointId, RunId};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use statestore::Options;
use statestore::suite::Harness;
use tempfile::TempDir;

/// A database in a directory that goes with the harness.
#[derive(Debug)]
struct InFile {
    directory: TempDir,
}

impl InFile {
    fn new() -> Self {
        Self { directory: TempDir::new().expect("a directory") }
    }

    fn file(&self) -> std::path::PathBuf {
        self.directory.path().join("store.db")
    }

    async fn handle(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore> {
        let url = format!("sqlite://{}", self.file().display());
        let options =
            Options { clock: Some(clock), write_budget: Duration::from_secs(60), ..Options::default() };
        statestore::open(&url, options).await.expect("a store")
    }
}

#[async_trait]
impl Harness for InFile {
    async fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore> {
        self.handle(clock).await
    }

    async fn reopen(&self, clock: Arc<dyn Clock>) -> Option<Arc<dyn StateStore>> {
        Some(self.handle(clock).await)
    }

    async fn damage_checkpoint(&self, run_id: &RunId, checkpoint_id: &CheckpointId) {
        let options = SqliteConnectOptions::new().filename(self.file()).disable_statement_logging();
        let mut connection = SqliteConnection::connect_with(&options).await.expect("a connection");
        // A space more is still the same JSON: only the checksum tells.
        let changed = sqlx::query(
            "UPDATE checkpoints SET content = content || ' ' WHERE checkpoint_id = ?1 \
             AND run_no = (SELECT run_no FROM runs WHERE run_id = ?2)",
        )
        .bind(checkpoint_id.as_str())
        .bind(run_id.as_str())
        .execute(&mut connection)
        .await
        .expect("damaged");
        assert_eq!(changed.rows_affected(), 1, "there is such a checkpoint");
        connection.close().await.expect("closed");
    }
}

statestore::store_suite!(InFile::new());
