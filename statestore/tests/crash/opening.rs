//! Opening a database for the first time, by many at once, and one that a newer version wrote.

use std::time::{Duration, Instant};

use engine_core::Code;
use sqlx::AssertSqlSafe;

use super::author::shared_run;
use super::errand::{Errand, open, patient};
use super::ledger::{Ledger, outbox_has_all};
use super::patience::{chance, runtime};
use super::place::{Place, connect, connect_file, integrity};
use super::process::Process;

const ROUNDS: u32 = 8;
const OPENERS: u32 = 8;

/// A process starts, opens a fresh database and is done within about this time.
const WHILE_OPENING_MS: u64 = 80;

pub(crate) fn by_many_of_whom_some_are_killed(place: &Place) {
    let runtime = runtime();
    let mut before_they_had_opened = 0;
    for round in 0..ROUNDS {
        let url = place.fresh_url(round);
        let mut ledger = Ledger::default();
        before_they_had_opened += open_by_many(&url, round, &mut ledger);
        runtime.block_on(async {
            place.rest().await;
            let store = open(&url).await;
            let shared = shared_run(&*store).await;
            let logs = ledger.check(&*store).await;
            ledger.send_open_calls_again(&*store, &shared, &logs).await;
            ledger.decide(&*store, &shared, OPENERS).await;
            let logs = ledger.check(&*store).await;
            assert_eq!(logs.len() as u32, OPENERS + 1, "a run of each opener and the shared one");
            outbox_has_all(&*store, &logs).await;
            if matches!(place, Place::File(_)) {
                integrity(&url).await;
            }
        });
    }
    eprintln!("{before_they_had_opened} processes were killed before they had opened the store");
}

/// Some processes open a fresh database; nobody is killed in the first round, everybody in the last.
fn open_by_many(url: &str, round: u32, ledger: &mut Ledger) -> usize {
    let began = Instant::now();
    let openers = (0..OPENERS).map(|number| {
        ledger.open(number, 1);
        let victim = round == ROUNDS - 1 || (round > 0 && chance(2) == 0);
        let moment = victim.then(|| Duration::from_millis(chance(WHILE_OPENING_MS)));
        (moment, Process::start(&Errand::Open { url: url.to_owned(), number }))
    });
    let mut openers: Vec<(Option<Duration>, Process)> = openers.collect();
    // Who lives is waited for after all kills.
    openers.sort_by_key(|(moment, _)| moment.unwrap_or(Duration::MAX));
    let mut unopened = 0;
    for (moment, process) in openers {
        let lines = match moment {
            Some(moment) => {
                // The moment of the kill is what is tried out; nothing is waited for.
                std::thread::sleep(moment.saturating_sub(began.elapsed()));
                let lines = process.kill();
                unopened += usize::from(lines.is_empty());
                lines
            }
            None => {
                let lines = process.finish();
                assert_eq!(lines.len(), 1, "who lives has made a run");
                lines
            }
        };
        lines.iter().for_each(|line| ledger.acknowledge(line.parse().expect("an acknowledgement")));
    }
    unopened
}

/// STORE-12.
pub(crate) fn a_newer_schema_is_refused(place: &Place) {
    runtime().block_on(async {
        let run_id = shared_run(&*open(&place.url()).await).await;
        change_schema(
            place,
            "INSERT INTO drivetrain_schema (version, name, applied_at) VALUES (999, 'future', CURRENT_TIMESTAMP)",
        )
        .await;
        let error = statestore::open(&place.url(), patient()).await.expect_err("a newer schema");
        assert_eq!(error.code(), Code::StoreSchemaNewer, "{error}");
        assert!(error.message().contains("999"), "the message names the version: {error}");
        change_schema(place, "DELETE FROM drivetrain_schema WHERE version = 999").await;
        let again = shared_run(&*open(&place.url()).await).await;
        assert_eq!(again, run_id, "a refusal leaves everything as it was");
    });
}

async fn change_schema(place: &Place, statement: &str) {
    match place {
        Place::File(_) => {
            // A strict table has times as numbers.
            let statement = statement.replace("CURRENT_TIMESTAMP", "0");
            let mut connection = connect_file(&place.url()).await;
            sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.expect("changed");
        }
        Place::Database(options) => {
            let mut connection = connect(&options.clone().options([("search_path", "drivetrain")])).await;
            sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.expect("changed");
        }
    }
}
