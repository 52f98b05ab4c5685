//! Proof that the suite can fail: product code that is broken on purpose, one mutant at a time, and the cases that catch
//! it. The product's source stays as it is; a copy of the workspace is broken.
//!
//! - `list`: the mutants, and the requirements that have none yet;
//! - `workshop`: the copy, the patches, the one build;
//! - this file: one test per mutant. `cargo xtask mutants NAME…` runs some of them.

mod list;
mod workshop;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use conformance::{Report, cases};
use libtest_mimic::{Arguments, Failed, Trial};
use list::Mutant;
use workshop::Workshop;

/// How long the cases of a mutant may take: a broken engine may turn in circles.
const LONGEST: Duration = Duration::from_secs(180);

/// Stretches the suite's timeouts: a broken engine often keeps a case waiting for what never comes.
const TIMEOUT_SCALE: &str = "0.2";

/// How many draws must come upon a mutant that random testing shall find.
const DRAWS: &str = "400";

fn main() {
    let mut arguments = Arguments::from_args();
    // A mutant that keeps its case waiting keeps no core busy.
    arguments.test_threads.get_or_insert(8);
    let mutants = match list::mutants() {
        Ok(mutants) => mutants,
        Err(error) => {
            eprintln!("{error:#}");
            std::process::exit(101);
        }
    };
    let mut trials = vec![
        Trial::test("list::every_mutant_fits_its_source_its_cases_and_its_requirements", list::check),
        Trial::test("list::what_has_no_case_or_mutant_is_pending_and_nothing_else", list::check_pending),
        Trial::test("nobody::every_case_passes_on_the_copy", || unbroken().map_err(Failed::from)),
    ];
    for mutant in mutants {
        trials.push(Trial::test(format!("mutant::{}", mutant.name), move || {
            caught(&mutant).map_err(Failed::from)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn workshop() -> Result<&'static Workshop, String> {
    static WORKSHOP: OnceLock<Result<Workshop, String>> = OnceLock::new();
    let made = WORKSHOP.get_or_init(|| {
        list::mutants().and_then(|mutants| Workshop::open(&mutants)).map_err(|error| format!("{error:#}"))
    });
    made.as_ref().map_err(Clone::clone)
}

/// Without a mutant the copy passes everything: the patches themselves break nothing.
fn unbroken() -> Result<(), String> {
    let report = run(None, &[])?;
    let wrong: Vec<String> = report
        .cases
        .iter()
        .filter(|case| case.verdict == "fail" || case.verdict == "error")
        .map(|case| format!("{} {}: {}", case.verdict, case.name, case.what.clone().unwrap_or_default()))
        .collect();
    let all = cases::all().len();
    if report.cases.len() != all {
        return Err(format!("{} of {all} cases ran", report.cases.len()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Each case that shall catch a mutant fails on it, and random testing finds it where it shall.
fn caught(mutant: &Mutant) -> Result<(), String> {
    if mutant.differential {
        found_by_chance(mutant)?;
    }
    if mutant.caught_by.is_empty() {
        return Ok(());
    }
    let report = run(Some(mutant), &mutant.caught_by)?;
    for name in &mutant.caught_by {
        let case = report.cases.iter().find(|case| case.name == *name);
        let verdict = case.map_or("not run", |case| case.verdict.as_str());
        let what = case.and_then(|case| case.what.clone()).unwrap_or_default();
        if verdict != "fail" {
            return Err(format!("{} survives {name}, which must fail: {verdict} {what}", mutant.name));
        }
    }
    Ok(())
}

/// Random testing comes upon a mutant; without it, it finds nothing in as many draws.
fn found_by_chance(mutant: &Mutant) -> Result<(), String> {
    let workshop = workshop()?;
    let draw = |name: &str| -> Result<Option<i32>, String> {
        let mut command = tokio::process::Command::new(&workshop.program);
        command.args(["--differential", DRAWS]).env(workshop::VARIABLE, name).kill_on_drop(true);
        ended(name, command).map(|output| output.status.code())
    };
    match (draw(&mutant.name)?, draw("nobody")?) {
        (Some(1), Some(0)) => Ok(()),
        codes => Err(format!("{} is not found in {DRAWS} draws: {codes:?}", mutant.name)),
    }
}

fn ended(name: &str, mut command: tokio::process::Command) -> Result<std::process::Output, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    match runtime.block_on(async { tokio::time::timeout(LONGEST, command.output()).await }) {
        Ok(output) => output.map_err(told),
        Err(_) => Err(format!("{name}: the program did not end within {} s", LONGEST.as_secs())),
    }
}

fn run(mutant: Option<&Mutant>, cases: &[String]) -> Result<Report, String> {
    let workshop = workshop()?;
    let name = mutant.map_or("nobody", |mutant| mutant.name.as_str());
    let folder = workshop.folder.join("reports").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = tokio::process::Command::new(&workshop.program);
    command.args(["--timeout-scale", TIMEOUT_SCALE, "--report"]).arg(&folder).kill_on_drop(true);
    if let Some(mutant) = mutant {
        command.env(workshop::VARIABLE, &mutant.name).args(["--store", &mutant.store]);
        if mutant.modest {
            command.arg("--modest");
        }
        if let Some(variant) = &mutant.variant {
            command.args(["--variant", variant]);
        }
    }
    for case in cases {
        command.args(["--case", case]);
    }
    let output = ended(name, command)?;
    read(&folder.join("report.json")).map_err(|error| {
        format!("{name}: no report ({error}), {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
    })
}

fn read(file: &Path) -> Result<Report, String> {
    let text = std::fs::read_to_string(file).map_err(told)?;
    serde_json::from_str(&text).map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
