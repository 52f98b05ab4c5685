//! Telling what became of the cases.
//!
//! - this file: what a report says;
//! - [`mod@junit`], [`mod@markdown`], [`mod@badge`]: the same for test tools, for people, and for a README;
//! - [`mod@compare`]: two reports side by side.
//!
//! As JSON it matches `schema/report.v1.schema.json`.

pub mod badge;
pub mod compare;
pub mod junit;
pub mod markdown;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Profile};
use crate::harness::Implementation;
use crate::requirement::{self, Level};
use crate::trace::Trace;
use crate::variant::Variant;
use crate::verdict::Verdict;

/// The address of the report's schema.
pub const SCHEMA: &str = "https://drivetrain.dev/schemas/conformance-report.v1.schema.json";

/// The schema itself.
pub const SCHEMA_TEXT: &str = include_str!("../../schema/report.v1.schema.json");

/// What became of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The address of the schema that it matches.
    pub schema: String,
    /// Which suite it is.
    pub suite: Suite,
    /// What was tested.
    pub implementation: Implementation,
    /// By how much the suite's timeouts were stretched.
    pub timeout_scale: f64,
    /// Whether it conforms: every core case passed, and nothing failed or broke.
    pub result: Conclusion,
    /// Profile by profile.
    pub profiles: Vec<ProfileReport>,
    /// How many requirements were tried and hold, by level.
    pub requirements: BTreeMap<String, RequirementCounts>,
    /// Case by case, by name; those that ran plainly first.
    pub cases: Vec<CaseReport>,
    /// The scenarios that were played, with what each run did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<ScenarioReport>,
    /// Cases that variants leave out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<ExcludedCase>,
}

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioReport {
    /// The scenario.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// `pass`, `fail` or `error`.
    pub verdict: String,
    /// What was wrong or broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// What the run did, as far as it came.
    pub trace: Trace,
    /// How long it took.
    pub duration_ms: u64,
}

/// A case that a variant leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedCase {
    /// The variant.
    pub variant: Variant,
    /// The case.
    pub case: String,
    /// Why.
    pub because: String,
}

impl ExcludedCase {
    pub(crate) fn new(variant: Variant, case: &Case, because: &str) -> Self {
        Self { variant, case: case.name.to_owned(), because: because.to_owned() }
    }
}

/// Which suite it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// The suite's version.
    pub version: String,
    /// The contract's version.
    pub contract: String,
}

/// What a suite or profile comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Conclusion {
    /// Everything that ran passed.
    Success,
    /// Something was skipped in core, where nothing may be.
    Partial,
    /// Something failed.
    Failure,
    /// The harness or a server broke.
    Error,
    /// Nothing ran.
    Nothing,
}

impl Conclusion {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Nothing => "nothing",
        }
    }

    /// The exit code of a program that tells it: 0 conformant, 1 not, 2 something broke, 3 nothing ran.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Partial | Self::Failure => 1,
            Self::Error => 2,
            Self::Nothing => 3,
        }
    }
}

/// What became of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileReport {
    /// The profile.
    pub name: Profile,
    /// What went wrong all the time, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// What it comes to.
    pub result: Conclusion,
    /// How many cases came out how.
    pub counts: Counts,
}

/// How many cases came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Broke.
    pub errors: usize,
    /// Skipped.
    pub skipped: usize,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> usize {
        self.passed + self.failed + self.errors + self.skipped
    }
}

/// How many requirements of a level were tried and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementCounts {
    /// In the contract.
    pub total: usize,
    /// Cited by a case that ran.
    pub tried: usize,
    /// Cited, and every case that cites it passed.
    pub held: usize,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// The case.
    pub name: String,
    /// Its profile.
    pub profile: Profile,
    /// What went wrong all the time, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// `pass`, `fail`, `error` or `skipped`.
    pub verdict: String,
    /// What was wrong, broke or is lacking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// What was recorded, when it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The requirements it proves.
    pub requirements: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
}

impl CaseReport {
    /// Its name, with the variant that it ran under.
    #[must_use]
    pub fn shown_name(&self) -> String {
        match self.variant {
            None => self.name.clone(),
            Some(variant) => format!("{} under {variant}", self.name),
        }
    }

    pub(crate) fn new(case: &Case, variant: Option<Variant>, verdict: &Verdict, took: Duration) -> Self {
        let (what, evidence) = match verdict {
            Verdict::Pass => (None, Vec::new()),
            Verdict::Fail { what, evidence } => (Some(what.clone()), evidence.clone()),
            Verdict::Error { what } => (Some(what.clone()), Vec::new()),
            Verdict::Skipped { lacks } => (Some(lacks.clone()), Vec::new()),
        };
        Self {
            name: case.name.to_owned(),
            profile: case.profile,
            variant,
            verdict: verdict.name().to_owned(),
            what,
            evidence,
            requirements: case.requirements.iter().map(ToString::to_string).collect(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Report {
    /// The report of cases that ran.
    #[must_use]
    pub fn new(implementation: Implementation, timeout_scale: f64, mut cases: Vec<CaseReport>) -> Self {
        cases.sort_by(|one, other| {
            (one.variant, one.profile, &one.name).cmp(&(other.variant, other.profile, &other.name))
        });
        let variants = std::iter::once(None).chain(Variant::ALL.into_iter().map(Some));
        let profiles: Vec<ProfileReport> = variants
            .flat_map(|variant| Profile::ALL.map(|profile| (variant, profile)))
            .filter_map(|(variant, profile)| profile_report(variant, profile, &cases))
            .collect();
        let result = profiles.iter().map(|profile| profile.result).fold(Conclusion::Nothing, worse);
        Self {
            schema: SCHEMA.to_owned(),
            suite: Suite {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                contract: requirement::contract_version().to_owned(),
            },
            implementation,
            timeout_scale,
            result,
            profiles,
            requirements: requirement_counts(&cases),
            cases,
            scenarios: Vec::new(),
            excluded: Vec::new(),
        }
    }

    /// The same with scenarios that were played.
    #[must_use]
    pub fn with_scenarios(self, scenarios: Vec<ScenarioReport>) -> Self {
        let conclusion = |scenario: &ScenarioReport| match scenario.verdict.as_str() {
            "pass" => Conclusion::Success,
            "fail" => Conclusion::Failure,
            _ => Conclusion::Error,
        };
        let result = scenarios.iter().map(conclusion).fold(self.result, worse);
        Self { result, scenarios, ..self }
    }

    /// The same with what variants left out.
    #[must_use]
    pub fn with_excluded(self, excluded: Vec<ExcludedCase>) -> Self {
        Self { excluded, ..self }
    }

    /// How many cases came out how.
    #[must_use]
    pub fn counts(&self) -> Counts {
        count(self.cases.iter())
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // A struct with string keys can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

fn profile_report(variant: Option<Variant>, profile: Profile, cases: &[CaseReport]) -> Option<ProfileReport> {
    let counts = count(cases.iter().filter(|case| case.profile == profile && case.variant == variant));
    if counts.total() == 0 {
        return None;
    }
    let result = if counts.errors > 0 {
        Conclusion::Error
    } else if counts.failed > 0 {
        Conclusion::Failure
    } else if profile == Profile::Core && variant.is_none() && counts.skipped > 0 {
        Conclusion::Partial
    } else if counts.passed == 0 {
        Conclusion::Nothing
    } else {
        Conclusion::Success
    };
    Some(ProfileReport { name: profile, variant, result, counts })
}

fn count<'a>(cases: impl Iterator<Item = &'a CaseReport>) -> Counts {
    let mut counts = Counts::default();
    for case in cases {
        match case.verdict.as_str() {
            "pass" => counts.passed += 1,
            "fail" => counts.failed += 1,
            "skipped" => counts.skipped += 1,
            _ => counts.errors += 1,
        }
    }
    counts
}

fn worse(one: Conclusion, other: Conclusion) -> Conclusion {
    let rank = |conclusion| match conclusion {
        Conclusion::Nothing => 0,
        Conclusion::Success => 1,
        Conclusion::Partial => 2,
        Conclusion::Failure => 3,
        Conclusion::Error => 4,
    };
    if rank(one) >= rank(other) { one } else { other }
}

fn requirement_counts(cases: &[CaseReport]) -> BTreeMap<String, RequirementCounts> {
    let mut tried = BTreeSet::new();
    let mut broken = BTreeSet::new();
    for case in cases.iter().filter(|case| case.verdict != "skipped") {
        for id in &case.requirements {
            tried.insert(id.as_str());
            if case.verdict != "pass" {
                broken.insert(id.as_str());
            }
        }
    }
    let levels = [("must", Level::Must), ("should", Level::Should), ("may", Level::May)];
    let counts = |level| {
        let mut counts = RequirementCounts::default();
        for requirement in requirement::all().iter().filter(|requirement| requirement.level == level) {
            counts.total += 1;
            counts.tried += usize::from(tried.contains(requirement.id));
            counts.held += usize::from(tried.contains(requirement.id) && !broken.contains(requirement.id));
        }
        counts
    };
    levels.into_iter().map(|(name, level)| (name.to_owned(), counts(level))).collect()
}
