//! The suite on the engine inside the process, in virtual time: one test per store and case, on memory, SQLite and
//! Postgres.

use std::sync::{Arc, OnceLock};

use conformance::in_process::InProcessHarness;
use conformance::{Case, Harness, Need, Timeouts, cases, run_case};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for store in ["memory", "sqlite", "postgres"] {
        for case in cases::all() {
            trials.push(Trial::test(format!("{store}::{}", case.name), move || run(store, case)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn run(store: &'static str, case: Case) -> Result<(), Failed> {
    let report = runtime().block_on(run_case(harness(store, &case)?, case, Timeouts::default()));
    match report.verdict.as_str() {
        "pass" => Ok(()),
        // A skipped case is none that passed: each finds what it needs here.
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

/// A harness on the store; where the case is about an ability that is lacking, of engines that declare none.
fn harness(store: &str, case: &Case) -> Result<Arc<dyn Harness>, Failed> {
    let url = match store {
        "memory" => "memory:".to_owned(),
        "sqlite" => "sqlite:".to_owned(),
        _ => dev_servers::postgres::shared_url().map_err(|error| format!("{error:#}"))?,
    };
    let harness = InProcessHarness::on(&url).map_err(|error| error.to_string())?;
    let modest = case.needs.iter().any(|need| matches!(need, Need::Lacks(_)));
    Ok(Arc::new(if modest { harness.modest() } else { harness }))
}
