//! How fast events are stored and read, each figure beside what the same database does without a store, in one run.
//!
//! - [`append`]: events a second by size of call and number of writers, beside a raw loop of multi-row inserts;
//!   goal: at least half of the raw rate, on SQLite (FULL) and on Postgres;
//! - [`growth`]: what an append costs when a run has many events, beside what it cost when it had few; goal: at most
//!   1.5 times;
//! - [`reading`]: reading all of a large run, and how much memory that takes.
//!
//! Run with `cargo xtask bench store`; the last line is the figures as JSON. Without arguments (`cargo test`) everything
//! runs once with small numbers.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod append;
mod growth;
mod load;
mod raw;
mod reading;

use serde_json::{Map, Value, json};

/// As in the program `drivetrain`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Rounds of each measurement; the median counts.
    pub(crate) rounds: usize,
    /// Events of one round.
    pub(crate) events: usize,
    /// The size that a run grows to.
    pub(crate) large_run: usize,
    /// Appends of one window.
    pub(crate) window: usize,
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) figures: Map<String, Value>,
    pub(crate) ratios: Map<String, Value>,
}

impl Report {
    pub(crate) fn figure(&mut self, name: String, value: f64) {
        eprintln!("{name}: {value:.1}");
        self.figures.insert(name, json!((value * 10.0).round() / 10.0));
    }

    pub(crate) fn ratio(&mut self, name: String, value: f64) {
        eprintln!("{name}: {value:.3}");
        self.ratios.insert(name, json!((value * 1000.0).round() / 1000.0));
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = match (has("--bench"), has("--quick")) {
        (false, _) => Scale { rounds: 1, events: 400, large_run: 2_000, window: 100 },
        (true, true) => Scale { rounds: 3, events: 10_000, large_run: 100_000, window: 2_000 },
        (true, false) => Scale { rounds: 5, events: 50_000, large_run: 1_000_000, window: 10_000 },
    };
    let mut report = Report::default();
    let folder = tempfile::tempdir().unwrap();
    // A name chooses: `store --bench postgres`.
    let chosen: Vec<&String> =
        arguments.iter().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for place in load::places(folder.path()) {
        if !chosen.is_empty() && !chosen.iter().any(|name| place.name.contains(name.as_str())) {
            continue;
        }
        append::measure(&place, scale, &mut report).await;
        growth::measure(&place, scale, &mut report).await;
        reading::measure(&place, scale, &mut report).await;
    }
    let settings = json!({
        "quick": has("--quick"),
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "rounds": scale.rounds,
        "eventsPerRound": scale.events,
        "largeRun": scale.large_run,
        "window": scale.window,
        "payloadBytes": load::PAYLOAD_BYTES,
        "durability": "SQLite FULL (WAL) and, where it says so, NORMAL; Postgres fsync on, synchronous_commit on",
        "raw": "the same columns and as many rows a commit as all writers bring at once, no checks, no outbox, no heads; \
            into a table with only a counting primary key, and into one with the two unique indexes of the log",
    });
    println!(
        "{}",
        json!({"bench": "store", "settings": settings, "figures": report.figures, "ratios": report.ratios})
    );
}
