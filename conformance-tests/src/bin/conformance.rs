//! The suite on the engine inside the process: `conformance [--store URL] [--modest] [--case GLOB] [--profile NAME]
//! [--variant NAME] [--report FOLDER] [--timeout-scale NUMBER]`. With `--modest` the engine declares no optional ability.
//! `conformance --differential CASES [--seed NUMBER]` is random testing instead.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::Harness;
use conformance::command::{Request, execute, exit_code};
use conformance::in_process::InProcessHarness;
use conformance::report::markdown::headline;

/// What this program takes besides what every program for a harness does.
#[derive(Debug)]
struct Own {
    store: String,
    modest: bool,
    differential: Option<u32>,
    seed: u64,
}

fn main() -> ExitCode {
    let (request, own) = match Request::read(std::env::args().skip(1)).and_then(|(request, rest)| {
        let own = read(rest)?;
        Ok((request, own))
    }) {
        Ok(read) => read,
        Err(slip) => return slipped(&slip),
    };
    let harness: Arc<dyn Harness> = match InProcessHarness::on(&own.store) {
        Ok(harness) if own.modest => Arc::new(harness.modest()),
        Ok(harness) => Arc::new(harness),
        Err(error) => return slipped(&error.to_string()),
    };
    match own.differential {
        Some(cases) => differential(&harness, cases, own.seed),
        None => suite(&harness, &request),
    }
}

fn read(rest: Vec<String>) -> Result<Own, String> {
    let mut own = Own { store: "memory:".to_owned(), modest: false, differential: None, seed: 1 };
    let mut rest = rest.into_iter();
    while let Some(flag) = rest.next() {
        if flag == "--modest" {
            own.modest = true;
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("what is {flag}?"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{flag} needs a number, not {value}"));
        match flag.as_str() {
            "--store" => own.store = value,
            "--seed" => own.seed = number()?,
            "--differential" => {
                own.differential =
                    Some(u32::try_from(number()?).map_err(|_| format!("{value} is too many"))?);
            }
            _ => return Err(format!("what is {flag}?")),
        }
    }
    Ok(own)
}

fn suite(harness: &Arc<dyn Harness>, request: &Request) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => return slipped(&cause.to_string()),
    };
    match runtime.block_on(execute(harness, request)) {
        Ok(report) => {
            eprintln!("{}", headline(&report));
            exit_code(&report)
        }
        Err(error) => slipped(&format!("the reports cannot be written: {error}")),
    }
}

#[cfg(feature = "differential")]
fn differential(harness: &Arc<dyn Harness>, cases: u32, seed: u64) -> ExitCode {
    use conformance::differential::Campaign;

    // On one thread the same seed gives the same, order of wake-ups included.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => return slipped(&cause.to_string()),
    };
    let campaign = Campaign { cases, seed, folder: std::env::temp_dir().join("drivetrain-differential") };
    match campaign.run(harness, &runtime) {
        Ok(done) => {
            eprintln!("{} draws, {} events, {} signals: the same", done.cases, done.events, done.signals);
            ExitCode::SUCCESS
        }
        Err(counterexample) => {
            eprintln!("{counterexample}");
            ExitCode::from(1)
        }
    }
}

#[cfg(not(feature = "differential"))]
fn differential(_: &Arc<dyn Harness>, _: u32, _: u64) -> ExitCode {
    slipped("this program was built without random testing: build it with the feature differential")
}

fn slipped(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}
