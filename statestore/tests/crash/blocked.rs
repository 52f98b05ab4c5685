//! Somebody else holds the database: for longer than the write budget, callers are told so in time; for shorter, they
//! wait. Either way each call is stored once.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use statestore::Options;

use super::author::{Manner, by_code, shared_run};
use super::calls::TASKS;
use super::crew::{Crew, refused_in_time};
use super::errand::open;
use super::ledger::{Ledger, outbox_has_all};
use super::patience::runtime;
use super::place::{Place, connect, connect_file};

const BUDGET: Duration = Duration::from_millis(500);

/// A transaction that lets nobody write.
#[derive(Debug)]
enum Block {
    File(SqliteConnection),
    Server(PgConnection),
}

impl Block {
    async fn begin(place: &Place) -> Self {
        match place {
            Place::File(_) => {
                let mut connection = connect_file(&place.url()).await;
                sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.expect("the write lock");
                Self::File(connection)
            }
            Place::Database(options) => {
                let mut connection = connect(options).await;
                sqlx::raw_sql("BEGIN; LOCK TABLE drivetrain.events IN EXCLUSIVE MODE")
                    .execute(&mut connection)
                    .await
                    .expect("the lock");
                Self::Server(connection)
            }
        }
    }

    /// Closing a connection rolls back what it had begun.
    async fn end(self) {
        match self {
            Self::File(connection) => connection.close().await.expect("closed"),
            Self::Server(connection) => connection.close().await.expect("closed"),
        }
    }
}

pub(crate) fn what_was_given_up_is_not_stored_twice(place: &Place) {
    let (runtime, mut ledger) = (runtime(), Ledger::default());
    let patient = runtime.block_on(open(&place.url()));
    let shared = runtime.block_on(shared_run(&*patient));
    let options = Options { write_budget: BUDGET, ..Options::default() };
    let store = runtime.block_on(statestore::open(&place.url(), options)).expect("opened");
    let crew = Crew::start(&runtime, &store, Manner::Insistent, 1, &shared);
    // Several blocks, so that calls of every kind are caught.
    for _ in 0..4 {
        crew.until_calls(&crew.calls(), 3);
        let refused = crew.refusals().len();
        let block = runtime.block_on(Block::begin(place));
        let calls = crew.calls();
        crew.until_refused(refused, 2);
        let meanwhile: u32 = crew.calls().iter().zip(calls).map(|(now, then)| now - then).sum();
        assert!(meanwhile <= TASKS, "{meanwhile} calls were acknowledged while nobody could write");
        runtime.block_on(block.end());
    }
    crew.until_calls(&crew.calls(), 5);
    let refusals = crew.finish(&runtime, &mut ledger);
    refused_in_time(&refusals, BUDGET);
    runtime.block_on(async {
        let logs = ledger.check(&*patient).await;
        outbox_has_all(&*patient, &logs).await;
    });
    eprintln!(
        "{} calls acknowledged, each stored once; refused in time: {:?}",
        ledger.calls(),
        by_code(&refusals)
    );
}

pub(crate) fn a_short_block_is_waited_out(place: &Place) {
    let (runtime, mut ledger) = (runtime(), Ledger::default());
    let options = Options { write_budget: Duration::from_secs(20), ..Options::default() };
    let store = runtime.block_on(statestore::open(&place.url(), options)).expect("opened");
    let shared = runtime.block_on(shared_run(&*store));
    let crew = Crew::start(&runtime, &store, Manner::Steady, 1, &shared);
    crew.until_calls(&crew.calls(), 5);
    let block = runtime.block_on(Block::begin(place));
    let before = crew.calls();
    // How long it is held is what is tried out: longer than one statement waits for a lock.
    std::thread::sleep(Duration::from_secs(2));
    let meanwhile: u32 = crew.calls().iter().zip(before).map(|(now, then)| now - then).sum();
    assert!(meanwhile <= TASKS, "{meanwhile} calls were acknowledged while nobody could write");
    runtime.block_on(block.end());
    crew.until_calls(&crew.calls(), 5);
    crew.finish(&runtime, &mut ledger);
    runtime.block_on(ledger.check(&*store));
}
