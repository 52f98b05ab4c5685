//! The report for people: Markdown.

use std::fmt::Write as _;

use super::{Conclusion, Report};

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

/// The report as Markdown: a summary, a table of profiles, and what failed with its evidence.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let subject = &report.implementation;
    let mut text = format!("# {}\n\n", headline(report));
    let must = report.requirements.get("must").copied().unwrap_or_default();
    let _ = writeln!(
        text,
        "Engine {} {}, store {}, contract {}, suite {}. {} of {} MUSTs were tried, {} hold.\n",
        subject.engine,
        subject.engine_version,
        subject.store,
        report.suite.contract,
        report.suite.version,
        must.tried,
        must.total,
        must.held
    );
    text.push_str("| profile | result | passed | failed | errors | skipped |\n|---|---|---|---|---|---|\n");
    for profile in &report.profiles {
        let counts = profile.counts;
        let result = format!("{:?}", profile.result).to_lowercase();
        let _ = writeln!(
            text,
            "| {} | {result} | {} | {} | {} | {} |",
            profile.name.name(),
            counts.passed,
            counts.failed,
            counts.errors,
            counts.skipped
        );
    }
    for (verdict, heading) in [("fail", "Failed"), ("error", "Broke"), ("skipped", "Skipped")] {
        let cases: Vec<_> = report.cases.iter().filter(|case| case.verdict == verdict).collect();
        if cases.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {heading}\n");
        for case in cases {
            let what = case.what.as_deref().unwrap_or_default();
            let _ = write!(text, "\n**{}** ({}): {what}\n", case.name, case.requirements.join(", "));
            if !case.evidence.is_empty() {
                let _ = write!(text, "\n```text\n{}\n```\n", case.evidence.join("\n"));
            }
        }
    }
    text
}
