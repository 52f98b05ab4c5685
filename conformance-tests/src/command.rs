//! A whole program for a harness: choose cases, run them, write the report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::case::{Case, Profile};
use crate::cases;
use crate::harness::Harness;
use crate::report::badge::badge;
use crate::report::junit::junit;
use crate::report::markdown::markdown;
use crate::report::{CaseReport, Report};
use crate::runner::{self, Options};
use crate::timeouts::Timeouts;

/// What a program was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Only cases whose name matches one of these; `*` stands for anything. Empty: all.
    pub cases: Vec<String>,
    /// Only these profiles. Empty: all.
    pub profiles: Vec<Profile>,
    /// Where the reports go.
    pub report: Option<PathBuf>,
    /// By how much timeouts are stretched.
    pub timeout_scale: f64,
}

impl Default for Request {
    fn default() -> Self {
        Self { cases: Vec::new(), profiles: Vec::new(), report: None, timeout_scale: 1.0 }
    }
}

impl Request {
    /// Reads `--case GLOB`, `--profile NAME`, `--report FOLDER` and `--timeout-scale NUMBER`, each as often as wanted;
    /// gives back what it does not know.
    ///
    /// # Errors
    /// What is wrong with an option, in words.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<(Self, Vec<String>), String> {
        let mut request = Self::default();
        let mut rest = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let known = ["--case", "--profile", "--report", "--timeout-scale"].contains(&argument.as_str());
            if !known {
                rest.push(argument);
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--case" => request.cases.push(value),
                "--profile" => {
                    let found = Profile::ALL.into_iter().find(|profile| profile.name() == value);
                    request.profiles.push(found.ok_or_else(|| format!("there is no profile {value}"))?);
                }
                "--report" => request.report = Some(value.into()),
                _ => {
                    let scale = value.parse().ok().filter(|scale| *scale > 0.0);
                    request.timeout_scale = scale.ok_or_else(|| format!("{value} is no scale"))?;
                }
            }
        }
        Ok((request, rest))
    }

    /// The cases that were asked for.
    #[must_use]
    pub fn chosen(&self) -> Vec<Case> {
        let wanted = |case: &Case| {
            (self.profiles.is_empty() || self.profiles.contains(&case.profile))
                && (self.cases.is_empty() || self.cases.iter().any(|glob| matches(glob, case.name)))
        };
        cases::all().into_iter().filter(wanted).collect()
    }
}

/// Whether a name is as a pattern says, where `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs what was asked for, tells of each case on standard error, and writes the reports.
///
/// # Errors
/// When the reports cannot be written.
pub async fn execute(harness: &Arc<dyn Harness>, request: &Request) -> std::io::Result<Report> {
    execute_telling(harness, request, tell).await
}

/// The same, and `told` hears of each case as it ends.
///
/// # Errors
/// When the reports cannot be written.
pub async fn execute_telling(
    harness: &Arc<dyn Harness>,
    request: &Request,
    told: impl FnMut(&CaseReport),
) -> std::io::Result<Report> {
    let options = Options { timeouts: Timeouts::scaled(request.timeout_scale), ..Options::default() };
    let report = runner::run(harness, &request.chosen(), options, told).await;
    if let Some(folder) = &request.report {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("report.json"), report.to_json())?;
        std::fs::write(folder.join("junit.xml"), junit(&report))?;
        std::fs::write(folder.join("report.md"), markdown(&report))?;
        std::fs::write(folder.join("badge.svg"), badge(&report))?;
    }
    Ok(report)
}

fn tell(case: &CaseReport) {
    eprintln!("{:7} {} ({} ms)", case.verdict, case.name, case.duration_ms);
    if let Some(what) = &case.what {
        eprintln!("        {what}");
    }
    for line in &case.evidence {
        eprintln!("        | {line}");
    }
}

/// A report's exit code for a program: 0 conformant, 1 not, 2 something broke, 3 nothing ran.
#[must_use]
pub fn exit_code(report: &Report) -> ExitCode {
    ExitCode::from(report.result.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_slips_told() {
        let read = |line: &str| Request::read(line.split(' ').map(str::to_owned));
        let (request, rest) =
            read("--case start.* --profile core --timeout-scale 2 --store memory:").unwrap();
        assert_eq!((request.cases, request.profiles), (vec!["start.*".to_owned()], vec![Profile::Core]));
        assert_eq!(rest, ["--store", "memory:"]);
        assert!(read("--profile cor").unwrap_err().contains("cor"));
        assert!(read("--timeout-scale 0").is_err());
        assert!(read("--case").unwrap_err().contains("needs a value"));
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, whether) in [
            ("start.a", "start.a", true),
            ("start.a", "start.ab", false),
            ("start.*", "start.ab", true),
            ("*pause*twice", "control.pause_and_twice", true),
            ("*a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), whether, "{pattern} {name}");
        }
    }
}
