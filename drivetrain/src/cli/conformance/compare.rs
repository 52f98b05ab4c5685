//! `conformance compare`: reports beside each other, and where the traces of their scenarios first part.

use std::path::{Path, PathBuf};

use conformance::Report;
use conformance::report::compare::{compare as compare_cases, traces};

use super::super::complaint::{Complaint, Result};
use super::super::exit::Exit;
use super::super::output::{Output, Tone, count};

pub(super) fn compare(output: Output, files: &[PathBuf]) -> Result<Exit> {
    let reports: Vec<Report> = files.iter().map(|file| read(file)).collect::<Result<_>>()?;
    let names = names(&reports);
    let Some((first, others)) = reports.split_first() else { return Ok(Exit::Invalid) };
    let (mut worse, mut shared) = (false, false);
    for (other, name) in others.iter().zip(&names[1..]) {
        let comparison = compare_cases(first, other);
        output.line(output.paint(Tone::Strong, &format!("{} -> {name}", names[0])));
        output.line(comparison.to_string());
        worse |= comparison.exit_code() == 1;
        shared |= comparison.shared > 0;
    }
    let columns: Vec<(&str, &Report)> = names.iter().map(String::as_str).zip(&reports).collect();
    let traces = traces(&columns);
    for parted in traces.iter().filter(|trace| !trace.same) {
        output.line("");
        output.line(output.paint(Tone::Strong, &format!("scenario {}", parted.scenario)));
        output.text(&parted.table);
    }
    if !traces.is_empty() {
        let apart = traces.iter().filter(|trace| !trace.same).count();
        output.line(format!(
            "{}: {} the same, {apart} part",
            count(traces.len(), "trace"),
            traces.len() - apart
        ));
        worse |= apart > 0;
    }
    Ok(match (shared || !traces.is_empty(), worse) {
        (false, _) => Exit::Invalid,
        (true, true) => Exit::Failure,
        (true, false) => Exit::Success,
    })
}

fn read(file: &Path) -> Result<Report> {
    let file = if file.is_dir() { file.join("report.json") } else { file.to_owned() };
    let shown = file.display();
    let text = std::fs::read_to_string(&file).map_err(|cause| {
        Complaint::usage(format!("the report {shown} cannot be read: {cause}"))
            .hint("`drivetrain conformance --report FOLDER` writes one")
    })?;
    serde_json::from_str(&text).map_err(|cause| {
        Complaint::usage(format!("{shown} is no conformance report: {cause}"))
            .hint("its schema lies beside it: report.schema.json")
    })
}

/// What the reports are about, told apart.
fn names(reports: &[Report]) -> Vec<String> {
    let engine = |report: &Report| report.implementation.engine.clone();
    let on = |report: &Report| format!("{} on {}", report.implementation.engine, report.implementation.store);
    let apart = |names: &[String]| names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    let numbered = reports.iter().zip(1..).map(|(report, number)| format!("{} ({number})", on(report)));
    let choices = [reports.iter().map(engine).collect(), reports.iter().map(on).collect()];
    choices.into_iter().find(|names: &Vec<String>| apart(names)).unwrap_or_else(|| numbered.collect())
}
