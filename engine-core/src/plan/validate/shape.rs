//! The shape of a plan, against the published schema, in words for people.

use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::Unreadable;
use super::policy::SECRET_HINT;
use super::repair::{self, Broken};
use super::report::{Finding, Report};
use crate::id::{AgentName, HandlerName, PlanId, StepId};
use crate::plan::document::{Path, Segment};
use crate::plan::model::Plan;
use crate::plan::problem::ProblemCode;
use crate::plan::schema::{DOCUMENT, STEP_VALIDATOR, VALIDATOR};

/// Reads a plan out of a document and reports what is wrong with its shape (PLAN-9). The plan is there, as far
/// as it can be read, even then.
pub(super) fn read(mut document: Value, report: &mut Report) -> Option<(Plan, Unreadable)> {
    if !document.is_object() {
        report.add(Finding::new(
            ProblemCode::WrongType,
            Path::root(),
            format!("a plan is an object, and this is {}", kind_of(&document)),
            "start with `id:`, `version:` and `steps:`",
        ));
        return None;
    }
    let mut broken = Broken::default();
    explain_all(&document, &mut broken, report);
    whole_numbers(&mut document);
    if !broken.is_empty() {
        return repair::readable(document, &broken);
    }
    match serde_json::from_value::<Plan>(document) {
        Ok(plan) => Some((plan, Unreadable::default())),
        // The schema says all that the types do; this is for the day on which it does not.
        Err(reason) => {
            report.add(Finding::new(
                ProblemCode::WrongType,
                Path::root(),
                format!("the plan cannot be read: {reason}"),
                "compare it with the published schema plan.v1.schema.json",
            ));
            None
        }
    }
}

/// Writes `1e3` and `5.0` as whole numbers, which they are to a JSON Schema. Data is left as it is.
fn whole_numbers(value: &mut Value) {
    const DATA: &[&str] = &["with", "value", "schema", "inputSchema"];
    match value {
        Value::Object(fields) => {
            fields.iter_mut().filter(|(name, _)| !DATA.contains(&name.as_str())).for_each(|(_, field)| {
                whole_numbers(field);
            });
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            // Beyond these bounds a float is not exact; the schema's limits are lower.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9.0e15);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and within bounds")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Reports what is wrong with the shape of a plan that was made in code: numbers out of range.
pub(super) fn check(plan: &Plan, report: &mut Report) {
    if is_within_schema(plan) {
        return;
    }
    if let Ok(document) = serde_json::to_value(plan) {
        explain_all(&document, &mut Broken::default(), report);
    }
}

/// Whether the schema accepts a plan, looked at one step at a time: a value of the whole plan is large.
fn is_within_schema(plan: &Plan) -> bool {
    let (Some(whole), Some(one)) = (VALIDATOR.as_ref(), STEP_VALIDATOR.as_ref()) else { return false };
    let mut shell = plan.without_steps();
    shell.steps.extend(plan.steps.first().cloned());
    serde_json::to_value(shell).is_ok_and(|shell| whole.is_valid(&shell))
        && plan.steps.iter().all(|step| serde_json::to_value(step).is_ok_and(|step| one.is_valid(&step)))
}

fn explain_all(document: &Value, broken: &mut Broken, report: &mut Report) {
    let Some(validator) = VALIDATOR.as_ref() else { return };
    if validator.is_valid(document) {
        return;
    }
    for error in validator.iter_errors(document) {
        explain(&error, document, broken, report);
    }
}

fn explain(error: &ValidationError<'_>, document: &Value, broken: &mut Broken, report: &mut Report) {
    let path = Path::from_pointer(error.instance_path().as_str(), document);
    let value = error.instance().as_ref();
    let finding = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let allowed = fields_beside(error);
            let rule = key_rule_beside(error);
            for name in unexpected {
                match &rule {
                    Some(rule) => refused_key(name, &path, rule, broken, report),
                    None => unknown_field(name, &path, &allowed, broken, report),
                }
            }
            return;
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let path = path.key(name);
            broken.values.push(path.clone());
            Finding::new(
                ProblemCode::MissingField,
                path.clone(),
                format!("{} needs `{name}`", owner(&path)),
                format!("add `{name}: …`"),
            )
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let words = words_of(error);
            if !words.is_empty() {
                broken.values.push(path.clone());
                unknown_word(value, path, &words, report)
            } else if let Some(branch) = meant_branch(error, context) {
                for inner in branch {
                    explain(inner, document, broken, report);
                }
                return;
            } else {
                broken.values.push(path.clone());
                wrong_type(value, &path, &expected_of(context))
            }
        }
        ValidationErrorKind::Enum { options } => {
            broken.values.push(path.clone());
            let words: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            unknown_word(value, path, &words, report)
        }
        ValidationErrorKind::Type { kind } => {
            broken.values.push(path.clone());
            wrong_type(value, &path, &types_of(kind))
        }
        kind => {
            broken.values.push(path.clone());
            limit(kind, value, &path)
        }
    };
    report.add(finding);
}

fn unknown_field(name: &str, path: &Path, allowed: &[&str], broken: &mut Broken, report: &mut Report) {
    let here = path.clone().key(name);
    let meant = report.closest(name, allowed.iter().copied());
    let finding = Finding::new(
        ProblemCode::UnknownField,
        here.clone(),
        format!("{} has no field {name:?}", owner(&here)),
        format!("remove it; there are {}", allowed.join(", ")),
    )
    .at_key()
    .meant(meant);
    broken.strangers.push(here);
    report.add(finding);
}

fn refused_key(name: &str, path: &Path, rule: &str, broken: &mut Broken, report: &mut Report) {
    let here = path.clone().key(name);
    broken.strangers.push(here.clone());
    let message = format!("{name:?} cannot be a key here");
    report.add(Finding::new(ProblemCode::InvalidText, here, message, rule).at_key());
}

fn unknown_word(value: &Value, path: Path, words: &[&str], report: &Report) -> Finding {
    let listed = words.join(", ");
    match value.as_str() {
        Some(word) => Finding::new(
            ProblemCode::UnknownValue,
            path,
            format!("{word:?} is not one of {listed}"),
            "write one of these words",
        )
        .meant(report.closest(word, words.iter().copied())),
        None => Finding::new(
            ProblemCode::WrongType,
            path,
            format!("expected one of {listed}, found {}", kind_of(value)),
            "write one of these words",
        ),
    }
}

fn wrong_type(value: &Value, path: &Path, expected: &[&'static str]) -> Finding {
    if is_secret(path) {
        return secret_of_wrong_type(value, path);
    }
    let expected_words: Vec<&str> = match path.segments() {
        [.., Segment::Key(list), Segment::Index(_)] if list == "dependsOn" => {
            vec!["a step id", "an object with `step` and `required`"]
        }
        _ => expected.to_vec(),
    };
    let hint = match value {
        Value::Number(_) | Value::Bool(_) if expected.contains(&TEXT) => format!("quote it: \"{value}\""),
        Value::String(_) if expected.contains(&LIST) => "write it as a list: [ … ]".to_owned(),
        Value::String(_) if expected.contains(&TRUTH) => "write true or false".to_owned(),
        Value::Null => "write a value, or leave the field out".to_owned(),
        _ => format!("write {} here", expected_words.join(" or ")),
    };
    Finding::new(
        ProblemCode::WrongType,
        path.clone(),
        format!("expected {}, found {}", expected_words.join(" or "), kind_of(value)),
        hint,
    )
}

/// Whether what stands here may be a secret that somebody wrote into the plan.
fn is_secret(path: &Path) -> bool {
    matches!(
        path.segments(),
        [Segment::Key(steps), Segment::Index(_), Segment::Key(secrets), _, ..]
            if steps == "steps" && secrets == "secrets"
    )
}

/// The value itself may be the secret, so only its type is named (SECRET-3).
fn secret_of_wrong_type(value: &Value, path: &Path) -> Finding {
    let found = match value {
        Value::Bool(_) => TRUTH.to_owned(),
        Value::Number(_) => "a number".to_owned(),
        other => kind_of(other),
    };
    let expected = match path.segments() {
        [_, _, _, _] => "a text `provider:key` or an object with `provider` and `key`",
        _ => TEXT,
    };
    Finding::new(
        ProblemCode::WrongType,
        path.clone(),
        format!("expected {expected}, found {found}"),
        SECRET_HINT,
    )
}

/// Numbers, lengths and the way texts are written.
fn limit(kind: &ValidationErrorKind, value: &Value, path: &Path) -> Finding {
    use ValidationErrorKind as Kind;
    let finding = |code, message: String, hint: String| Finding::new(code, path.clone(), message, hint);
    let out_of_range = |message, hint| finding(ProblemCode::OutOfRange, message, hint);
    match kind {
        Kind::Minimum { limit } => {
            out_of_range(format!("{value} is below the minimum of {limit}"), format!("write {limit} or more"))
        }
        Kind::Maximum { limit } => {
            out_of_range(format!("{value} is over the maximum of {limit}"), format!("write {limit} or less"))
        }
        Kind::MinItems { limit: 1 } => finding(
            ProblemCode::MissingField,
            "the list is empty; it needs at least one entry".to_owned(),
            "add an entry".to_owned(),
        ),
        Kind::MinItems { limit } => out_of_range(
            format!("the list needs at least {limit} entries"),
            format!("write {limit} entries or more"),
        ),
        Kind::MaxItems { limit } => out_of_range(
            format!("the list has more than {limit} entries"),
            format!("write {limit} entries or fewer"),
        ),
        Kind::Pattern { pattern } => {
            let text = value.as_str().unwrap_or_default();
            finding(ProblemCode::InvalidText, format!("{text:?} cannot stand here"), rule_of(pattern))
        }
        Kind::Format { .. } => finding(
            ProblemCode::InvalidText,
            format!("{value} is not a time"),
            "write it as 2026-02-11T10:30:00Z".to_owned(),
        ),
        other => finding(
            ProblemCode::InvalidText,
            format!("the rule `{}` is broken", other.keyword()),
            "compare it with the published schema plan.v1.schema.json".to_owned(),
        ),
    }
}

/// The rule of the identifier with this pattern, in words.
fn rule_of(pattern: &str) -> String {
    let known = [
        (StepId::PATTERN, StepId::RULE),
        (HandlerName::PATTERN, HandlerName::RULE),
        (PlanId::PATTERN, PlanId::RULE),
        (AgentName::PATTERN, AgentName::RULE),
    ];
    let rule = known.into_iter().find(|(known, _)| *known == pattern);
    rule.map_or_else(|| format!("it must match {pattern}"), |(_, rule)| rule.to_owned())
}

/// What a field belongs to, in words.
fn owner(field: &Path) -> String {
    match field.segments() {
        [_] => "a plan".to_owned(),
        [Segment::Key(steps), Segment::Index(_), _] if steps == "steps" => "a step".to_owned(),
        [.., Segment::Key(list), Segment::Index(_), _] if list == "dependsOn" => "a dependency".to_owned(),
        [.., Segment::Key(name), _] => format!("`{name}`"),
        _ => "this object".to_owned(),
    }
}

const TEXT: &str = "a text";
const LIST: &str = "a list";
const TRUTH: &str = "true or false";

fn name_of(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => LIST,
        JsonType::Boolean => TRUTH,
        JsonType::Integer => "a whole number",
        JsonType::Null => "nothing",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => TEXT,
    }
}

fn types_of(kind: &TypeKind) -> Vec<&'static str> {
    let types: Vec<JsonType> = match kind {
        TypeKind::Single(kind) => vec![*kind],
        TypeKind::Multiple(kinds) => kinds.iter().collect(),
    };
    // That a field may be empty is no help to somebody who filled it.
    types.into_iter().filter(|kind| *kind != JsonType::Null).map(name_of).collect()
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => TEXT.to_owned(),
        Value::Array(_) => LIST.to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The alternative whose type fits the value, so that what is wrong lies further down.
fn meant_branch<'a>(
    error: &ValidationError<'_>,
    context: &'a [Vec<ValidationError<'static>>],
) -> Option<&'a [ValidationError<'static>]> {
    context
        .iter()
        .find(|branch| {
            !branch.iter().any(|inner| {
                matches!(inner.kind(), ValidationErrorKind::Type { .. })
                    && inner.instance_path().as_str() == error.instance_path().as_str()
            })
        })
        .map(Vec::as_slice)
}

fn expected_of(context: &[Vec<ValidationError<'static>>]) -> Vec<&'static str> {
    let mut expected = Vec::new();
    for inner in context.iter().flatten() {
        if let ValidationErrorKind::Type { kind } = inner.kind() {
            for name in types_of(kind) {
                if !expected.contains(&name) {
                    expected.push(name);
                }
            }
        }
    }
    expected
}

/// The words that a choice is between, when it is one between words.
fn words_of(error: &ValidationError<'_>) -> Vec<&'static str> {
    let Some(choice) = DOCUMENT.pointer(error.schema_path().as_str()) else { return Vec::new() };
    let mut words = Vec::new();
    let mut open: Vec<&'static Value> = choice.as_array().into_iter().flatten().rev().collect();
    while let Some(option) = open.pop() {
        if let Some(word) = option.get("const").and_then(Value::as_str) {
            words.push(word);
        } else if let Some(list) = option.get("enum").and_then(Value::as_array) {
            words.extend(list.iter().filter_map(Value::as_str));
        } else if let Some(target) = option
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| DOCUMENT.pointer(target.trim_start_matches('#')))
        {
            let inner = target.get("oneOf").and_then(Value::as_array);
            match (inner, target.get("enum")) {
                (Some(inner), _) => open.extend(inner.iter().rev()),
                (None, Some(_)) => open.push(target),
                _ => return Vec::new(),
            }
        } else if option.get("type").and_then(Value::as_str) != Some("null") {
            return Vec::new();
        }
    }
    words
}

/// The rule that the keys of the object follow, when any name will do that follows it.
fn key_rule_beside(error: &ValidationError<'_>) -> Option<String> {
    let object = DOCUMENT.pointer(error.schema_path().as_str().rsplit_once('/')?.0)?;
    object.get("patternProperties")?.as_object()?.keys().next().map(|pattern| rule_of(pattern))
}

/// The fields that the object could have.
fn fields_beside(error: &ValidationError<'_>) -> Vec<&'static str> {
    let pointer = error.schema_path().as_str();
    let object = pointer.rsplit_once('/').map_or("", |(object, _)| object);
    let fields =
        DOCUMENT.pointer(object).and_then(|object| object.get("properties")).and_then(Value::as_object);
    let names: BTreeSet<&str> = fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.into_iter().collect()
}
