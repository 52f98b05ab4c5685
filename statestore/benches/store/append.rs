//! Events a second by size of call and number of writers, beside a raw loop on the same database.

use std::sync::Arc;
use std::time::Instant;

use crate::load::{Place, append, run};
use crate::raw::Raw;
use crate::{Report, Scale, median};

/// Events of a call, and calls at once, each on a run of its own.
const SHAPES: [(usize, usize); 5] = [(1, 1), (2, 50), (10, 16), (100, 1), (1000, 1)];
/// Rows a commit of the raw loop.
const RAW: [usize; 3] = [1, 100, 1000];

/// Measures, raw and ours in turn, so that both see the same machine.
pub(crate) async fn measure(place: &Place, scale: Scale, report: &mut Report) {
    let mut raw = vec![Vec::new(); RAW.len()];
    let mut ours = vec![Vec::new(); SHAPES.len()];
    for _ in 0..scale.rounds {
        for (rates, batch) in raw.iter_mut().zip(RAW) {
            let events = events_for(scale, batch);
            rates.push(events as f64 / Raw::open(place).await.insert(events, batch).await);
        }
        for (rates, (batch, writers)) in ours.iter_mut().zip(SHAPES) {
            let events = events_for(scale, batch * writers);
            rates.push(events as f64 / appended(place, events, batch, writers).await);
        }
    }
    let name = place.name;
    let raw: Vec<f64> = raw.into_iter().map(median).collect();
    for (batch, rate) in RAW.iter().zip(&raw) {
        report.figure(format!("{name}, raw, {batch} rows a commit, rows/s"), *rate);
    }
    for ((batch, writers), rates) in SHAPES.into_iter().zip(ours) {
        let rate = median(rates);
        report.figure(format!("{name}, {writers} writers, {batch} events a call, events/s"), rate);
        // The raw loop with the same rows a commit; many writers are held against a hundred rows.
        let (beside, rows) = match (batch, writers) {
            (1, 1) => (raw[0], 1),
            (1000, 1) => (raw[2], 1000),
            _ => (raw[1], 100),
        };
        let label = format!("{name}, {writers} writers, {batch} events a call : raw, {rows} rows a commit");
        report.ratio(label, rate / beside);
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
    let started = Instant::now();
    let tasks: Vec<_> = runs
        .into_iter()
        .map(|run_id| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for call in 0..calls {
                    append(&*store, &run_id, call * batch, batch).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    started.elapsed().as_secs_f64()
}
