//! Collects findings, and turns them into problems with their places.

use std::cell::Cell;

use crate::plan::document::{LocatedDocument, Path, Place};
use crate::plan::problem::{Problem, ProblemCode};

/// More problems than these help nobody; the rest is counted.
pub(super) const MOST_PROBLEMS: usize = 1000;

/// One thing that is wrong, not yet placed in the text.
#[derive(Debug)]
pub(super) struct Finding {
    code: ProblemCode,
    path: Path,
    at_key: bool,
    message: String,
    hint: String,
}

impl Finding {
    /// What is wrong, and what to do about it (PLAN-4).
    pub(super) fn new(
        code: ProblemCode,
        path: Path,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { code, path, at_key: false, message: message.into(), hint: hint.into() }
    }

    /// The finding is about the key that ends the path, not about its value.
    pub(super) fn at_key(mut self) -> Self {
        self.at_key = true;
        self
    }

    /// The hint `did you mean …?` instead, when there is anything alike.
    pub(super) fn meant(mut self, word: Option<&str>) -> Self {
        if let Some(word) = word {
            self.hint = format!("did you mean {word:?}?");
        }
        self
    }

    fn into_problem(self, document: Option<&LocatedDocument>) -> Problem {
        let place: Option<Place> = document
            .map(|document| if self.at_key { document.key(&self.path) } else { document.value(&self.path) });
        Problem {
            code: self.code,
            path: self.path.to_string(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            message: self.message,
            hint: self.hint,
        }
    }
}

/// Everything found so far.
#[derive(Debug)]
pub(super) struct Report {
    findings: Vec<Finding>,
    uncounted: usize,
    /// What looking for similar words may still cost, in letters compared.
    effort: Cell<usize>,
}

impl Default for Report {
    fn default() -> Self {
        Self { findings: Vec::new(), uncounted: 0, effort: Cell::new(20_000_000) }
    }
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.len() < MOST_PROBLEMS {
            self.findings.push(finding);
        } else {
            self.uncounted += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// The candidate that `word` was most likely meant to be.
    pub(super) fn closest<'a>(
        &self,
        word: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let letters = word.chars().count();
        let farthest = (letters / 3).clamp(1, 4);
        let mut best: Option<(usize, &str)> = None;
        for candidate in candidates {
            let alike = candidate.len().abs_diff(word.len()) <= farthest;
            // The distance is quadratic in the length: hostile names must not make it expensive.
            let cost = if alike { letters * candidate.len() } else { 1 };
            self.effort.set(self.effort.get().checked_sub(cost)?);
            if !alike {
                continue;
            }
            let distance =
                if candidate.eq_ignore_ascii_case(word) { 0 } else { strsim::osa_distance(word, candidate) };
            // Ties go by name: candidates may come in any order.
            if distance <= farthest && best.is_none_or(|best| (distance, candidate) < best) {
                best = Some((distance, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// The problems, in the order of the text when there is one.
    pub(super) fn into_problems(self, document: Option<&LocatedDocument>) -> Vec<Problem> {
        let mut problems: Vec<Problem> =
            self.findings.into_iter().map(|finding| finding.into_problem(document)).collect();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        if self.uncounted > 0 {
            problems.push(Problem::new(
                ProblemCode::MoreProblems,
                format!("and {} more problems that are not listed", self.uncounted),
                "mend those above first",
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_word_is_found_and_a_different_one_is_not() {
        let report = Report::default();
        assert_eq!(report.closest("lod", ["load", "save"]), Some("load"));
        assert_eq!(report.closest("dependson", ["dependsOn", "handler"]), Some("dependsOn"));
        assert_eq!(report.closest("retires", ["retry", "retries"]), Some("retries"));
        assert_eq!(report.closest("zebra", ["load", "save"]), None);
    }

    #[test]
    fn looking_for_similar_words_stops_when_it_costs_too_much() {
        let report = Report::default();
        let names: Vec<String> = (0..3000).map(|number| format!("{number:0128}")).collect();
        let word = "x".repeat(128);
        assert_eq!(report.closest(&word, names.iter().map(String::as_str)), None);
        assert!(report.effort.get() < 128 * 128, "it stopped for want of effort, not of candidates");
    }

    #[test]
    fn problems_over_the_limit_are_counted() {
        let mut report = Report::default();
        for _ in 0..MOST_PROBLEMS + 7 {
            report.add(Finding::new(ProblemCode::Cycle, Path::root(), "x", "y"));
        }
        let problems = report.into_problems(None);
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
        assert_eq!(problems[MOST_PROBLEMS].message, "and 7 more problems that are not listed");
    }
}
