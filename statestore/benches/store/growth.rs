//! What an append costs when a run has many events, beside what it cost when it had few.

use std::time::Instant;

use engine_core::RunId;
use engine_core::port::StateStore;

use crate::load::{Place, append, request, run};
use crate::{Report, Scale, median};

/// Where the first window begins.
const SMALL: usize = 1_000;
/// Events of one call while the run grows.
const GROWING: usize = 1_000;

/// Appends one event a call in two windows, and a hundred a call in two further ones.
pub(crate) async fn measure(place: &Place, scale: Scale, report: &mut Report) {
    for batch in [1, 100] {
        let store = place.open().await;
        let run_id = run(&*store).await;
        append(&*store, request(&run_id, 0, SMALL)).await;
        let small = window(&*store, &run_id, SMALL, scale.window, batch).await;
        let mut size = SMALL + scale.window;
        while size < scale.large_run {
            append(&*store, request(&run_id, size, GROWING)).await;
            size += GROWING;
        }
        let large = window(&*store, &run_id, size, scale.window, batch).await;
        let name = format!("{}, {batch} events a call, median", place.name);
        report.figure(format!("{name} at {SMALL} events, microseconds"), small);
        report.figure(format!("{name} at {} events, microseconds", scale.large_run), large);
        report.ratio(format!("{name} at {} : at {SMALL} events", scale.large_run), large / small);
    }
}

/// The median of what a call costs, in microseconds.
async fn window(store: &dyn StateStore, run_id: &RunId, first: usize, events: usize, batch: usize) -> f64 {
    let mut costs = Vec::with_capacity(events / batch);
    for call in 0..events / batch {
        let request = request(run_id, first + call * batch, batch);
        let started = Instant::now();
        append(store, request).await;
        costs.push(started.elapsed().as_secs_f64() * 1e6);
    }
    median(costs)
}
