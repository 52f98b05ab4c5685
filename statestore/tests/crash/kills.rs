//! Whatever was acknowledged is there after the process was killed at any moment (STORE-11).
//!
//! One database lives through all kills. After every second one it is checked; after the others the next process finds
//! it as the killed one left it.

use std::time::{Duration, Instant};

use super::author::shared_run;
use super::calls::TASKS;
use super::errand::{Errand, open};
use super::ledger::{Ledger, outbox_has_all};
use super::patience::{chance, runtime};
use super::place::Place;
use super::process::Process;

/// The most acknowledgements before a kill.
const MOST_LINES: u64 = 200;

fn kills() -> u32 {
    match std::env::var("DRIVETRAIN_TORTURE_KILLS") {
        Ok(text) => text.parse().expect("DRIVETRAIN_TORTURE_KILLS is a number"),
        Err(_) => 50,
    }
}

pub(crate) fn acknowledged_events_survive(place: &Place) {
    let runtime = runtime();
    let mut ledger = Ledger::default();
    let (kills, mut left_beside, mut unheard) = (kills(), 0, 0);
    for generation in 1..=kills {
        ledger.open(generation, TASKS);
        kill_while_appending(place, generation, &mut ledger);
        left_beside += u32::from(place.has_changes_beside());
        if generation % 2 == 0 || generation == kills {
            unheard += runtime.block_on(check(place, generation, &mut ledger));
        }
    }
    if matches!(place, Place::File(_)) {
        assert!(left_beside > 0, "no process was killed with changes beside the file");
    }
    let (calls, events) = runtime.block_on(async {
        let store = open(&place.url()).await;
        let logs = ledger.check(&*store).await;
        outbox_has_all(&*store, &logs).await;
        (ledger.calls(), logs.values().map(Vec::len).sum::<usize>())
    });
    eprintln!(
        "{kills} kills, {left_beside} with changes beside the file; {calls} calls, {events} events; {unheard} calls \
         were stored that nobody had been told of"
    );
}

fn kill_while_appending(place: &Place, generation: u32, ledger: &mut Ledger) {
    let process = Process::start(&Errand::Append { url: place.url(), generation });
    for _ in 0..=chance(MOST_LINES) {
        let line = process.line().expect("a process that appends until it is killed");
        ledger.acknowledge(line.parse().expect("an acknowledgement"));
    }
    // Right after an acknowledgement is always the same moment of a commit: any other is as good.
    let (moment, until) = (Instant::now(), Duration::from_micros(chance(1000)));
    while moment.elapsed() < until {
        std::hint::spin_loop();
    }
    for line in process.kill() {
        ledger.acknowledge(line.parse().expect("an acknowledgement"));
    }
}

/// How many calls were stored that nobody had been told of.
async fn check(place: &Place, generation: u32, ledger: &mut Ledger) -> usize {
    place.rest().await;
    let store = open(&place.url()).await;
    let shared = shared_run(&*store).await;
    let logs = ledger.check(&*store).await;
    let unheard = ledger.send_open_calls_again(&*store, &shared, &logs).await;
    ledger.decide(&*store, &shared, generation).await;
    place.integrity().await;
    unheard
}
