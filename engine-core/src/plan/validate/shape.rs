//! The shape of a plan, against the published schema, in words for people.

use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::report::{Finding, Report};
use super::{Unreadable, repair, step_path};
use crate::id::{HandlerName, PlanVersion, StepId};
use crate::plan::document::{Path, Segment};
use crate::plan::model::{Plan, Step};
use crate::plan::problem::ProblemCode;
use crate::plan::schema::{DOCUMENT, VALIDATOR};

/// Reads a plan out of a document and reports what is wrong with its shape. The plan is there, as far as it can
/// be read, even then. `again` reads the document once more: a good one is used up, not copied.
pub(super) fn read(
    mut document: Value,
    again: impl FnOnce() -> Option<Value>,
    report: &mut Report,
) -> (Option<Plan>, Unreadable) {
    if !document.is_object() {
        report.add(
            Finding::new(
                ProblemCode::WrongType,
                Path::root(),
                format!("a plan is an object, and this is {}", kind_of(&document)),
            )
            .hint("start with `id:`, `version:` and `steps:`"),
        );
        return (None, Unreadable::default());
    }
    let mut broken = Vec::new();
    explain_all(&document, &mut broken, report);
    if broken.is_empty() {
        match serde_json::from_value::<Plan>(document) {
            Ok(plan) => return (Some(plan), Unreadable::default()),
            // The schema has no words for every limit of the types, such as the largest whole number.
            Err(reason) => {
                document = again().unwrap_or_default();
                misfits(&document, &reason.to_string(), &mut broken, report);
            }
        }
    }
    match repair::readable(&mut document, &broken) {
        Some((plan, unreadable)) => (Some(plan), unreadable),
        None => (None, Unreadable::default()),
    }
}

/// Reports what is wrong with the shape of a plan that was made in code: numbers out of range.
pub(super) fn check(plan: &Plan, report: &mut Report) {
    if let Ok(document) = serde_json::to_value(plan) {
        explain_all(&document, &mut Vec::new(), report);
    }
}

fn explain_all(document: &Value, broken: &mut Vec<Path>, report: &mut Report) {
    let Some(validator) = VALIDATOR.as_ref() else { return };
    if validator.is_valid(document) {
        return;
    }
    for error in validator.iter_errors(document) {
        explain(&error, document, broken, report);
    }
}

fn typed<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    T::deserialize(document).map_err(|error| error.to_string())
}

/// Finds the fields that the types refuse although the schema allows them, by leaving each out in turn.
fn misfits(document: &Value, reason: &str, broken: &mut Vec<Path>, report: &mut Report) {
    let mut found = Vec::new();
    let steps = document.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (position, step) in steps.iter().enumerate() {
        if let Err(reason) = typed::<Step>(step) {
            let field = culprit::<Step>(step);
            found.push((field.map_or(step_path(position), |field| step_path(position).key(field)), reason));
        }
    }
    if found.is_empty() {
        let mut rest = document.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.insert("steps".to_owned(), Value::Array(Vec::new()));
        }
        let field = culprit::<Plan>(&rest);
        found.push((field.map_or(Path::root(), |field| Path::root().key(field)), reason.to_owned()));
    }
    for (path, reason) in found {
        report.add(Finding::new(ProblemCode::WrongType, path.clone(), reason));
        broken.push(path);
    }
}

/// The field without which the object could be read.
fn culprit<T: DeserializeOwned>(object: &Value) -> Option<String> {
    object.as_object()?.keys().find_map(|name| {
        let mut without = object.clone();
        without.as_object_mut()?.remove(name);
        typed::<T>(&without).is_ok().then(|| name.clone())
    })
}

fn explain(error: &ValidationError<'_>, document: &Value, broken: &mut Vec<Path>, report: &mut Report) {
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
            broken.push(path.clone());
            Finding::new(ProblemCode::MissingField, path.clone(), format!("{} needs `{name}`", owner(&path)))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let words = words_of(error);
            if !words.is_empty() {
                broken.push(path.clone());
                unknown_word(value, path, &words, report)
            } else if let Some(branch) = meant_branch(error, context) {
                for inner in branch {
                    explain(inner, document, broken, report);
                }
                return;
            } else {
                broken.push(path.clone());
                wrong_type(value, &path, &expected_of(context))
            }
        }
        ValidationErrorKind::Enum { options } => {
            broken.push(path.clone());
            let words: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            unknown_word(value, path, &words, report)
        }
        ValidationErrorKind::Type { kind } => {
            broken.push(path.clone());
            wrong_type(value, &path, &types_of(kind))
        }
        kind => {
            broken.push(path.clone());
            limit(kind, value, &path)
        }
    };
    report.add(finding);
}

fn unknown_field(name: &str, path: &Path, allowed: &[&str], broken: &mut Vec<Path>, report: &mut Report) {
    let here = path.clone().key(name);
    let meant = report.closest(name, allowed.iter().copied());
    let finding = Finding::new(
        ProblemCode::UnknownField,
        here.clone(),
        format!("{} has no field {name:?}", owner(&here)),
    )
    .at_key();
    broken.push(here);
    report.add(match meant {
        Some(_) => finding.meant(meant),
        None if (1..=10).contains(&allowed.len()) => finding.hint(format!("it has {}", allowed.join(", "))),
        None => finding,
    });
}

fn refused_key(name: &str, path: &Path, rule: &str, broken: &mut Vec<Path>, report: &mut Report) {
    let here = path.clone().key(name);
    broken.push(here.clone());
    report.add(
        Finding::new(ProblemCode::InvalidText, here, format!("{name:?} cannot be a key here"))
            .at_key()
            .hint(rule),
    );
}

fn unknown_word(value: &Value, path: Path, words: &[&str], report: &Report) -> Finding {
    let listed = words.join(", ");
    match value.as_str() {
        Some(word) => {
            Finding::new(ProblemCode::UnknownValue, path, format!("{word:?} is not one of {listed}"))
                .meant(report.closest(word, words.iter().copied()))
        }
        None => Finding::new(
            ProblemCode::WrongType,
            path,
            format!("expected one of {listed}, found {}", kind_of(value)),
        ),
    }
}

fn wrong_type(value: &Value, path: &Path, expected: &[&'static str]) -> Finding {
    let expected_words: Vec<&str> = match path.segments() {
        [.., Segment::Key(list), Segment::Index(_)] if list == "dependsOn" => {
            vec!["a step id", "an object with `step` and `required`"]
        }
        [.., Segment::Key(secrets), Segment::Key(_)] if secrets == "secrets" => {
            vec!["a text `provider:key`", "an object with `provider` and `key`"]
        }
        _ => expected.to_vec(),
    };
    let finding = Finding::new(
        ProblemCode::WrongType,
        path.clone(),
        format!("expected {}, found {}", expected_words.join(" or "), kind_of(value)),
    );
    match value {
        Value::Number(_) | Value::Bool(_) if expected.contains(&TEXT) => {
            finding.hint(format!("quote it: \"{value}\""))
        }
        Value::String(_) if expected.contains(&LIST) => finding.hint("write it as a list: [ … ]"),
        Value::String(text)
            if expected.contains(&TRUTH) && ["yes", "no", "on", "off"].contains(&text.as_str()) =>
        {
            finding.hint("write true or false")
        }
        _ => finding,
    }
}

/// Numbers, lengths and the way texts are written.
fn limit(kind: &ValidationErrorKind, value: &Value, path: &Path) -> Finding {
    use ValidationErrorKind as Kind;
    let out_of_range = |bound: String| Finding::new(ProblemCode::OutOfRange, path.clone(), bound);
    match kind {
        Kind::Minimum { limit } => out_of_range(format!("{value} is below the minimum of {limit}")),
        Kind::Maximum { limit } => out_of_range(format!("{value} is over the maximum of {limit}")),
        Kind::MinItems { limit: 1 } => Finding::new(
            ProblemCode::MissingField,
            path.clone(),
            "the list is empty; it needs at least one entry",
        ),
        Kind::MinItems { limit } => out_of_range(format!("the list needs at least {limit} entries")),
        Kind::MaxItems { limit } => out_of_range(format!("the list has more than {limit} entries")),
        Kind::MinLength { limit } => out_of_range(format!("the text needs at least {limit} characters")),
        Kind::MaxLength { limit } => out_of_range(format!("the text has more than {limit} characters")),
        Kind::Pattern { pattern } => {
            let text = value.as_str().unwrap_or_default();
            Finding::new(ProblemCode::InvalidText, path.clone(), format!("{text:?} cannot stand here"))
                .hint(rule_of(pattern))
        }
        Kind::Format { .. } => {
            Finding::new(ProblemCode::InvalidText, path.clone(), format!("{value} is not a time"))
                .hint("write it as 2026-02-11T10:30:00Z")
        }
        other => Finding::new(
            ProblemCode::InvalidText,
            path.clone(),
            format!("the rule `{}` is broken", other.keyword()),
        ),
    }
}

/// The rule of the identifier with this pattern, in words.
fn rule_of(pattern: &str) -> String {
    let refused = match pattern {
        StepId::PATTERN => StepId::new("").err(),
        HandlerName::PATTERN => HandlerName::new("").err(),
        PlanVersion::PATTERN => PlanVersion::new("").err(),
        _ => None,
    };
    match refused.as_ref().and_then(|error| error.hint()) {
        Some(hint) => hint.split(';').next().unwrap_or(hint).to_owned(),
        None => format!("it must match {pattern}"),
    }
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
