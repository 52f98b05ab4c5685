//! The store suite against Postgres, each case in a schema of its own.

#![cfg(feature = "suite")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine_core::port::{Clock, StateStore};
use engine_core::{CheckpointId, RunId};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use statestore::Options;
use statestore::suite::Harness;

/// A schema in the database that tests share.
#[derive(Debug)]
struct InSchema {
    name: String,
}

/// The server that tests share; starting one takes a moment that no other task should wait for.
async fn server() -> String {
    tokio::task::spawn_blocking(dev_servers::postgres::shared_url)
        .await
        .expect("the server's task")
        .expect("a Postgres server")
}

impl InSchema {
    fn new() -> Self {
        Self { name: format!("suite_{}", uuid::Uuid::new_v4().simple()) }
    }

    async fn handle(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore> {
        let options = Options {
            clock: Some(clock),
            schema: self.name.clone(),
            write_budget: Duration::from_secs(60),
            ..Options::default()
        };
        statestore::open(&server().await, options).await.expect("a store")
    }
}

#[async_trait]
impl Harness for InSchema {
    async fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore> {
        self.handle(clock).await
    }

    async fn reopen(&self, clock: Arc<dyn Clock>) -> Option<Arc<dyn StateStore>> {
        Some(self.handle(clock).await)
    }

    async fn damage_checkpoint(&self, run_id: &RunId, checkpoint_id: &CheckpointId) {
        let options: PgConnectOptions = server().await.parse().expect("an address");
        let options = options.disable_statement_logging();
        let mut connection = PgConnection::connect_with(&options).await.expect("a connection");
        let schema = &self.name;
        // A space more is still the same JSON: only the checksum tells. The schema's name is ours, of letters, digits
        // and underscores.
        let statement = format!(
            "UPDATE {schema}.checkpoints SET content = content || ' ' WHERE checkpoint_id = $1 \
             AND run_no = (SELECT run_no FROM {schema}.runs WHERE run_id = $2)"
        );
        let changed = sqlx::query(AssertSqlSafe(statement))
            .bind(checkpoint_id.as_str())
            .bind(run_id.as_str())
            .execute(&mut connection)
            .await
            .expect("damaged");
        assert_eq!(changed.rows_affected(), 1, "there is such a checkpoint");
        connection.close().await.expect("closed");
    }
}

statestore::store_suite!(InSchema::new());
