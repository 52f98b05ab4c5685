//! The URL, the connections, and what their errors mean.

use std::str::FromStr as _;
use std::time::Duration;

use engine_core::{Code, Error, Result};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, PgPool};

use super::Connection;
use crate::options::Options;
use crate::retry::Failure;

/// Connections for changes besides the log, and one that listens.
const BESIDES: u32 = 5;

/// How to connect.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    connection: PgConnectOptions,
    schema: String,
    /// What this store calls itself when it tells of what it stored.
    author: String,
    /// How long a caller may wait for a connection.
    patience: Duration,
}

impl Settings {
    /// Reads a URL.
    ///
    /// # Errors
    /// `UNSUPPORTED` when it is not understood.
    pub(super) fn new(url: &str, options: &Options) -> Result<Self> {
        let (url, schema) = take_schema(url);
        let schema = schema.unwrap_or_else(|| options.schema.clone());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=48).contains(&schema.len()) || !schema.bytes().all(plain) || schema.starts_with("pg_") {
            return Err(Error::new(Code::Unsupported, format!("{schema:?} cannot be the schema of a store"))
                .with_hint("use 1 to 48 characters of a-z 0-9 _, not starting with pg_"));
        }
        // The error of the parser may repeat the password: it is not passed on.
        let connection = PgConnectOptions::from_str(&url).map_err(|_| {
            Error::new(Code::Unsupported, "the Postgres URL of the store cannot be read")
                .with_hint("write it as postgres://user:password@host:5432/database?sslmode=require")
        })?;
        let connection = connection
            .application_name("drivetrain")
            .options([("search_path", schema.as_str())])
            .disable_statement_logging();
        let author = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self { connection, schema, author, patience: options.write_budget })
    }

    /// What this store calls itself when it tells of what it stored.
    pub(super) fn author(&self) -> &str {
        &self.author
    }

    /// A connection for the log.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        // The writer finds every row by its key. Before the database has counted a table's rows it would rather read the
        // whole table, and keeps to that plan while the table grows.
        const BY_KEY: [(&str, &str); 3] =
            [("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];
        // Planning takes longer than such a plan, which is the same whatever the values.
        const PLANNED_ONCE: [(&str, &str); 1] = [("plan_cache_mode", "force_generic_plan")];
        let options = self.connection.clone().options(BY_KEY).options(PLANNED_ONCE);
        options.connect().await.map_err(|error| self.cannot_connect(error))
    }

    /// Connections for everything but the log, opened when they are needed.
    pub(super) fn pool(&self, readers: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(readers.max(1).saturating_add(BESIDES))
            .acquire_timeout(self.patience)
            .connect_lazy_with(self.connection.clone())
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Where news of this store are told.
    pub(super) fn channel(&self) -> String {
        format!("drivetrain.{}", self.schema)
    }

    /// Where the database is, for people; without a password.
    pub(super) fn place(&self) -> String {
        let options = &self.connection;
        let (host, port) = (options.get_host(), options.get_port());
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{host}:{port}/{database}, schema {}", self.schema)
    }

    fn cannot_connect(&self, error: sqlx::Error) -> Failure {
        let failure = broken(error);
        let message = format!("{} cannot be opened: {}", self.place(), failure.error.message());
        let error = Error::new(Code::StoreUnavailable, message)
            .with_hint("see that the server runs there and lets this user in, then try again");
        Failure { error, ..failure }
    }
}

/// Takes the parameter `schema`, which is ours, out of a URL.
fn take_schema(url: &str) -> (String, Option<String>) {
    let Some((place, parameters)) = url.split_once('?') else { return (url.to_owned(), None) };
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        parameters.split('&').partition(|parameter| parameter.starts_with("schema="));
    let schema = ours.last().and_then(|parameter| parameter.strip_prefix("schema=")).map(str::to_owned);
    let url = if theirs.is_empty() { place.to_owned() } else { format!("{place}?{}", theirs.join("&")) };
    (url, schema)
}

/// What an error of the database means.
pub(super) fn broken(error: sqlx::Error) -> Failure {
    // Classes of SQLSTATE: connection, conflict between transactions, resources, object in use, operator, system.
    const PASSING: [&str; 6] = ["08", "40", "53", "55", "57", "58"];
    let passing = match &error {
        sqlx::Error::Database(database) => {
            database.code().is_some_and(|code| PASSING.iter().any(|class| code.starts_with(class)))
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    };
    if passing { Failure::away(error) } else { Failure::broken(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_in_the_url_wins_and_the_rest_of_it_stays() {
        let url = "postgres://user@host/database?sslmode=disable&schema=orders&application_name=x";
        let (url, schema) = take_schema(url);
        assert_eq!(url, "postgres://user@host/database?sslmode=disable&application_name=x");
        assert_eq!(schema.as_deref(), Some("orders"));
    }

    #[test]
    fn a_schema_name_that_would_need_quoting_is_refused() {
        for schema in ["", "Orders", "a-b", "a\"; DROP SCHEMA public; --", "pg_catalog", &"a".repeat(49)] {
            let options = Options { schema: schema.to_owned(), ..Options::default() };
            let error = Settings::new("postgres://user@host/database", &options).unwrap_err();
            assert_eq!(error.code(), Code::Unsupported, "{schema:?}");
        }
    }

    #[test]
    fn an_error_about_a_url_does_not_repeat_its_password() {
        let error =
            Settings::new("postgres://user:hunter2@host:port/database", &Options::default()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
