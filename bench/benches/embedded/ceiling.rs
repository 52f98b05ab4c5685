//! The same database without an engine: writers that do one row after another and share group commits.

use std::sync::Arc;
use std::time::Instant;

use sqlx::Connection as _;
use statestore::Durability;
use tokio::sync::{mpsc, oneshot};

use crate::load::Place;

type Waiting = oneshot::Sender<()>;

/// Rows a second with so many writers.
pub(crate) async fn rate(place: &Place, rows: usize, writers: usize) -> f64 {
    let (jobs, waiting) = mpsc::channel::<Waiting>(4096);
    let url = place.fresh_url();
    let writer = match url.strip_prefix("sqlite://") {
        Some(path) => sqlite(path, place.durability, waiting),
        None => postgres(&url, waiting).await,
    };
    let jobs = Arc::new(jobs);
    let each = rows / writers;
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let jobs = Arc::clone(&jobs);
            tokio::spawn(async move {
                for _ in 0..each {
                    let (reply, stored) = oneshot::channel();
                    jobs.send(reply).await.unwrap();
                    stored.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    drop(jobs);
    writer.await.unwrap();
    (each * writers) as f64 / seconds
}

/// Takes all that waits.
async fn gather(waiting: &mut mpsc::Receiver<Waiting>) -> Vec<Waiting> {
    let mut group: Vec<Waiting> = waiting.recv().await.into_iter().collect();
    while let Ok(more) = waiting.try_recv() {
        group.push(more);
    }
    group
}

fn sqlite(
    path: &str,
    durability: Durability,
    mut waiting: mpsc::Receiver<Waiting>,
) -> tokio::task::JoinHandle<()> {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    connection.pragma_update(None, "wal_autocheckpoint", 16_000).unwrap();
    connection.execute("CREATE TABLE raw (position INTEGER PRIMARY KEY, payload TEXT)", []).unwrap();
    let payload = "x".repeat(300);
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async move {
            loop {
                let group = gather(&mut waiting).await;
                if group.is_empty() {
                    return;
                }
                connection.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
                for _ in &group {
                    let mut insert =
                        connection.prepare_cached("INSERT INTO raw (payload) VALUES (?)").unwrap();
                    insert.execute([&payload]).unwrap();
                }
                connection.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
                for reply in group {
                    let _ = reply.send(());
                }
            }
        });
    })
}

async fn postgres(url: &str, mut waiting: mpsc::Receiver<Waiting>) -> tokio::task::JoinHandle<()> {
    let (url, schema) = url.split_once("?schema=").unwrap();
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let sql = format!(
        "CREATE SCHEMA {schema}; SET search_path = {schema};
         CREATE TABLE raw (position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload TEXT)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    let payload = "x".repeat(300);
    tokio::spawn(async move {
        loop {
            let group = gather(&mut waiting).await;
            if group.is_empty() {
                return;
            }
            sqlx::query("INSERT INTO raw (payload) SELECT * FROM unnest($1::text[])")
                .bind(vec![payload.as_str(); group.len()])
                .execute(&mut connection)
                .await
                .unwrap();
            for reply in group {
                let _ = reply.send(());
            }
        }
    })
}
