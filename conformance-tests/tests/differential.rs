//! Random plans, scripts and signals on the engine inside the process, against the decider alone.
//! `cargo xtask differential --cases N --seed S` is a longer campaign.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use conformance::Harness;
use conformance::differential::Campaign;
use conformance::in_process::InProcessHarness;

/// How many are drawn, and from where on; a campaign says so.
const CASES: &str = "DRIVETRAIN_DIFFERENTIAL_CASES";
const SEED: &str = "DRIVETRAIN_DIFFERENTIAL_SEED";

/// On each of two threads, unless a campaign says otherwise: well below a minute on a small machine.
const CASES_OF_A_THREAD: u32 = 1500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

#[test]
fn engine_and_model_come_to_the_same() {
    let cases = number(CASES).map_or(CASES_OF_A_THREAD, |cases| u32::try_from(cases.div_ceil(2)).unwrap());
    let seed = number(SEED).unwrap_or(1);
    let began = Instant::now();
    let threads: Vec<_> =
        [seed, seed + 1_000_000].map(|seed| std::thread::spawn(move || play(cases, seed))).into();
    let mut done = (0, 0, 0);
    for thread in threads {
        let one = thread.join().unwrap();
        done = (done.0 + one.cases, done.1 + one.events, done.2 + one.signals);
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{} draws, {} events, {} signals in {seconds:.1} s: {:.0} draws/s",
        done.0,
        done.1,
        done.2,
        f64::from(done.0) / seconds
    );
    assert!(done.0 > 0, "nothing was played");
}

fn play(cases: u32, seed: u64) -> conformance::differential::Done {
    let harness: Arc<dyn Harness> = Arc::new(InProcessHarness::on("memory:").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential");
    match (Campaign { cases, seed, folder }).run(&harness, &runtime) {
        Ok(done) => done,
        Err(counterexample) => panic!("{counterexample}"),
    }
}
