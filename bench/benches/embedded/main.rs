//! The in-process engine beside what its database can do at all, in one run.
//!
//! W1: runs of ten no-op steps in a row, one at a time and fifty at once. W2: runs that fan out a hundred no-op steps
//! and join, ten at once. Every figure is steps a second, from before a run is made until its end is read from the log.
//!
//! - [`place`]: the databases; [`load`]: the engine on a store, and the two kinds of runs;
//! - [`ceiling`]: the same database without an engine: a loop that commits one row at a time, and a loop in which as many
//!   writers share group commits of one row a step. No run can be faster than one commit a step allows.
//!
//! Run with `cargo xtask bench embedded`; the last line is the figures as JSON. Words after `--bench` choose what is
//! measured: every one must be part of its name (`postgres "W1 50"`). Without arguments (`cargo test`)
//! everything runs once with small numbers.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod ceiling;
mod load;
mod place;

use serde_json::{Map, Value, json};

use load::Shape;
use place::Place;

/// As in the program `drivetrain`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Default)]
struct Report {
    figures: Map<String, Value>,
    ratios: Map<String, Value>,
}

impl Report {
    fn figure(&mut self, name: String, value: f64) {
        eprintln!("{name}: {value:.1}");
        self.figures.insert(name, json!((value * 10.0).round() / 10.0));
    }

    fn ratio(&mut self, name: String, value: f64) {
        eprintln!("{name}: {value:.3}");
        self.ratios.insert(name, json!((value * 1000.0).round() / 1000.0));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // Rounds, and seconds' worth of steps: a tenth of it where runs go one at a time.
    let (rounds, steps) = match (has("--bench"), has("--quick")) {
        (false, _) => (1, 200),
        (true, true) => (3, 20_000),
        (true, false) => (5, 100_000),
    };
    let chosen: Vec<&String> =
        arguments.iter().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::default();
    for place in Place::all(folder.path()) {
        for shape in [Shape::W1 { at_once: 1 }, Shape::W1 { at_once: 50 }, Shape::W2 { at_once: 10 }] {
            let name = format!("{}, {shape}", place.name);
            if !chosen.iter().all(|part| name.contains(part.as_str())) {
                continue;
            }
            measure(&place, shape, rounds, steps, &mut report).await;
        }
    }
    let settings = json!({
        "quick": has("--quick"),
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "rounds": rounds,
        "stepsPerRound": steps,
        "durability": "SQLite FULL (WAL) and, where it says so, NORMAL; Postgres fsync on, synchronous_commit on",
        "outbox": false,
        "ceiling": "one row of 300 bytes a step into a table with a counting key, group commit, as many writers as steps run at once",
    });
    println!(
        "{}",
        json!({"bench": "embedded", "settings": settings, "figures": report.figures, "ratios": report.ratios})
    );
}

async fn measure(place: &Place, shape: Shape, rounds: usize, steps: usize, report: &mut Report) {
    let steps = if shape.steps_at_once() == 1 { steps / 10 } else { steps };
    let [mut ours, mut commits, mut ceilings] = [const { Vec::new() }; 3];
    let mut gaps = Vec::new();
    for _ in 0..rounds {
        commits.push(ceiling::rate(place, steps.min(2_000), 1).await);
        ceilings.push(ceiling::rate(place, steps, shape.steps_at_once()).await);
        let measured = load::run(place, shape, steps).await;
        ours.push(measured.steps as f64 / measured.seconds);
        gaps.extend(measured.gaps);
    }
    let name = format!("{}, {shape}", place.name);
    let (ours, commits, ceiling) = (median(ours), median(commits), median(ceilings));
    report.figure(format!("{name}, steps/s"), ours);
    report.figure(format!("{name}, raw commit loop, commits/s"), commits);
    report.figure(format!("{name}, group-commit ceiling loop, rows/s"), ceiling);
    report.ratio(format!("{name} : group-commit ceiling loop"), ours / ceiling);
    if shape.steps_at_once() == 1 {
        report.ratio(format!("{name} : raw commit loop"), ours / commits);
    }
    gaps.sort_by(f64::total_cmp);
    for (name_of, share) in [("p50", 0.5), ("p95", 0.95)] {
        if let Some(gap) = gaps.get((gaps.len() as f64 * share) as usize) {
            report.figure(
                format!("{name}, from one handler's end to the next one's begin, {name_of}, microseconds"),
                *gap,
            );
        }
    }
}
