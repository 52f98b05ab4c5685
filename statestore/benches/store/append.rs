//! Events a second by size of call and number of writers, beside a raw loop on the same database.

use std::sync::Arc;
use std::time::Instant;

use engine_core::port::store::AppendRequest;

use crate::load::{Place, append, request, run};
use crate::raw::{Keys, Raw};
use crate::{Report, Scale, median};

/// Events of a call, and calls at once, each on a run of its own.
const SHAPES: [(usize, usize); 5] = [(1, 1), (2, 50), (10, 16), (100, 1), (1000, 1)];

/// Measures, raw and ours in turn, so that both see the same machine.
pub(crate) async fn measure(place: &Place, scale: Scale, report: &mut Report) {
    let name = place.name;
    for (batch, writers) in SHAPES {
        // One commit of the raw loop has what all writers bring at once.
        let rows = batch * writers;
        let events = events_for(scale, rows);
        let [mut ours, mut bare, mut unique] = [const { Vec::new() }; 3];
        for _ in 0..scale.rounds {
            for (rates, keys) in [(&mut bare, Keys::Counting), (&mut unique, Keys::Unique)] {
                let seconds = Raw::open(place, keys).await.insert(events, rows, writers).await;
                rates.push(events as f64 / seconds);
            }
            ours.push(events as f64 / appended(place, events, batch, writers).await);
        }
        let (ours, bare, unique) = (median(ours), median(bare), median(unique));
        let shape = format!("{name}, {writers} writers, {batch} events a call");
        report.figure(format!("{shape}, events/s"), ours);
        report.figure(format!("{name}, raw, {rows} rows of {writers} runs a commit, rows/s"), bare);
        report.figure(
            format!("{name}, raw with unique indexes, {rows} rows of {writers} runs a commit, rows/s"),
            unique,
        );
        report.ratio(format!("{shape} : raw"), ours / bare);
        report.ratio(format!("{shape} : raw with unique indexes"), ours / unique);
    }
}

/// Small commits are slow: fewer of them show the rate as well.
fn events_for(scale: Scale, at_once: usize) -> usize {
    let events = if at_once < 10 { scale.events / 10 } else { scale.events };
    events.next_multiple_of(at_once)
}

/// Seconds for so many events.
async fn appended(place: &Place, events: usize, batch: usize, writers: usize) -> f64 {
    let store = place.open().await;
    let mut runs = Vec::new();
    for _ in 0..writers {
        runs.push(run(&*store).await);
    }
    let calls = events / batch / writers;
    // What callers want to append is ready before the clock runs, as the rows of the raw loop are.
    let ready: Vec<Vec<AppendRequest>> = runs
        .iter()
        .map(|run_id| (0..calls).map(|call| request(run_id, call * batch, batch)).collect())
        .collect();
    let started = Instant::now();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|requests| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for request in requests {
                    append(&*store, request).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    started.elapsed().as_secs_f64()
}
