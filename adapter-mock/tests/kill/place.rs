//! A database for one trial, and a diary beside it.

use std::path::PathBuf;

use tempfile::TempDir;

/// An empty database at first. What is on disk goes with this value; a schema stays on the server, which is one for tests.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    schema: Option<String>,
}

impl Place {
    /// SQLite.
    pub(crate) fn file() -> Self {
        Self { folder: TempDir::new().expect("a directory"), schema: None }
    }

    /// Postgres.
    pub(crate) fn schema() -> Self {
        let server = dev_servers::postgres::shared_url().expect("a Postgres server");
        let separator = if server.contains('?') { '&' } else { '?' };
        let schema = format!("{server}{separator}schema=kill_{}", uuid::Uuid::new_v4().simple());
        Self { schema: Some(schema), ..Self::file() }
    }

    /// What a store is opened with.
    pub(crate) fn url(&self) -> String {
        match &self.schema {
            Some(schema) => schema.clone(),
            None => format!("sqlite://{}", self.folder.path().join("store.db").display()),
        }
    }

    /// Where handlers write what they do.
    pub(crate) fn diary(&self) -> PathBuf {
        self.folder.path().join("diary")
    }
}
