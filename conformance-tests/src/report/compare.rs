//! Two reports side by side: what became better, what became worse, and what only one of them has.

use std::collections::BTreeMap;
use std::fmt;

use super::{CaseReport, Report, ScenarioReport};
use crate::trace::{Order, Trace, side_by_side};

/// How a second report differs from a first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Cases that both have.
    pub shared: usize,
    /// Passed in the first and not in the second.
    pub worse: Vec<Change>,
    /// Passed in the second and not in the first.
    pub better: Vec<Change>,
    /// Passed in neither, and came out differently.
    pub other: Vec<Change>,
    /// Only in the first.
    pub gone: Vec<String>,
    /// Only in the second.
    pub new: Vec<String>,
}

/// A case that came out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The case.
    pub case: String,
    /// Its verdict in the first report.
    pub before: String,
    /// Its verdict in the second.
    pub after: String,
    /// What the second says about it.
    pub what: Option<String>,
}

/// Compares two reports, case by case.
#[must_use]
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let by_name = |report: &Report| -> BTreeMap<String, CaseReport> {
        report.cases.iter().map(|case| (case.shown_name(), case.clone())).collect()
    };
    let (before, mut after) = (by_name(before), by_name(after));
    let mut comparison = Comparison::default();
    for (name, old) in before {
        let Some(new) = after.remove(&name) else {
            comparison.gone.push(name);
            continue;
        };
        comparison.shared += 1;
        if old.verdict == new.verdict {
            continue;
        }
        let list = match (old.verdict.as_str(), new.verdict.as_str()) {
            ("pass", _) => &mut comparison.worse,
            (_, "pass") => &mut comparison.better,
            _ => &mut comparison.other,
        };
        list.push(Change { case: name, before: old.verdict, after: new.verdict, what: new.what });
    }
    comparison.new = after.into_keys().collect();
    comparison
}

/// The traces of one scenario in several reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// The scenario.
    pub scenario: String,
    /// Whether all linearise the same order.
    pub same: bool,
    /// The traces beside each other, with the first divergence marked.
    pub table: String,
}

/// The traces of every scenario that all reports have; the first report is what the others are measured by.
#[must_use]
pub fn traces(reports: &[(&str, &Report)]) -> Vec<Traces> {
    let Some(((_, first), _)) = reports.split_first() else { return Vec::new() };
    let of = |scenario: &ScenarioReport| {
        let found = |report: &Report| {
            report.scenarios.iter().find(|found| found.name == scenario.name).map(|found| found.trace.clone())
        };
        let traces: Vec<Trace> = reports.iter().map(|(_, report)| found(report)).collect::<Option<_>>()?;
        let columns: Vec<(&str, &Trace)> = reports.iter().map(|(name, _)| *name).zip(&traces).collect();
        let order = Order::of(traces.first()?);
        Some(Traces {
            scenario: scenario.name.clone(),
            same: traces.iter().all(|trace| order.divergence(trace).is_none()),
            table: side_by_side(&columns),
        })
    };
    first.scenarios.iter().filter_map(of).collect()
}

impl Comparison {
    /// The exit code of a program that tells it: 0 when nothing became worse or is gone, 1 when something did, 3 when the
    /// two have no case in common.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.shared, self.worse.is_empty() && self.gone.is_empty()) {
            (0, _) => 3,
            (_, true) => 0,
            (_, false) => 1,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (head, changes) in [("worse", &self.worse), ("better", &self.better), ("changed", &self.other)] {
            for change in changes {
                let what = change.what.as_ref().map(|what| format!(": {what}")).unwrap_or_default();
                writeln!(formatter, "{head:8}{} {} -> {}{what}", change.case, change.before, change.after)?;
            }
        }
        for (head, names) in [("gone", &self.gone), ("new", &self.new)] {
            for name in names {
                writeln!(formatter, "{head:8}{name}")?;
            }
        }
        let same = self.shared - self.worse.len() - self.better.len() - self.other.len();
        write!(
            formatter,
            "{same} the same, {} worse, {} better, {} changed, {} gone, {} new",
            self.worse.len(),
            self.better.len(),
            self.other.len(),
            self.gone.len(),
            self.new.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Profile;
    use crate::harness::Implementation;

    fn report(cases: &[(&str, &str)]) -> Report {
        let implementation = Implementation {
            name: "a".into(),
            version: "1".into(),
            engine: "a".into(),
            engine_version: "1".into(),
            store: "memory".into(),
        };
        let case = |(name, verdict): &(&str, &str)| CaseReport {
            name: (*name).to_owned(),
            profile: Profile::Core,
            variant: None,
            verdict: (*verdict).to_owned(),
            what: (*verdict == "fail").then(|| "it is wrong".to_owned()),
            evidence: Vec::new(),
            requirements: vec!["RUN-1".to_owned()],
            duration_ms: 1,
        };
        Report::new(implementation, 1.0, cases.iter().map(case).collect())
    }

    #[test]
    fn what_differs_is_told_and_only_what_became_worse_or_is_gone_counts() {
        let before = report(&[("a.a", "pass"), ("a.b", "fail"), ("a.c", "fail"), ("a.d", "pass")]);
        let after = report(&[("a.a", "fail"), ("a.b", "pass"), ("a.c", "skipped"), ("a.e", "pass")]);
        let comparison = compare(&before, &after);
        assert_eq!(
            comparison.to_string(),
            "worse   a.a pass -> fail: it is wrong\nbetter  a.b fail -> pass\nchanged a.c fail -> skipped\n\
             gone    a.d\nnew     a.e\n0 the same, 1 worse, 1 better, 1 changed, 1 gone, 1 new"
        );
        assert_eq!(comparison.exit_code(), 1);
        assert_eq!(compare(&before, &before).exit_code(), 0);
        assert_eq!(compare(&report(&[("a.b", "fail")]), &report(&[("a.b", "pass")])).exit_code(), 0);
        assert_eq!(compare(&report(&[("a.b", "pass")]), &report(&[])).exit_code(), 3);
    }
}
