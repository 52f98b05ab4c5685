//! Checks of a plan: every problem at once, each with its place.
//!
//! - [`read`] goes from text to a plan that holds together: the `shape` against the published schema, then
//!   what the fields mean, as far as they can be read (`repair`);
//! - [`validate`] checks a plan that was made in code: the same, without places;
//! - meaning: `graph` (steps and edges), `flow` and `references` (data between steps), `policy` (failure,
//!   dispatch, secrets, …), `schedule` and `cron`.

mod cron;
mod flow;
mod graph;
mod policy;
mod references;
mod repair;
mod report;
mod schedule;
mod shape;

use std::collections::{BTreeSet, HashMap, HashSet};

use super::document::{Path, PlanSource, Segment};
use super::model::{Plan, Step};
use super::problem::Problems;
use crate::error::Result;
use graph::Graph;
use report::Report;

/// What the checker may know besides the plan.
#[derive(Clone, Debug, Default)]
pub struct ValidationOptions {
    /// The handlers that exist. `None`: nobody knows, so any name will do. Native handlers (`engine:name`) are
    /// not looked up.
    pub known_handlers: Option<BTreeSet<String>>,
}

/// Reads a plan from YAML or JSON and checks it.
///
/// # Errors
/// Every problem that could be found, each with line and column.
pub fn read(text: &str) -> Result<Plan, Problems> {
    read_with(text, &ValidationOptions::default())
}

/// Reads a plan from YAML or JSON and checks it, with what is known besides.
///
/// # Errors
/// Every problem that could be found, each with line and column.
pub fn read_with(text: &str, options: &ValidationOptions) -> Result<Plan, Problems> {
    let source = PlanSource::new(text);
    let (value, repeated) = source.value()?;
    let mut report = Report::default();
    let plan = shape::read(value, &mut report);
    if let Some((plan, unreadable)) = &plan {
        check(plan, options, unreadable, &mut report);
    }
    match (plan, repeated) {
        (Some((plan, _)), None) if report.is_empty() => Ok(plan),
        (_, repeated) => {
            let located = source.locate();
            let mut problems = report.into_problems(located.as_ref());
            match located.map(|located| located.repeated_keys()) {
                Some(all) if !all.is_empty() => problems.extend(all),
                _ => problems.extend(repeated),
            }
            problems.sort_by_key(|problem| (problem.line.is_none(), problem.line, problem.column));
            Err(Problems(problems))
        }
    }
}

/// Checks a plan that was made in code.
///
/// # Errors
/// Every problem that could be found; they have paths, but no lines.
pub fn validate(plan: &Plan) -> Result<(), Problems> {
    validate_with(plan, &ValidationOptions::default())
}

/// Checks a plan that was made in code, with what is known besides.
///
/// # Errors
/// Every problem that could be found; they have paths, but no lines.
pub fn validate_with(plan: &Plan, options: &ValidationOptions) -> Result<(), Problems> {
    let mut report = Report::default();
    shape::check(plan, &mut report);
    check(plan, options, &Unreadable::default(), &mut report);
    if report.is_empty() { Ok(()) } else { Err(Problems(report.into_problems(None))) }
}

/// What had to be taken out or replaced so that a broken plan could be read. It was reported already, so its
/// absence is no second problem. Stand-ins are known by their place: whatever name one has, users can write it
/// too.
#[derive(Debug, Default)]
struct Unreadable {
    places: HashSet<Path>,
    plan: HashSet<String>,
    steps: HashMap<usize, HashSet<String>>,
}

impl Unreadable {
    fn add(&mut self, path: &Path) {
        match path.segments() {
            [Segment::Key(steps), Segment::Index(position), Segment::Key(field), ..] if steps == "steps" => {
                self.steps.entry(*position).or_default().insert(field.clone());
            }
            [Segment::Key(field), ..] => {
                self.plan.insert(field.clone());
            }
            _ => {}
        }
        self.places.insert(path.clone());
    }

    /// Whether a field of a step, or anything below it, was taken out.
    fn has(&self, step: usize, field: &str) -> bool {
        !self.steps.is_empty() && self.steps.get(&step).is_some_and(|fields| fields.contains(field))
    }

    /// Whether a field of the plan itself, or anything below it, was taken out.
    fn has_of_plan(&self, field: &str) -> bool {
        self.plan.contains(field)
    }

    /// Whether exactly this value was taken out.
    fn is_at(&self, path: impl FnOnce() -> Path) -> bool {
        !self.places.is_empty() && self.places.contains(&path())
    }
}

/// What every check reads.
struct Subject<'a> {
    plan: &'a Plan,
    options: &'a ValidationOptions,
    unreadable: &'a Unreadable,
    graph: Graph<'a>,
}

impl<'a> Subject<'a> {
    fn steps(&self) -> impl Iterator<Item = (usize, &'a Step)> + use<'a> {
        self.plan.steps.iter().enumerate()
    }
}

/// How many steps a search along the edges looks at in all. What is not found out is not refused here: the
/// worker sees it.
const MOST_VISITS: usize = 5_000_000;

/// The path of a step.
fn step_path(position: usize) -> Path {
    Path::root().key("steps").index(position)
}

fn check(plan: &Plan, options: &ValidationOptions, unreadable: &Unreadable, report: &mut Report) {
    let graph = Graph::build(plan, unreadable, report);
    let subject = Subject { plan, options, unreadable, graph };
    graph::check(&subject, report);
    flow::check(&subject, report);
    policy::check(&subject, report);
    schedule::check(&subject, report);
}
