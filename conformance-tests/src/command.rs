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
use crate::report::{CaseReport, Report, SCHEMA_TEXT, ScenarioReport};
use crate::runner::{self, Options};
use crate::scenario::shipped::{SHIPPED, Shipped};
use crate::timeouts::Timeouts;
use crate::variant::{Variant, excluded};

/// What a program was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Only cases whose name matches one of these; `*` stands for anything. Empty: all.
    pub cases: Vec<String>,
    /// Only these profiles. Empty: all.
    pub profiles: Vec<Profile>,
    /// What goes wrong all the time, one after another. Empty: nothing.
    pub variants: Vec<Variant>,
    /// Where the reports go.
    pub report: Option<PathBuf>,
    /// By how much timeouts are stretched.
    pub timeout_scale: f64,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            profiles: Vec::new(),
            variants: Vec::new(),
            report: None,
            timeout_scale: 1.0,
        }
    }
}

/// Cases that run at once where the store is slow.
const SLOW_AT_ONCE: usize = 16;

const OPTIONS: [&str; 5] = ["--case", "--profile", "--variant", "--report", "--timeout-scale"];

impl Request {
    /// Reads `--case GLOB`, `--profile NAME`, `--variant NAME` (or `all`), `--report FOLDER` and `--timeout-scale NUMBER`,
    /// each as often as wanted; gives back what it does not know.
    ///
    /// # Errors
    /// What is wrong with an option, in words.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<(Self, Vec<String>), String> {
        let mut request = Self::default();
        let mut rest = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if !OPTIONS.contains(&argument.as_str()) {
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
                "--variant" if value == "all" => request.variants.extend(Variant::ALL),
                "--variant" => {
                    request
                        .variants
                        .push(Variant::find(&value).ok_or_else(|| format!("there is no variant {value}"))?);
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

impl Request {
    /// The scenarios that were asked for: all when nothing else narrows the choice, or those that a pattern names as
    /// `scenario.NAME`. They are played plainly.
    #[must_use]
    pub fn chosen_scenarios(&self) -> Vec<&'static Shipped> {
        let all = self.cases.is_empty() && self.profiles.is_empty() && self.variants.is_empty();
        let named = |shipped: &&Shipped| {
            let name = format!("scenario.{}", shipped.name);
            all || self.cases.iter().any(|glob| matches(glob, &name))
        };
        SHIPPED.iter().filter(named).collect()
    }

    /// How many cases and scenarios run; what variants leave out is not counted.
    #[must_use]
    pub fn count(&self) -> usize {
        let chosen = self.chosen();
        let cases = match self.variants.as_slice() {
            [] => chosen.len(),
            variants => variants
                .iter()
                .map(|variant| {
                    chosen.iter().filter(|case| excluded::reason(*variant, case).is_none()).count()
                })
                .sum(),
        };
        cases + self.chosen_scenarios().len()
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

/// Something that has ended.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A case.
    Case(&'a CaseReport),
    /// A scenario.
    Scenario(&'a ScenarioReport),
}

/// Runs what was asked for, tells of each case on standard error, and writes the reports.
///
/// # Errors
/// When the reports cannot be written.
pub async fn execute(harness: &Arc<dyn Harness>, request: &Request) -> std::io::Result<Report> {
    execute_telling(harness, request, tell).await
}

/// The same, and `told` hears of each case and scenario as it ends.
///
/// # Errors
/// When the reports cannot be written.
pub async fn execute_telling(
    harness: &Arc<dyn Harness>,
    request: &Request,
    mut told: impl FnMut(Told<'_>),
) -> std::io::Result<Report> {
    let variants = match request.variants.as_slice() {
        [] => vec![None],
        variants => variants.iter().copied().map(Some).collect(),
    };
    let timeouts = Timeouts::scaled(request.timeout_scale);
    // Most of the time with a slow store is waiting for it, which keeps no core busy.
    let slow = variants.contains(&Some(Variant::SlowStore));
    let at_once = if slow { SLOW_AT_ONCE } else { Options::default().at_once };
    let options = Options { timeouts, at_once, variants };
    let report = runner::run(harness, &request.chosen(), options, |case| told(Told::Case(case))).await;
    let mut scenarios = Vec::new();
    for shipped in request.chosen_scenarios() {
        let scenario = runner::play(&**harness, shipped, timeouts).await;
        told(Told::Scenario(&scenario));
        scenarios.push(scenario);
    }
    let report = report.with_scenarios(scenarios);
    if let Some(folder) = &request.report {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("report.json"), report.to_json())?;
        std::fs::write(folder.join("report.schema.json"), SCHEMA_TEXT)?;
        std::fs::write(folder.join("junit.xml"), junit(&report))?;
        std::fs::write(folder.join("report.md"), markdown(&report))?;
        std::fs::write(folder.join("badge.svg"), badge(&report))?;
    }
    Ok(report)
}

fn tell(told: Told<'_>) {
    let (verdict, name, millis, what, evidence): (&str, String, u64, Option<&String>, &[String]) = match told
    {
        Told::Case(case) => {
            (&case.verdict, case.shown_name(), case.duration_ms, case.what.as_ref(), &case.evidence)
        }
        Told::Scenario(scenario) => {
            let name = format!("scenario {}", scenario.name);
            (&scenario.verdict, name, scenario.duration_ms, scenario.what.as_ref(), &[])
        }
    };
    eprintln!("{verdict:7} {name} ({millis} ms)");
    if let Some(what) = what {
        eprintln!("        {what}");
    }
    for line in evidence {
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
