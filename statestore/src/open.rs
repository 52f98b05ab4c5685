//! Opening a store: the URL decides which.

use std::sync::Arc;

use engine_core::port::StateStore;
use engine_core::{Code, Error, Result};

use crate::{MemoryStore, Options, PostgresStore, SqliteStore};

/// Opens the store that a URL names: `sqlite://path`, `postgres://…`, or `memory:`.
///
/// The database is brought to the current schema, also when several processes open it at once.
///
/// # Errors
/// `UNSUPPORTED` when the URL names no store that there is, `STORE_SCHEMA_NEWER` when a newer version wrote it,
/// `STORE_UNAVAILABLE` when it cannot be reached.
pub async fn open(url: &str, options: Options) -> Result<Arc<dyn StateStore>> {
    match url.split_once(':') {
        Some(("sqlite", _)) => Ok(Arc::new(SqliteStore::open(url, options).await?)),
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(PostgresStore::open(url, options).await?)),
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new(options))),
        _ => Err(Error::new(Code::Unsupported, format!("{url:?} names no store"))
            .with_hint("use sqlite://path/to/file.db, postgres://user@host/database, or memory:")),
    }
}
