//! Runs cases and judges what was recorded.

use std::sync::Arc;
use std::time::Instant;

use engine_core::port::Capability;
use futures_util::StreamExt as _;

use crate::case::Case;
use crate::check;
use crate::harness::{Harness, Need};
use crate::report::{CaseReport, ExcludedCase, Report, ScenarioReport};
use crate::scenario::shipped::Shipped;
use crate::timeouts::Timeouts;
use crate::trace::Trace;
use crate::variant::{Variant, excluded};
use crate::verdict::{Stop, Verdict};
use crate::world::World;

/// How a suite is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Cases that run at once.
    pub at_once: usize,
    /// What goes wrong all the time, one after another; `None` is nothing.
    pub variants: Vec<Option<Variant>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeouts: Timeouts::default(), at_once: 4, variants: vec![None] }
    }
}

/// Runs cases, a few at once, and tells of each as it ends.
pub async fn run(
    harness: &Arc<dyn Harness>,
    cases: &[Case],
    options: Options,
    mut told: impl FnMut(&CaseReport),
) -> Report {
    let mut excluded = Vec::new();
    let mut chosen = Vec::new();
    for variant in options.variants {
        for case in cases {
            match variant.and_then(|variant| Some((variant, excluded::reason(variant, case)?))) {
                Some((variant, because)) => excluded.push(ExcludedCase::new(variant, case, because)),
                None => chosen.push((variant, *case)),
            }
        }
    }
    let running = chosen
        .into_iter()
        .map(|(variant, case)| run_case_under(variant, Arc::clone(harness), case, options.timeouts));
    let mut running = futures_util::stream::iter(running).buffer_unordered(options.at_once.max(1));
    let mut reports = Vec::new();
    while let Some(report) = running.next().await {
        told(&report);
        reports.push(report);
    }
    Report::new(harness.describe(), options.timeouts.scale, reports).with_excluded(excluded)
}

/// Plays a scenario, and compares what the run did with what every engine must linearise.
pub async fn play(harness: &dyn Harness, shipped: &Shipped, timeouts: Timeouts) -> ScenarioReport {
    let began = Instant::now();
    let about = shipped.scenario().map(|scenario| scenario.about).unwrap_or_default();
    let played = tokio::time::timeout(timeouts.for_case(), played(harness, shipped, timeouts));
    let (trace, stopped) = match played.await {
        Ok(Ok((trace, stopped))) => (trace, stopped),
        Ok(Err(stop)) => (Trace::default(), Some(stop)),
        Err(_) => (Trace::default(), Some(Stop::Fail("it did not end in time".to_owned()))),
    };
    let (verdict, what) = match stopped {
        None => ("pass", None),
        Some(Stop::Fail(what)) => ("fail", Some(what)),
        Some(Stop::Error(what)) => ("error", Some(what)),
    };
    ScenarioReport {
        name: shipped.name.to_owned(),
        about,
        verdict: verdict.to_owned(),
        what,
        trace,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// What a run did, and why that is not what it should have done.
async fn played(
    harness: &dyn Harness,
    shipped: &Shipped,
    timeouts: Timeouts,
) -> Result<(Trace, Option<Stop>), Stop> {
    let scenario = shipped.scenario().map_err(Stop::Error)?;
    let golden = shipped.golden().map_err(Stop::Error)?;
    let world =
        World::open(harness, shipped.name, timeouts).await.map_err(|error| Stop::Error(error.what))?;
    let outcome = scenario.play(&world).await;
    let history = world.history().await;
    world.close().await;
    let history = history?;
    let trace = history.runs.first().map(Trace::of).unwrap_or_default();
    let stopped = match outcome {
        Err(stop) => Some(stop),
        Ok(_) => {
            let parted = golden.divergence(&trace).map(|parted| parted.to_string());
            let violations =
                check::all(&history).iter().map(ToString::to_string).reduce(|all, one| all + "; " + &one);
            parted.or(violations).map(Stop::Fail)
        }
    };
    Ok((trace, stopped))
}

/// Runs one case.
pub async fn run_case(harness: Arc<dyn Harness>, case: Case, timeouts: Timeouts) -> CaseReport {
    run_case_under(None, harness, case, timeouts).await
}

/// Runs one case while something goes wrong all the time.
pub async fn run_case_under(
    variant: Option<Variant>,
    harness: Arc<dyn Harness>,
    case: Case,
    timeouts: Timeouts,
) -> CaseReport {
    let began = Instant::now();
    // In a task of its own: a case that panics has failed, and takes nothing else with it.
    let task = tokio::spawn(async move {
        tokio::time::timeout(timeouts.for_case(), attempt(variant, &*harness, &case, timeouts)).await
    });
    let verdict = match task.await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => Verdict::Fail {
            what: format!("it did not end within {} s", timeouts.for_case().as_secs_f64()),
            evidence: Vec::new(),
        },
        Err(panic) => Verdict::Fail { what: format!("it panicked: {panic}"), evidence: Vec::new() },
    };
    CaseReport::new(&case, variant, &verdict, began.elapsed())
}

async fn attempt(
    variant: Option<Variant>,
    harness: &dyn Harness,
    case: &Case,
    timeouts: Timeouts,
) -> Verdict {
    let faults = harness.faults();
    let missing = case.needs.iter().find_map(|need| match need {
        Need::Can(fault) if !faults.contains(fault) => Some(format!("the harness cannot: {}", fault.name())),
        _ => None,
    });
    let lacking = variant.filter(|variant| !harness.variants().contains(variant));
    if let Some(lacks) = lacking.map(|variant| format!("the harness cannot: {variant}")).or(missing) {
        return Verdict::Skipped { lacks };
    }
    let world = match World::open_under(variant, harness, case.name, timeouts).await {
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
        Err(error) => {
            let unread = format!("the history cannot be read: {error}");
            return match outcome {
                // What the case has shown stands, also where nobody can look at it any more.
                Err(Stop::Fail(what)) => Verdict::Fail { what, evidence: vec![unread] },
                Err(Stop::Error(_)) | Ok(()) => Verdict::Error { what: unread },
            };
        }
    };
    let mut violations: Vec<String> = check::all(&history).iter().map(ToString::to_string).collect();
    violations.extend(world.findings());
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
            Some(format!("it is about engines without {}, and this one declares it", name(capability)))
        }
        Need::Leases if world.subject().engine.lease().is_none() => {
            Some("the engine drives without leases of the store".to_owned())
        }
        _ => None,
    })
}
