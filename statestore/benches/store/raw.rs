//! The same database without a store: multi-row inserts of ready rows, one commit a batch, on one connection.

use sqlx::{AssertSqlSafe, Connection as _};
use statestore::Durability;

use crate::load::{Place, draft};

/// Rows that are ready to be inserted.
struct Rows {
    names: Vec<String>,
    payloads: Vec<String>,
}

/// Names and payloads of so many events.
fn rows(count: usize) -> Rows {
    let drafts: Vec<_> = (0..count).map(draft).collect();
    Rows {
        names: drafts
            .iter()
            .map(|draft| engine_core::event::event_name(draft.subject.as_ref(), &draft.body))
            .collect(),
        payloads: drafts.iter().map(|draft| draft.body.to_payload_text()).collect(),
    }
}

/// A table with the columns of the log and nothing but a primary key.
pub(crate) enum Raw {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

const COLUMNS: &str = "run_no, run_seq, name, slot, event_type, event_id, idempotency_key, schema_version, emitted_at, \
    emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload";

impl Raw {
    /// Connects and makes the table.
    pub(crate) async fn open(place: &Place) -> Self {
        let url = place.fresh_url();
        if let Some(path) = url.strip_prefix("sqlite://") {
            use sqlx::ConnectOptions as _;
            use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
            let synchronous = match place.durability {
                Durability::Full => SqliteSynchronous::Full,
                Durability::Normal => SqliteSynchronous::Normal,
            };
            let options = SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(synchronous)
                .pragma("wal_autocheckpoint", "4000")
                .pragma("cache_size", "-65536")
                .statement_cache_capacity(256);
            let mut connection = options.connect().await.unwrap();
            let sql = "CREATE TABLE raw (position INTEGER PRIMARY KEY, run_no INTEGER, run_seq INTEGER, name TEXT,
                slot TEXT, event_type TEXT, event_id BLOB, idempotency_key BLOB, schema_version TEXT,
                emitted_at INTEGER, emitted_by TEXT, occurred_at INTEGER, step_id TEXT, logical_attempt INTEGER,
                engine_attempt INTEGER, payload TEXT) STRICT";
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            return Self::Sqlite(connection);
        }
        let (url, schema) = url.split_once("?schema=").unwrap();
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        let sql = format!(
            "CREATE SCHEMA {schema}; SET search_path = {schema};
             CREATE TABLE raw (position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_no BIGINT,
             run_seq BIGINT, name TEXT, slot TEXT, event_type TEXT, event_id BYTEA, idempotency_key BYTEA,
             schema_version TEXT, emitted_at BIGINT, emitted_by TEXT, occurred_at BIGINT, step_id TEXT,
             logical_attempt BIGINT, engine_attempt BIGINT, payload TEXT)"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        Self::Postgres(connection)
    }

    /// Inserts `events` rows, `batch` a commit; seconds.
    pub(crate) async fn insert(&mut self, events: usize, batch: usize) -> f64 {
        let rows = rows(events);
        let started = std::time::Instant::now();
        for first in (0..events).step_by(batch) {
            let last = (first + batch).min(events);
            match self {
                Self::Sqlite(connection) => sqlite(connection, &rows, first, last).await,
                Self::Postgres(connection) => postgres(connection, &rows, first, last).await,
            }
        }
        started.elapsed().as_secs_f64()
    }
}

async fn sqlite(connection: &mut sqlx::SqliteConnection, rows: &Rows, first: usize, last: usize) {
    const ROWS: usize = 128;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.unwrap();
    for start in (first..last).step_by(ROWS) {
        let end = (start + ROWS).min(last);
        let row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let sql = format!("INSERT INTO raw ({COLUMNS}) VALUES {}", vec![row; end - start].join(", "));
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for number in start..end {
            query = query
                .bind(1_i64)
                .bind(number as i64)
                .bind(rows.names[number].as_str())
                .bind(None::<String>)
                .bind("StepCompleted")
                .bind(&[7_u8; 16][..])
                .bind(&[7_u8; 32][..])
                .bind("1.0")
                .bind(1_700_000_000_000_i64)
                .bind("bench")
                .bind(None::<i64>)
                .bind("step-0000001")
                .bind(1_i64)
                .bind(None::<i64>)
                .bind(rows.payloads[number].as_str());
        }
        query.execute(&mut *connection).await.unwrap();
    }
    sqlx::query("COMMIT").execute(&mut *connection).await.unwrap();
}

async fn postgres(connection: &mut sqlx::PgConnection, rows: &Rows, first: usize, last: usize) {
    let count = last - first;
    let sql = format!(
        "INSERT INTO raw ({COLUMNS})
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[],
             $8::text[], $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::bigint[], $14::bigint[],
             $15::text[])"
    );
    let places: Vec<i64> = (first..last).map(|number| number as i64).collect();
    sqlx::query(AssertSqlSafe(sql))
        .bind(vec![1_i64; count])
        .bind(places)
        .bind(&rows.names[first..last])
        .bind(vec![None::<String>; count])
        .bind(vec!["StepCompleted"; count])
        .bind(vec![&[7_u8; 16][..]; count])
        .bind(vec![&[7_u8; 32][..]; count])
        .bind(vec!["1.0"; count])
        .bind(vec![1_700_000_000_000_i64; count])
        .bind(vec!["bench"; count])
        .bind(vec![None::<i64>; count])
        .bind(vec!["step-0000001"; count])
        .bind(vec![1_i64; count])
        .bind(vec![None::<i64>; count])
        .bind(&rows.payloads[first..last])
        .execute(&mut *connection)
        .await
        .unwrap();
}
