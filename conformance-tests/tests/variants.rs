//! The same cases while something goes wrong all the time: one test per variant and case, on the engine inside the
//! process, in memory and in virtual time. `conformance::variant::excluded` says which are left out, and why.

use std::sync::{Arc, OnceLock};

use conformance::history::Item;
use conformance::in_process::InProcessHarness;
use conformance::report::CaseReport;
use conformance::variant::excluded::{self, EXCLUDED, Excluded};
use conformance::{Case, Harness, History, Need, Stop, Timeouts, Variant, World, cases, run_case_under};
use engine_core::event::Body;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

fn main() {
    let mut arguments = Arguments::from_args();
    // Most of the time is waiting for a slow store, which keeps no core busy.
    arguments.test_threads.get_or_insert(16);
    let mut trials = Vec::new();
    for variant in Variant::ALL {
        for case in cases::all() {
            if excluded::reason(variant, &case).is_none() {
                trials.push(Trial::test(format!("{variant}::{}", case.name), move || run(variant, case)));
            }
        }
        trials.push(Trial::test(format!("{variant}::something_goes_wrong"), move || goes_wrong(variant)));
    }
    for excluded in EXCLUDED {
        let name = format!("excluded::{}::{}", excluded.variant, excluded.case);
        trials.push(Trial::test(name, || needs_to_be_left_out(excluded)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// How often a case that is left out is tried: chance may spare it once.
const TRIES: usize = 5;

fn report(variant: Variant, case: Case, timeouts: Timeouts) -> Result<CaseReport, Failed> {
    let harness = InProcessHarness::on("memory:").map_err(|error| error.to_string())?;
    let modest = case.needs.iter().any(|need| matches!(need, Need::Lacks(_)));
    let harness: Arc<dyn Harness> = Arc::new(if modest { harness.modest() } else { harness });
    Ok(runtime().block_on(run_case_under(Some(variant), harness, case, timeouts)))
}

/// What is left out without need is taken in again.
fn needs_to_be_left_out(excluded: &Excluded) -> Result<(), Failed> {
    let case = cases::find(excluded.case).ok_or_else(|| format!("there is no case {}", excluded.case))?;
    for _ in 0..TRIES {
        // What it waits for may never come.
        if report(excluded.variant, case, Timeouts::scaled(0.1))?.verdict != "pass" {
            return Ok(());
        }
    }
    Err(format!("{} passes under {}: take it out of the list", excluded.case, excluded.variant).into())
}

/// A variant under which nothing goes wrong would prove nothing.
fn goes_wrong(variant: Variant) -> Result<(), Failed> {
    let history = runtime().block_on(some_runs(variant))?;
    let found = |wanted: &dyn Fn(&Body) -> bool| {
        history.runs.iter().flat_map(|run| &run.events).any(|event| wanted(&event.body))
    };
    let holds = match variant {
        // Only a worker that claims says until when.
        Variant::DuplicateDelivery => {
            found(&|body| matches!(body, Body::StepStarted(started) if started.claim_until.is_some()))
        }
        Variant::WorkerRestart => {
            let killed = history.items.iter().filter(|item| **item == Item::Killed).count();
            let lost = |body: &Body| matches!(body, Body::StepRetried(retried) if retried.worker_lost);
            killed > 1 && found(&lost)
        }
        Variant::SlowStore => history.late > 0,
        Variant::Rebuild => history.rebuilt > 0,
    };
    if holds { Ok(()) } else { Err(format!("nothing goes wrong: {}", history.lines().join("\n")).into()) }
}

async fn some_runs(variant: Variant) -> Result<History, String> {
    let told = |stop: Stop| stop.to_string();
    let harness = InProcessHarness::on("memory:").map_err(|error| error.to_string())?;
    let world = World::open_under(Some(variant), &harness, "some.runs", Timeouts::default())
        .await
        .map_err(|error| error.to_string())?;
    for _ in 0..5 {
        let run = world.start(PLAN).await.map_err(told)?;
        run.ended().await.map_err(told)?;
    }
    let history = world.history().await.map_err(told)?;
    world.close().await;
    Ok(history)
}

const PLAN: &str = "
id: some
version: 1.0.0
steps:
  - {id: a, handler: script}
  - {id: b, handler: script, dependsOn: [a]}
  - {id: c, handler: script, dependsOn: [b]}
";

fn run(variant: Variant, case: Case) -> Result<(), Failed> {
    let report = report(variant, case, Timeouts::default())?;
    match report.verdict.as_str() {
        "pass" => Ok(()),
        verdict => {
            let what = report.what.unwrap_or_default();
            Err(format!("{verdict}: {what}\n{}", report.evidence.join("\n")).into())
        }
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}
