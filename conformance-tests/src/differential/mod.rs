//! Random testing: plans, scripts and signals drawn by chance, run on an engine in virtual time, and on a model that is
//! nothing but the decider. Both must come to the same.
//!
//! - [`generate`]: what is drawn; [`model`]: the reference; [`walk`]: what is done to a run, as a scenario;
//! - this file: the comparison, and a campaign of many.
//!
//! What is compared: the answer to every signal, the length of the log whenever nothing happens by itself, the end of the
//! run, every attempt's status, every call of a handler, and the trace as a partial order; and every checker judges the
//! engine's history. A counterexample is made small, and left as a scenario that fails when it is played.

pub mod generate;
pub mod model;
pub mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine_core::event::{Body, Event};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use crate::check;
use crate::harness::Harness;
use crate::history::{History, RunHistory};
use crate::scenario::Scenario;
use crate::timeouts::Timeouts;
use crate::trace::{Order, Trace, side_by_side};
use crate::verdict::Stop;
use crate::world::World;
use generate::{Draw, draws};
use walk::Walk;

/// How many draws, and which.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// How many.
    pub cases: u32,
    /// The same seed draws the same.
    pub seed: u64,
    /// Where a counterexample goes.
    pub folder: PathBuf,
}

/// A draw on which engine and model differ, made as small as could be.
#[derive(Debug)]
pub struct Counterexample {
    /// How they differ.
    pub what: String,
    /// What was drawn.
    pub scenario: Option<Scenario>,
    /// Where the scenario lies.
    pub file: Option<PathBuf>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            writeln!(formatter, "a counterexample lies in {}", file.display())?;
        }
        formatter.write_str(&self.what)
    }
}

/// What a campaign did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Draws that were played.
    pub cases: u32,
    /// Events that engine and model agree on.
    pub events: u64,
    /// Signals whose answers they agree on.
    pub signals: u64,
}

/// Longer than anything takes in virtual time; a hang is a difference too.
const TIMEOUT: Duration = Duration::from_secs(3);

impl Campaign {
    /// Draws and compares.
    ///
    /// # Errors
    /// The first draw on which engine and model differ, made small.
    pub fn run(&self, harness: &Arc<dyn Harness>, runtime: &Runtime) -> Result<Done, Box<Counterexample>> {
        let config = Config {
            cases: self.cases,
            failure_persistence: None,
            max_shrink_iters: 3000,
            max_shrink_time: 60_000,
            max_global_rejects: self.cases.max(1024) * 4,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let done = std::cell::Cell::new(Done::default());
        let outcome = runner.run(&draws(), |draw| {
            let played = runtime.block_on(compare(&**harness, &draw)).map_err(TestCaseError::fail)?;
            let Some(played) = played else { return Err(TestCaseError::reject("no plan")) };
            let before = done.get();
            done.set(Done {
                cases: before.cases + 1,
                events: before.events + played.events,
                signals: before.signals + played.signals,
            });
            Ok(())
        });
        match outcome {
            Ok(()) => Ok(done.get()),
            Err(TestError::Fail(why, draw)) => Err(Box::new(self.keep(why.message(), &draw))),
            Err(TestError::Abort(why)) => {
                Err(Box::new(Counterexample { what: why.to_string(), scenario: None, file: None }))
            }
        }
    }

    /// Leaves a counterexample where somebody finds it.
    fn keep(&self, what: &str, draw: &Draw) -> Counterexample {
        let scenario = Walk::of(&draw.plan, &draw.choices).ok().flatten().map(|walk| walk.scenario);
        let file = scenario.as_ref().and_then(|scenario| write(&self.folder, self.seed, scenario).ok());
        Counterexample { what: what.to_owned(), scenario, file }
    }
}

fn write(folder: &Path, seed: u64, scenario: &Scenario) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("counterexample-{seed}.yaml"));
    // JSON is YAML.
    std::fs::write(&file, serde_json::to_string_pretty(scenario)? + "\n")?;
    Ok(file)
}

/// Plays a draw on the engine and on the model. None when it is no plan.
///
/// # Errors
/// How they differ.
pub async fn compare(harness: &dyn Harness, draw: &Draw) -> Result<Option<Done>, String> {
    let Some(walk) = Walk::of(&draw.plan, &draw.choices)? else { return Ok(None) };
    let timeouts = Timeouts { event: TIMEOUT, ..Timeouts::default() };
    let world = World::open(harness, "differential", timeouts).await.map_err(|error| error.to_string())?;
    let played = walk.scenario.play(&world).await;
    let history = world.history().await;
    world.close().await;
    let history = history.map_err(told)?;
    let different = match played {
        Err(stop) => Some(told(stop)),
        Ok(_) => differences(&walk, &history),
    };
    match different {
        None => {
            let signals = walk.model.log().iter().filter(|event| is_decision(event)).count();
            Ok(Some(Done { cases: 1, events: walk.model.log().len() as u64, signals: signals as u64 }))
        }
        Some(what) => Err(format!("{what}\n{}", beside(&walk, &history))),
    }
}

fn is_decision(event: &Event) -> bool {
    matches!(event.body, Body::SignalAccepted(_) | Body::SignalRejected(_))
}

fn told(stop: Stop) -> String {
    match stop {
        Stop::Fail(what) | Stop::Error(what) => what,
    }
}

fn differences(walk: &Walk, history: &History) -> Option<String> {
    let Some(run) = history.runs.first() else { return Some("the engine has no run".to_owned()) };
    let (expected, seen) = (attempts(walk.model.log()), attempts(&run.events));
    if expected != seen {
        return Some(format!("the attempts of the model: {expected:?}\nand of the engine: {seen:?}"));
    }
    let mut expected = walk.model.entries().to_vec();
    let mut seen: Vec<String> = history.visits.iter().map(ToString::to_string).collect();
    // Siblings are called in any order.
    expected.sort();
    seen.sort();
    if expected != seen {
        return Some(format!("the calls of the model: {expected:?}\nand of the engine: {seen:?}"));
    }
    if let Some(parted) = Order::of(&trace_of(walk, run)).divergence(&Trace::of(run)) {
        return Some(format!("the traces part at {parted}"));
    }
    let violations: Vec<String> = check::all(history).iter().map(ToString::to_string).collect();
    (!violations.is_empty()).then(|| violations.join("\n"))
}

/// How every attempt ended.
fn attempts(log: &[Event]) -> BTreeMap<(String, u32), &str> {
    let ends = log.iter().filter_map(|event| {
        let subject = event.subject.as_ref()?;
        let ends = matches!(
            event.body,
            Body::StepCompleted(_) | Body::StepFailed(_) | Body::StepSkipped(_) | Body::StepCancelled(_)
        );
        ends.then(|| ((subject.step.to_string(), subject.attempt), event.body.type_name()))
    });
    ends.collect()
}

fn trace_of(walk: &Walk, run: &RunHistory) -> Trace {
    Trace::of(&RunHistory { events: walk.model.log().to_vec(), snapshot: None, ..run.clone() })
}

fn beside(walk: &Walk, history: &History) -> String {
    match history.runs.first() {
        Some(run) => side_by_side(&[("model", &trace_of(walk, run)), ("engine", &Trace::of(run))]),
        None => String::new(),
    }
}
