//! The same database without a store: multi-row inserts of ready rows, one commit a batch, on one connection. Into a bare
//! table, and into one with the two unique indexes that the log must have.

use sqlx::{AssertSqlSafe, Connection as _};
use statestore::Durability;

use crate::load::{Place, draft};

/// Rows that are ready to be inserted.
struct Rows {
    runs: Vec<i64>,
    places: Vec<i64>,
    names: Vec<String>,
    payloads: Vec<String>,
}

/// So many events, in turn of so many runs.
fn rows(count: usize, runs: usize) -> Rows {
    let drafts: Vec<_> = (0..count).map(|number| draft(number / runs)).collect();
    Rows {
        runs: (0..count).map(|number| (number % runs) as i64).collect(),
        places: (0..count).map(|number| (number / runs) as i64).collect(),
        names: drafts
            .iter()
            .map(|draft| engine_core::event::event_name(draft.subject.as_ref(), &draft.body))
            .collect(),
        payloads: drafts.iter().map(|draft| draft.body.to_payload_text()).collect(),
    }
}

/// What a table has besides the columns of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// A primary key that only counts.
    Counting,
    /// That, and the unique indexes of the log.
    Unique,
}

impl Keys {
    fn sql(self) -> &'static str {
        match self {
            Self::Counting => "",
            Self::Unique => {
                "; CREATE UNIQUE INDEX raw_by_place ON raw (run_no, run_seq);
                 CREATE UNIQUE INDEX raw_by_takes ON raw (run_no, takes)"
            }
        }
    }
}

/// A table with the columns of the log.
pub(crate) enum Raw {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

const COLUMNS: &str = "run_no, run_seq, takes, event_type, event_id, idempotency_key, schema_version, emitted_at, \
    emitted_by, occurred_at, step_id, logical_attempt, engine_attempt, payload";

impl Raw {
    /// Connects and makes the table.
    pub(crate) async fn open(place: &Place, keys: Keys) -> Self {
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
                .pragma("wal_autocheckpoint", "16000")
                .pragma("cache_size", "-65536")
                .statement_cache_capacity(256);
            let mut connection = options.connect().await.unwrap();
            let sql = "CREATE TABLE raw (position INTEGER PRIMARY KEY, run_no INTEGER, run_seq INTEGER, takes TEXT,
                event_type TEXT, event_id BLOB, idempotency_key BLOB, schema_version TEXT,
                emitted_at INTEGER, emitted_by TEXT, occurred_at INTEGER, step_id TEXT, logical_attempt INTEGER,
                engine_attempt INTEGER, payload TEXT) STRICT";
            let sql = format!("{sql}{}", keys.sql());
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            return Self::Sqlite(connection);
        }
        let (url, schema) = url.split_once("?schema=").unwrap();
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        let sql = format!(
            "CREATE SCHEMA {schema}; SET search_path = {schema};
             CREATE TABLE raw (position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_no BIGINT,
             run_seq BIGINT, takes TEXT, event_type TEXT, event_id BYTEA, idempotency_key BYTEA,
             schema_version TEXT, emitted_at BIGINT, emitted_by TEXT, occurred_at BIGINT, step_id TEXT,
             logical_attempt BIGINT, engine_attempt BIGINT, payload TEXT){}",
            keys.sql()
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        Self::Postgres(connection)
    }

    /// Inserts `events` rows, `batch` a commit, spread over `runs` runs; seconds.
    pub(crate) async fn insert(&mut self, events: usize, batch: usize, runs: usize) -> f64 {
        let rows = rows(events, runs);
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
        let row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let sql = format!("INSERT INTO raw ({COLUMNS}) VALUES {}", vec![row; end - start].join(", "));
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for number in start..end {
            query = query
                .bind(rows.runs[number])
                .bind(rows.places[number])
                .bind(rows.names[number].as_str())
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
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[],
             $7::text[], $8::bigint[], $9::text[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[],
             $14::text[])"
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(&rows.runs[first..last])
        .bind(&rows.places[first..last])
        .bind(&rows.names[first..last])
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
