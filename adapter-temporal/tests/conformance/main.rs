//! The suite on a real Temporal server, in real time: one test per case, and one per scenario with a golden trace.
//!
//! A case that needs what a server cannot do (hours that pass in a moment, leases) is listed as ignored.

mod golden;
#[path = "../harness/mod.rs"]
mod harness;

use std::sync::{Arc, OnceLock};

use conformance::{Case, Fault, Harness, Need, Timeouts, cases, run_case};
use harness::TemporalHarness;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// Cases that run at once: most of them wait most of the time.
const AT_ONCE: usize = 8;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let cases = cases::all().into_iter().map(|case| {
        let beyond = case.needs.iter().any(is_beyond_a_server);
        Trial::test(case.name, move || run(case)).with_ignored_flag(beyond)
    });
    let golden = golden::scenarios().into_iter().map(|file| {
        let name = format!("golden::{}", golden::stem(&file));
        Trial::test(name, move || {
            let harness = TemporalHarness::on(address()?, false);
            runtime().block_on(golden::compare(&harness, &file))
        })
    });
    libtest_mimic::run(&arguments, cases.chain(golden).collect()).exit();
}

/// A server's time cannot be moved, and Temporal says who drives a run, no lease in the store.
fn is_beyond_a_server(need: &Need) -> bool {
    matches!(need, Need::Leases | Need::Can(Fault::PassTime))
}

fn address() -> Result<String, Failed> {
    Ok(dev_servers::temporal::shared_address().map_err(|error| format!("{error:#}"))?)
}

fn run(case: Case) -> Result<(), Failed> {
    let modest = case.needs.iter().any(|need| matches!(need, Need::Lacks(_)));
    let harness: Arc<dyn Harness> = Arc::new(TemporalHarness::on(address()?, modest));
    let report = runtime().block_on(run_case(harness, case, Timeouts::default()));
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
