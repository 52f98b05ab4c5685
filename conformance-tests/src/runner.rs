//! Runs cases and judges what was recorded.

use std::sync::Arc;
use std::time::Instant;

use engine_core::port::Capability;
use futures_util::StreamExt as _;

use crate::case::Case;
use crate::check;
use crate::harness::{Harness, Need};
use crate::report::{CaseReport, Report};
use crate::timeouts::Timeouts;
use crate::verdict::{Stop, Verdict};
use crate::world::World;

/// How a suite is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Cases that run at once.
    pub at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeouts: Timeouts::default(), at_once: 4 }
    }
}

/// Runs cases, a few at once, and tells of each as it ends.
pub async fn run(
    harness: &Arc<dyn Harness>,
    cases: &[Case],
    options: Options,
    mut told: impl FnMut(&CaseReport),
) -> Report {
    let running = cases.iter().map(|case| run_case(Arc::clone(harness), *case, options.timeouts));
    let mut running = futures_util::stream::iter(running).buffer_unordered(options.at_once.max(1));
    let mut reports = Vec::new();
    while let Some(report) = running.next().await {
        told(&report);
        reports.push(report);
    }
    Report::new(harness.describe(), options.timeouts.scale, reports)
}

/// Runs one case.
pub async fn run_case(harness: Arc<dyn Harness>, case: Case, timeouts: Timeouts) -> CaseReport {
    let began = Instant::now();
    // In a task of its own: a case that panics has failed, and takes nothing else with it.
    let task = tokio::spawn(async move {
        tokio::time::timeout(timeouts.for_case(), attempt(&*harness, &case, timeouts)).await
    });
    let verdict = match task.await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => Verdict::Fail {
            what: format!("it did not end within {} s", timeouts.for_case().as_secs_f64()),
            evidence: Vec::new(),
        },
        Err(panic) => Verdict::Fail { what: format!("it panicked: {panic}"), evidence: Vec::new() },
    };
    CaseReport::new(&case, &verdict, began.elapsed())
}

async fn attempt(harness: &dyn Harness, case: &Case, timeouts: Timeouts) -> Verdict {
    let faults = harness.faults();
    let missing = case.needs.iter().find_map(|need| match need {
        Need::Can(fault) if !faults.contains(fault) => Some(format!("the harness cannot: {}", fault.name())),
        _ => None,
    });
    if let Some(lacks) = missing {
        return Verdict::Skipped { lacks };
    }
    let world = match World::open(harness, case.name, timeouts).await {
        Ok(world) => world,
        Err(error) => return Verdict::Error { what: format!("the subject cannot be opened: {error}") },
    };
    let verdict = judge(&world, case).await;
    world.close().await;
    verdict
}

async fn judge(world: &World, case: &Case) -> Verdict {
    if let Some(lacks) = lacking(world, case) {
        return Verdict::Skipped { lacks };
    }
    let outcome = (case.run)(world).await;
    let slips = world.slips();
    if !slips.is_empty() {
        return Verdict::Error { what: format!("the case's scripts: {}", slips.join("; ")) };
    }
    let history = match world.history().await {
        Ok(history) => history,
        Err(error) => return Verdict::Error { what: format!("the history cannot be read: {error}") },
    };
    let violations: Vec<String> = check::all(&history).iter().map(ToString::to_string).collect();
    match outcome {
        Err(Stop::Error(what)) => Verdict::Error { what },
        Err(Stop::Fail(what)) => {
            let evidence = violations.into_iter().chain(history.lines()).collect();
            Verdict::Fail { what, evidence }
        }
        Ok(()) if violations.is_empty() => Verdict::Pass,
        Ok(()) => Verdict::Fail { what: violations.join("; "), evidence: history.lines() },
    }
}

/// What the engine does not declare, or declares, that the case needs otherwise.
fn lacking(world: &World, case: &Case) -> Option<String> {
    let capabilities = world.capabilities();
    let name = |capability: Capability| format!("{capability:?}");
    case.needs.iter().find_map(|need| match *need {
        Need::Has(capability) if !capabilities.has(capability) => {
            Some(format!("the engine does not declare {}", name(capability)))
        }
        Need::Lacks(capability) if capabilities.has(capability) => {
            Some(format!("the engine declares {}", name(capability)))
        }
        Need::Leases if world.subject().engine.lease().is_none() => {
            Some("the engine drives without leases of the store".to_owned())
        }
        _ => None,
    })
}
