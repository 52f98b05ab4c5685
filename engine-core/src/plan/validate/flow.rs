//! Data between steps: expressions, inputs, outputs, schemas, and who may write what.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::references::References;
use super::report::{Finding, Report};
use super::{MOST_VISITS, Subject, step_path};
use crate::data::path::{LONGEST_PATH, parse_path};
use crate::data::schema::DataSchema;
use crate::error::Error;
use crate::plan::document::Path;
use crate::plan::expression::{Expression, Template, check_template};
use crate::plan::model::{InputMapping, InputSource, Merge, OutputMapping, Step};
use crate::plan::problem::ProblemCode;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report) {
    let mut schemas = Schemas::default();
    let mut references = References::new(subject);
    if let Some(schema) = &subject.plan.input_schema {
        schemas.check(schema, || Path::root().key("inputSchema"), report);
    }
    if let Some(result) = &subject.plan.result {
        let path = || Path::root().key("result");
        if let Some(result) = expression(result, path, report) {
            references.check(None, &result, path, report);
        }
    }
    for (position, step) in subject.steps() {
        let path = || step_path(position);
        if let Some(when) = &step.when {
            let path = || path().key("when");
            if let Some(when) = expression(when, path, report) {
                references.check(Some(position), &when, path, report);
            }
        }
        if let Some(with) = &step.with {
            let path = || path().key("with");
            references.check_template(position, &template(with, path, report), path, report);
            if step.input.is_some() {
                report.add(
                    Finding::new(
                        ProblemCode::FieldConflict,
                        path(),
                        "`with` and `input` cannot stand together",
                        "keep `with` for values, or `input` for one source",
                    )
                    .at_key(),
                );
            }
        }
        if let Some(with) = step.compensation.as_ref().and_then(|compensation| compensation.with.as_ref()) {
            let path = || path().key("compensation").key("with");
            references.check_template(position, &template(with, path, report), path, report);
        }
        if let Some(mapping) = &step.input {
            input(subject, position, mapping, &mut schemas, &mut references, report);
        }
        if let Some(mapping) = &step.output {
            output(subject, position, mapping, &mut schemas, report);
        }
        names(position, step, report);
    }
    forbidden_writes(subject, report);
}

fn input<'a>(
    subject: &Subject<'a>,
    position: usize,
    mapping: &'a InputMapping,
    schemas: &mut Schemas<'a>,
    references: &mut References<'_, 'a>,
    report: &mut Report,
) {
    let path = || step_path(position).key("input");
    let known = !subject.unreadable.is_at(|| path().key("from"));
    match (mapping.from, &mapping.value) {
        _ if !known => {}
        (InputSource::Literal, None) => report.add(Finding::new(
            ProblemCode::FieldConflict,
            path().key("value"),
            "`from: literal` needs `value`",
            "write the value, or take another `from`",
        )),
        (InputSource::Context | InputSource::PreviousStep, Some(_)) => report.add(
            Finding::new(
                ProblemCode::FieldConflict,
                path().key("value"),
                "`value` is for `from: literal` only",
                "write `from: literal`, or remove `value`",
            )
            .at_key(),
        ),
        _ => {}
    }
    if mapping.from == InputSource::PreviousStep && !subject.unreadable.has(position, "dependsOn") {
        let reason = match subject.graph.predecessors(position) {
            [_] => None,
            [] => Some("has none".to_owned()),
            several => Some(format!("has {}", several.len())),
        };
        if let Some(reason) = reason {
            report.add(Finding::new(
                ProblemCode::FieldConflict,
                path().key("from"),
                format!(
                    "`from: previousStep` needs exactly one step before this one, and {} {reason}",
                    subject.plan.steps[position].id
                ),
                "use `with` and name the step: ${ steps.\"<id>\".output }",
            ));
        }
    }
    if let Some(transform) = &mapping.transform {
        let path = || path().key("transform");
        let transform = expression(transform, path, report);
        if let (InputSource::Context, Some(transform)) = (mapping.from, transform) {
            references.check(Some(position), &transform, path, report);
        }
    }
    if let Some(schema) = &mapping.schema {
        schemas.check(schema, || path().key("schema"), report);
    }
}

fn output<'a>(
    subject: &Subject<'a>,
    position: usize,
    mapping: &'a OutputMapping,
    schemas: &mut Schemas<'a>,
    report: &mut Report,
) {
    let path = || step_path(position).key("output");
    match &mapping.to {
        Some(to) => vars_path(to, || path().key("to"), report),
        None if mapping.merge != Merge::default() && !subject.unreadable.is_at(|| path().key("to")) => report
            .add(
                Finding::new(
                    ProblemCode::FieldConflict,
                    path().key("merge"),
                    "`merge` says how a value is written, but there is no `to`",
                    "add `to: some.path`, or remove `merge`",
                )
                .at_key(),
            ),
        None => {}
    }
    if let Some(transform) = &mapping.transform {
        expression(transform, || path().key("transform"), report);
    }
    if let Some(schema) = &mapping.schema {
        schemas.check(schema, || path().key("schema"), report);
    }
}

fn names(position: usize, step: &Step, report: &mut Report) {
    for (index, name) in step.read_only.iter().enumerate() {
        vars_path(name, || step_path(position).key("readOnly").index(index), report);
    }
    for (index, name) in step.private.iter().enumerate() {
        if parse_path(name).is_none_or(|names| names.len() != 1) {
            report.add(Finding::new(
                ProblemCode::PathInvalid,
                step_path(position).key("private").index(index),
                format!("{name:?} is no name of a top-level output field"),
                "use letters, digits, _ and -, without dots",
            ));
        }
    }
}

fn vars_path(text: &str, path: impl Fn() -> Path, report: &mut Report) {
    if parse_path(text).is_none() {
        report.add(
            Finding::new(
                ProblemCode::PathInvalid,
                path(),
                format!("{text:?} is no path below `vars`"),
                format!("write up to {LONGEST_PATH} names with dots between them, as report.totals; a name has letters, digits, _ and -"),
            ),
        );
    }
}

fn expression(text: &str, path: impl Fn() -> Path, report: &mut Report) -> Option<Expression> {
    Expression::parse(text).map_err(|error| report.add(of_error(&error, path()))).ok()
}

fn template(value: &Value, path: impl Fn() -> Path, report: &mut Report) -> Template {
    let (template, problems) = check_template(value);
    for problem in problems {
        report.add(of_error(&problem.error, path().join(&problem.path)));
    }
    template
}

fn of_error(error: &Error, path: Path) -> Finding {
    Finding::new(
        ProblemCode::ExpressionInvalid,
        path,
        error.message(),
        error.hint().unwrap_or("write a JMESPath expression, as steps.load.output.rows"),
    )
}

/// Schemas that were found to be good. Steps often share one, and making a schema ready costs more than
/// comparing it.
#[derive(Default)]
struct Schemas<'a> {
    good: HashSet<&'a Value>,
}

impl<'a> Schemas<'a> {
    fn check(&mut self, schema: &'a Value, path: impl Fn() -> Path, report: &mut Report) {
        if self.good.contains(schema) {
            return;
        }
        let problems = DataSchema::problems(schema);
        if problems.is_empty() {
            self.good.insert(schema);
        }
        for problem in problems {
            report.add(Finding::new(
                ProblemCode::SchemaInvalid,
                path().join(&Path::from_pointer(&problem.pointer, schema)),
                problem.message,
                problem.hint,
            ));
        }
    }
}

/// Writes to a path that the step itself or one before it has made read-only.
fn forbidden_writes(subject: &Subject<'_>, report: &mut Report) {
    let mut exact: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, step) in subject.steps() {
        let Some(to) = step.output.as_ref().and_then(|output| output.to.as_deref()) else { continue };
        if parse_path(to).is_none() {
            continue;
        }
        exact.entry(to).or_default().push(position);
        for prefix in prefixes(to) {
            below.entry(prefix).or_default().push(position);
        }
    }
    if exact.is_empty() {
        return;
    }
    let mut owners: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, step) in subject.steps() {
        for path in step.read_only.iter().filter(|path| parse_path(path).is_some()) {
            owners.entry(path).or_default().push(position);
        }
    }
    let mut paths: Vec<&str> = owners.keys().copied().collect();
    paths.sort_unstable();
    let mut visits = MOST_VISITS;
    for read_only in paths {
        let same_or_below = exact.get(read_only).into_iter().chain(below.get(read_only)).flatten();
        let above = prefixes(read_only).filter_map(|prefix| exact.get(prefix)).flatten();
        let writers: HashSet<usize> = same_or_below.chain(above).copied().collect();
        if writers.is_empty() {
            continue;
        }
        let Some(reached) = reached_from(subject, &owners[read_only], &mut visits) else { return };
        let mut found: Vec<(usize, usize)> =
            writers.into_iter().filter_map(|writer| reached[writer].map(|owner| (writer, owner))).collect();
        found.sort_unstable();
        for (writer, owner) in found {
            let owner = &subject.plan.steps[owner].id;
            report.add(Finding::new(
                ProblemCode::ReadOnlyWrite,
                step_path(writer).key("output").key("to"),
                format!("step {owner} makes `{read_only}` read-only for itself and the steps after it"),
                format!("write to another path, or take `{read_only}` out of `readOnly` of {owner}"),
            ));
        }
    }
}

/// For every step the owner that it is or comes after; `None` when finding out takes too long.
fn reached_from(subject: &Subject<'_>, owners: &[usize], visits: &mut usize) -> Option<Vec<Option<usize>>> {
    let mut reached: Vec<Option<usize>> = vec![None; subject.plan.steps.len()];
    for owner in owners {
        reached[*owner] = Some(*owner);
    }
    *visits = visits.checked_sub(reached.len())?;
    let mut open: Vec<usize> = owners.to_vec();
    while let Some(position) = open.pop() {
        for successor in subject.graph.successors(position) {
            let fallback = subject.plan.steps[*successor]
                .fallback
                .as_ref()
                .and_then(|fallback| subject.graph.find(fallback.as_str()));
            for next in [Some(*successor), fallback].into_iter().flatten() {
                *visits = visits.checked_sub(1)?;
                if reached[next].is_none() {
                    reached[next] = reached[position];
                    open.push(next);
                }
            }
        }
    }
    Some(reached)
}

/// The proper prefixes of a path: `a` and `a.b` for `a.b.c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(move |(dot, _)| &path[..dot])
}
