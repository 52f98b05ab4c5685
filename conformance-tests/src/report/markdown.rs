//! The report for people: Markdown. It fits the summary of a CI job.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{CaseReport, Conclusion, Counts, Report};
use crate::requirement::{self, Level};
use crate::variant::Variant;

/// What it comes to, in a sentence.
#[must_use]
pub fn headline(report: &Report) -> String {
    let subject = &report.implementation;
    let verdict = match report.result {
        Conclusion::Success => "conforms",
        Conclusion::Partial => "conforms in part: core cases were skipped",
        Conclusion::Failure => "does not conform",
        Conclusion::Error => "is not judged: the harness or a server broke",
        Conclusion::Nothing => "is not judged: nothing ran",
    };
    format!("{} {} {verdict}", subject.name, subject.version)
}

/// The report as Markdown: what was tested and what it comes to, then profiles and variants, then what failed with its
/// evidence, and at last what was left out and why.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# {}\n\n", headline(report));
    summary(&mut text, report);
    // What somebody must look at stands before what only counts.
    failures(&mut text, report);
    profiles(&mut text, report);
    variants(&mut text, report);
    scenarios(&mut text, report);
    skipped(&mut text, report);
    untried(&mut text, report);
    text
}

fn summary(text: &mut String, report: &Report) {
    let subject = &report.implementation;
    let must = report.requirements.get("must").copied().unwrap_or_default();
    let took: u64 = report.cases.iter().map(|case| case.duration_ms).sum();
    let scale = match report.timeout_scale {
        scale if (scale - 1.0).abs() < f64::EPSILON => String::new(),
        scale => format!(", waiting {scale} times as long as usual"),
    };
    let rows = [
        ("engine", format!("{} {}", subject.engine, subject.engine_version)),
        ("store", subject.store.clone()),
        ("contract", format!("{}, by suite {}", report.suite.contract, report.suite.version)),
        ("cases", format!("{}; {:.1} s of work{scale}", counted(&report.counts()), took as f64 / 1000.0)),
        ("requirements", format!("{} of {} MUSTs were tried, {} hold", must.tried, must.total, must.held)),
    ];
    text.push_str("| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {} |", cell(&value));
    }
}

/// `250 passed, 2 failed`: what there is none of is not told.
fn counted(counts: &Counts) -> String {
    let all = [
        (counts.passed, "passed"),
        (counts.failed, "failed"),
        (counts.errors, "broke"),
        (counts.skipped, "skipped"),
    ];
    let told: Vec<String> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn failures(text: &mut String, report: &Report) {
    for (verdict, heading, says) in [
        ("fail", "Failed", "The implementation does not do what these requirements say."),
        ("error", "Broke", "The harness or a server broke; this says nothing about the implementation."),
    ] {
        let cases: Vec<&CaseReport> = report.cases.iter().filter(|case| case.verdict == verdict).collect();
        let scenarios: Vec<_> =
            report.scenarios.iter().filter(|scenario| scenario.verdict == verdict).collect();
        if cases.is_empty() && scenarios.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {heading}\n\n{says}\n");
        for case in cases {
            failure(text, case);
        }
        for scenario in scenarios {
            let what = scenario.what.as_deref().unwrap_or_default();
            let _ = write!(text, "\n### scenario {}\n\n{what}\n", scenario.name);
            fold(text, "What the run did", scenario.trace.moments.iter().map(ToString::to_string));
        }
    }
}

fn failure(text: &mut String, case: &CaseReport) {
    let what = case.what.as_deref().unwrap_or_default();
    let _ = write!(text, "\n### {}\n\n{what}\n\n", case.shown_name());
    for id in &case.requirements {
        let sentence = requirement::find(id).map_or("", |requirement| requirement.text);
        let _ = writeln!(text, "- **{id}** {sentence}");
    }
    fold(text, "What was recorded", case.evidence.iter().cloned());
}

/// Lines that only unfold for whoever wants them.
fn fold(text: &mut String, summary: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        let lines = lines.join("\n");
        let _ =
            write!(text, "\n<details><summary>{summary}</summary>\n\n```text\n{lines}\n```\n\n</details>\n");
    }
}

fn profiles(text: &mut String, report: &Report) {
    let rows: Vec<_> = report.profiles.iter().filter(|profile| profile.variant.is_none()).collect();
    if rows.is_empty() {
        return;
    }
    text.push_str("\n## Profiles\n\n| profile | about | result | cases |\n|---|---|---|---|\n");
    for profile in rows {
        let (name, about) = (profile.name.name(), profile.name.about());
        let _ =
            writeln!(text, "| {name} | {about} | {} | {} |", profile.result.name(), counted(&profile.counts));
    }
}

fn variants(text: &mut String, report: &Report) {
    let ran: BTreeSet<Variant> = report.profiles.iter().filter_map(|profile| profile.variant).collect();
    if ran.is_empty() {
        return;
    }
    text.push_str("\n## Variants\n\nThe same cases, while something goes wrong all the time.\n\n");
    text.push_str("| variant | what goes wrong | cases | left out |\n|---|---|---|---|\n");
    for variant in ran {
        let counts = super::count(report.cases.iter().filter(|case| case.variant == Some(variant)));
        let left_out = report.excluded.iter().filter(|excluded| excluded.variant == variant).count();
        let _ = writeln!(text, "| {variant} | {} | {} | {left_out} |", variant.about(), counted(&counts));
    }
    if report.excluded.is_empty() {
        return;
    }
    text.push_str("\n<details><summary>What variants leave out, and why</summary>\n\n");
    text.push_str("| variant | case | because |\n|---|---|---|\n");
    for excluded in &report.excluded {
        let _ = writeln!(text, "| {} | {} | {} |", excluded.variant, excluded.case, cell(&excluded.because));
    }
    text.push_str("\n</details>\n");
}

fn scenarios(text: &mut String, report: &Report) {
    if report.scenarios.is_empty() {
        return;
    }
    text.push_str("\n## Scenarios\n\nWhat each run did is compared with what every engine must do.\n\n");
    text.push_str("| scenario | about | result |\n|---|---|---|\n");
    for scenario in &report.scenarios {
        let _ = writeln!(text, "| {} | {} | {} |", scenario.name, cell(&scenario.about), scenario.verdict);
    }
}

fn skipped(text: &mut String, report: &Report) {
    let cases: Vec<&CaseReport> = report.cases.iter().filter(|case| case.verdict == "skipped").collect();
    if cases.is_empty() {
        return;
    }
    text.push_str("\n## Skipped\n\n| case | why | requirements |\n|---|---|---|\n");
    for case in cases {
        let why = cell(case.what.as_deref().unwrap_or_default());
        let _ = writeln!(text, "| {} | {why} | {} |", case.shown_name(), case.requirements.join(", "));
    }
}

/// MUSTs that nothing tried here, by section: other tests show them, or they need what the suite cannot bring about.
fn untried(text: &mut String, report: &Report) {
    let ran = report.cases.iter().filter(|case| case.verdict != "skipped");
    let tried: BTreeSet<&str> = ran.flat_map(|case| &case.requirements).map(String::as_str).collect();
    if tried.is_empty() {
        return;
    }
    let mut sections: BTreeMap<usize, (&str, Vec<&str>)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for requirement in requirement::all().iter().filter(|requirement| requirement.level == Level::Must) {
        if tried.contains(requirement.id) {
            continue;
        }
        let at = order.iter().position(|section| *section == requirement.section).unwrap_or_else(|| {
            order.push(requirement.section);
            order.len() - 1
        });
        sections.entry(at).or_insert((requirement.section, Vec::new())).1.push(requirement.id);
    }
    if sections.is_empty() {
        return;
    }
    let count: usize = sections.values().map(|(_, ids)| ids.len()).sum();
    let _ = write!(text, "\n<details><summary>{count} MUSTs that no case tried here</summary>\n\n");
    text.push_str("| section | requirements |\n|---|---|\n");
    for (section, ids) in sections.values() {
        let _ = writeln!(text, "| {section} | {} |", ids.join(", "));
    }
    text.push_str("\n</details>\n");
}

/// A text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
