//! Every scenario of the suite gives the same trace as on the engine inside the process: the golden one.

use std::path::{Path, PathBuf};

use conformance::scenario::Scenario;
use conformance::trace::{Order, Trace};
use conformance::{Stop, Timeouts, World, check};
use libtest_mimic::Failed;

use crate::harness::TemporalHarness;

/// The scenarios.
pub(crate) fn scenarios() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder("scenarios")).expect("the scenarios are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.sort();
    assert!(files.len() >= 12, "only {} scenarios", files.len());
    files
}

pub(crate) fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance-tests").join(name)
}

/// Plays a scenario and compares its trace.
pub(crate) async fn compare(harness: &TemporalHarness, file: &Path) -> Result<(), Failed> {
    let scenario = Scenario::read(&std::fs::read_to_string(file)?)?;
    let trace = play(harness, &stem(file), &scenario).await?;
    let golden = std::fs::read_to_string(folder("golden").join(format!("{}.json", stem(file))))?;
    let order: Order = serde_json::from_str(&golden)?;
    match order.divergence(&trace) {
        None => Ok(()),
        Some(parted) => {
            let lines: Vec<String> = trace.moments.iter().map(ToString::to_string).collect();
            Err(format!("{parted}\n{}", lines.join("\n")).into())
        }
    }
}

async fn play(harness: &TemporalHarness, name: &str, scenario: &Scenario) -> Result<Trace, String> {
    let world = World::open(harness, name, Timeouts::default()).await.map_err(|error| error.to_string())?;
    let played = scenario.play(&world).await;
    let history = world.history().await.map_err(told)?;
    world.close().await;
    played.map_err(|stop| format!("{}\n{}", told(stop), history.lines().join("\n")))?;
    let violations: Vec<String> = check::all(&history).iter().map(ToString::to_string).collect();
    if !violations.is_empty() {
        return Err(violations.join("\n"));
    }
    history.runs.first().map(Trace::of).ok_or_else(|| "there is no run".to_owned())
}

fn told(stop: Stop) -> String {
    match stop {
        Stop::Fail(what) | Stop::Error(what) => what,
    }
}
