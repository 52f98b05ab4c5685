//! The suite on the engine inside the process: `conformance [--store URL] [--modest] [--case GLOB] [--profile NAME]
//! [--report FOLDER] [--timeout-scale NUMBER]`. With `--modest` the engine declares no optional ability.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::Harness;
use conformance::command::{Request, execute, exit_code};
use conformance::in_process::InProcessHarness;

#[tokio::main]
async fn main() -> ExitCode {
    let (request, rest) = match Request::read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(slip) => return slipped(&slip),
    };
    let (mut store, mut modest) = ("memory:".to_owned(), false);
    let mut rest = rest.into_iter();
    while let Some(flag) = rest.next() {
        match (flag.as_str(), rest.len()) {
            ("--modest", _) => modest = true,
            ("--store", 1..) => store = rest.next().unwrap_or_default(),
            _ => return slipped(&format!("what is {flag}?")),
        }
    }
    let harness: Arc<dyn Harness> = match InProcessHarness::on(&store) {
        Ok(harness) if modest => Arc::new(harness.modest()),
        Ok(harness) => Arc::new(harness),
        Err(error) => return slipped(&error.to_string()),
    };
    match execute(&harness, &request).await {
        Ok(report) => {
            eprintln!(
                "{}",
                conformance::report::markdown::markdown(&report).lines().next().unwrap_or_default()
            );
            exit_code(&report)
        }
        Err(error) => slipped(&format!("the reports cannot be written: {error}")),
    }
}

fn slipped(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}
