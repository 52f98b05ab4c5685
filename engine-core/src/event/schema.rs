//! The JSON Schema (2020-12) of each event type, and validation before append.
//!
//! The files in `schemas/events/` are published and embedded; a test keeps them equal to what [`generate`]
//! makes from the types. Objects are open: a field that a newer version adds is never a reason to refuse.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

use super::{Body, Draft, Event, EventType};
use crate::error::{Code, Error, Result};
use crate::id::{PlanVersion, RunId, StepId};
use crate::machine;
use crate::wire::portable;

/// One way in which an event breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, as a JSON Pointer into the event.
    pub path: String,
    /// What is wrong with it. Never contains the value: an event may carry what no message should.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(formatter, "{path}: {}", self.reason)
    }
}

macro_rules! embedded {
    ($event_type:expr; $($name:ident)*) => {
        match $event_type {
            $(EventType::$name => include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/schemas/events/", stringify!($name), ".v1.schema.json"
            )),)*
        }
    };
}

/// The published schema of an event type.
#[must_use]
pub fn text(event_type: EventType) -> &'static str {
    embedded! { event_type;
        RunQueued RunApproved RunStarted RunPaused RunDrained RunResumed RunCompleted RunFailed RunCancelled
        StepStarted StepRetried StepWaiting StepCompleted StepFailed StepSkipped StepCancelled
        StepRetryRequested CompensationStarted CompensationCompleted CompensationFailed SignalAccepted
        SignalRejected TimerFired HumanReviewRequested CheckpointCreated AlertRaised
    }
}

/// Refuses an event that breaks the schema of its type; of an unknown type only the envelope is looked at.
///
/// # Errors
/// `SCHEMA_VALIDATION_FAILED` that names the type and lists every violation with its path and reason.
pub fn validate_json(event: &Value) -> Result<()> {
    refuse(type_name(event), &violations(event)?)
}

/// Refuses a typed event that breaks its schema: what the types alone cannot rule out.
///
/// # Errors
/// As [`validate_json`].
pub fn validate(event: &Event) -> Result<()> {
    let written = serde_json::to_value(event).map_err(|cause| {
        Error::new(Code::SchemaValidationFailed, format!("{}: {cause}", event.body.type_name()))
    })?;
    validate_json(&written)
}

/// Everything that is wrong with an event, in no particular order.
///
/// # Errors
/// `INTERNAL` when an embedded schema is not a schema, which a test rules out.
pub fn violations(event: &Value) -> Result<Vec<Violation>> {
    let known = EventType::parse(type_name(event));
    let validator = match VALIDATORS.get(&known) {
        Some(Ok(validator)) => validator,
        Some(Err(cause)) => return Err(Error::new(Code::Internal, cause.clone())),
        None => return Err(Error::new(Code::Internal, "there is an event type without a schema")),
    };
    Ok(validator
        .iter_errors(event)
        .map(|error| {
            let parent = error.instance_path().as_str();
            match error.kind() {
                ValidationErrorKind::Required { property: Value::String(name) } => {
                    Violation { path: format!("{parent}/{name}"), reason: "is required and missing".into() }
                }
                _ => Violation { path: parent.to_owned(), reason: error.masked().to_string() },
            }
        })
        .collect())
}

fn type_name(event: &Value) -> &str {
    event.get("eventType").and_then(Value::as_str).unwrap_or("event without a type")
}

fn refuse(type_name: &str, violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    Err(Error::new(Code::SchemaValidationFailed, format!("{type_name}: {}", list.join("; "))))
}

/// One validator per type, and under `None` one for the envelope of types this version does not know.
static VALIDATORS: LazyLock<HashMap<Option<EventType>, Result<Validator, String>>> = LazyLock::new(|| {
    let compile = |name: &str, schema: &Value| {
        jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            // 2020-12 leaves formats unchecked unless asked: a time that is none would pass.
            .should_validate_formats(true)
            .build(schema)
            .map_err(|cause| format!("the schema of {name} is not a schema: {cause}"))
    };
    let of_type = |event_type: EventType| {
        let schema: Value = serde_json::from_str(text(event_type))
            .map_err(|cause| format!("the schema of {event_type} is not JSON: {cause}"))?;
        compile(event_type.as_str(), &schema)
    };
    EventType::ALL
        .iter()
        .map(|event_type| (Some(*event_type), of_type(*event_type)))
        .chain([(None, compile("the envelope", &envelope(None)))])
        .collect()
});

/// Makes the schema of an event type from the types: the envelope and the payload in one open object.
///
/// [`text`] is the published form of the same; this one is for refreshing it.
#[must_use]
pub fn generate(event_type: EventType) -> Value {
    let mut schema = envelope(Some(event_type));
    let mut payload = event_type.payload_schema().to_value();
    portable(&mut payload, bound);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$id"] = json!(format!("https://drivetrain.dev/schemas/events/{event_type}.v1.schema.json"));
    schema["title"] = json!(event_type.as_str());
    if let Some(description) = payload.get_mut("description") {
        schema["description"] = description.take();
    }
    if let Some(Value::Object(fields)) = payload.get_mut("properties")
        && let Value::Object(properties) = &mut schema["properties"]
    {
        for (name, field) in std::mem::take(fields) {
            // The envelope's own fields are the same in every type.
            properties.entry(name).or_insert(field);
        }
    }
    if let Some(Value::Array(names)) = payload.get_mut("required")
        && let Value::Array(required) = &mut schema["required"]
    {
        for name in std::mem::take(names) {
            if !required.contains(&name) {
                required.push(name);
            }
        }
    }
    schema
}

fn envelope(event_type: Option<EventType>) -> Value {
    let mut required = vec![
        "eventType",
        "eventId",
        "schemaVersion",
        "runId",
        "runSeq",
        "idempotencyKey",
        "emittedAt",
        "emittedBy",
        "correlationId",
        "planVersion",
    ];
    if event_type.is_some_and(EventType::is_about_a_step) {
        required.extend(["stepId", "logicalAttemptId"]);
    }
    let mut properties = json!({
        "eventType": {"description": "What happened.", "type": "string", "minLength": 1},
        "eventId": {"description": "Unique over all runs.", "type": "string", "format": "uuid"},
        "schemaVersion": {
            "description": "The version of the shape the event was written in, as MAJOR.MINOR.",
            "type": "string",
            "pattern": "^[0-9]+\\.[0-9]+$",
        },
        "runId": {"description": "The run.", "type": "string", "pattern": RunId::PATTERN},
        "runSeq": {
            "description": "The place in the run's log; the only order there is.",
            "type": "integer",
            "minimum": 1,
        },
        "idempotencyKey": {
            "description": "SHA-256 of runId|stepId or RUN|n|eventType|planVersion.",
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
        },
        "emittedAt": {"description": "When it was stored.", "type": "string", "format": "date-time"},
        "emittedBy": {"description": "Who appended it.", "type": "string"},
        "occurredAt": {
            "description": "When it happened, if measurably before it was stored.",
            "type": "string",
            "format": "date-time",
        },
        "correlationId": {
            "description": "Ties the run's events to the request that caused it.",
            "type": "string",
        },
        "planVersion": {
            "description": "The run's plan version.",
            "type": "string",
            "pattern": PlanVersion::PATTERN,
        },
        "stepId": {
            "description": "The step it is about.",
            "type": "string",
            "pattern": StepId::PATTERN,
        },
        "logicalAttemptId": {
            "description": "The logical attempt of the step; it decides what an event means.",
            "type": "integer",
            "minimum": 1,
            "maximum": u32::MAX,
        },
        "engineAttemptId": {
            "description": "The platform's own counter, for operators only.",
            "type": "integer",
            "minimum": 1,
            "maximum": u32::MAX,
        },
    });
    if let Some(event_type) = event_type {
        properties["eventType"] = json!({"description": "What happened.", "const": event_type.as_str()});
        // An optional addition keeps this schema; any other change of shape makes a v2.
        properties["schemaVersion"]["pattern"] = json!("^1\\.[0-9]+$");
        if let Some(status) = machine::run::status_after(event_type) {
            properties["status"] = json!({
                "description": "The status of the run that the event leads to.",
                "const": status.as_str(),
            });
            required.push("status");
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// The bound that stands for a format.
fn bound(format: &str) -> Option<u64> {
    match format {
        "uint32" => Some(u64::from(u32::MAX)),
        // Larger than JSON numbers are exact in most languages: no bound is better than a rounded one.
        _ => None,
    }
}

impl Draft {
    /// Finds what the schema would refuse and the types cannot rule out, without writing JSON.
    ///
    /// A draft that passes makes an event that passes [`validate`], whatever the store seals it with, as long
    /// as its times lie in the years 0 to 9999.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` as [`validate_json`].
    pub fn check(&self) -> Result<()> {
        let mut found = Findings(Vec::new());
        match &self.subject {
            Some(subject) => {
                found.unless(subject.attempt >= 1, "/logicalAttemptId", "is less than the minimum of 1");
                let engine_attempt = subject.engine_attempt.unwrap_or(1);
                found.unless(engine_attempt >= 1, "/engineAttemptId", "is less than the minimum of 1");
            }
            None if self.body.event_type().is_some_and(EventType::is_about_a_step) => {
                found.unless(false, "/stepId", "is required and missing");
            }
            None => {}
        }
        found.look_at(&self.body);
        refuse(self.body.type_name(), &found.0)
    }
}

struct Findings(Vec<Violation>);

impl Findings {
    fn unless(&mut self, holds: bool, path: &str, reason: &str) {
        if !holds {
            self.0.push(Violation { path: path.into(), reason: reason.into() });
        }
    }

    fn not_empty(&mut self, path: &str, text: &str) {
        self.unless(!text.is_empty(), path, "is empty");
    }

    fn score(&mut self, path: &str, score: Option<f64>) {
        self.unless(score.is_none_or(|score| (0.0..=1.0).contains(&score)), path, "is not from 0 to 1");
    }

    fn error(&mut self, error: &super::step::StepError) {
        self.not_empty("/error/code", &error.code);
        self.not_empty("/error/class", error.class.as_str());
    }

    fn manual(&mut self, manual: Option<&crate::signal::ManualCompletion>) {
        if let Some(manual) = manual {
            self.not_empty("/manual/outcome", manual.outcome.as_str());
        }
    }

    fn context(&mut self, context: &super::run::RunContext) {
        if let Some(source) = &context.trigger_source {
            self.not_empty("/context/triggerSource", source.as_str());
        }
    }

    fn look_at(&mut self, body: &Body) {
        match body {
            Body::RunQueued(queued) => {
                self.context(&queued.context);
                if let Some(origin) = &queued.origin {
                    self.not_empty("/origin/type", origin.origin_type.as_str());
                    for (position, step) in origin.reused.iter().enumerate() {
                        let reason = step.skip_reason.as_ref().map_or("none", |reason| reason.as_str());
                        self.not_empty(&format!("/origin/reused/{position}/skipReason"), reason);
                        let score = step.output.as_ref().and_then(|output| output.quality_score);
                        self.score(&format!("/origin/reused/{position}/output/qualityScore"), score);
                    }
                }
            }
            Body::RunStarted(started) => self.context(&started.context),
            Body::RunPaused(paused) => self.not_empty("/cause", paused.cause.as_str()),
            Body::RunCompleted(completed) => {
                self.not_empty("/outcome", completed.outcome.as_str());
                let score = completed.output.as_ref().and_then(|output| output.quality_score);
                self.score("/output/qualityScore", score);
            }
            Body::StepRetried(retried) => self.error(&retried.error),
            Body::StepWaiting(waiting) => {
                self.not_empty("/completionToken", &waiting.completion_token);
                let score = waiting.output.as_ref().and_then(|output| output.quality_score);
                self.score("/output/qualityScore", score);
            }
            Body::StepCompleted(completed) => {
                self.score("/output/qualityScore", completed.output.quality_score);
                self.manual(completed.manual.as_ref());
            }
            Body::StepFailed(failed) => {
                self.error(&failed.error);
                self.manual(failed.manual.as_ref());
            }
            Body::StepSkipped(skipped) => self.not_empty("/reason", skipped.reason.as_str()),
            Body::StepCancelled(cancelled) => {
                self.not_empty("/reason", cancelled.reason.as_str());
                self.manual(cancelled.manual.as_ref());
            }
            Body::StepRetryRequested(requested) => self.not_empty("/reason", requested.reason.as_str()),
            Body::CompensationFailed(failed) => self.error(&failed.error),
            Body::SignalAccepted(accepted) => self.not_empty("/signalType", accepted.signal_type.as_str()),
            Body::SignalRejected(rejected) => {
                self.not_empty("/signalType", rejected.signal_type.as_str());
                self.not_empty("/code", &rejected.code);
            }
            Body::AlertRaised(alert) => {
                self.not_empty("/code", &alert.code);
                self.not_empty("/severity", alert.severity.as_str());
            }
            Body::Unknown(unknown) => self.not_empty("/eventType", &unknown.event_type),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(event_type: EventType) -> String {
        format!("{}/schemas/events/{event_type}.v1.schema.json", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let refresh = std::env::var_os("UPDATE_SCHEMAS").is_some_and(|value| value == "1");
        let mut stale = Vec::new();
        for event_type in EventType::ALL {
            let generated = generate(*event_type);
            let path = path_of(*event_type);
            // The file, not the embedded text: a refresh must not need a second build to pass.
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            if serde_json::from_str::<Value>(&published).is_ok_and(|published| published == generated) {
                continue;
            }
            if refresh {
                std::fs::write(&path, format!("{generated:#}\n")).unwrap();
            } else {
                stale.push(event_type.as_str());
            }
        }
        assert!(
            stale.is_empty(),
            "the published schemas of {} differ from the types: run `UPDATE_SCHEMAS=1 cargo test -p engine-core` \
             and commit the files",
            stale.join(", ")
        );
    }

    #[test]
    fn there_is_one_published_file_per_type_and_no_other() {
        let directory = format!("{}/schemas/events", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut expected: Vec<String> =
            EventType::ALL.iter().map(|event_type| format!("{event_type}.v1.schema.json")).collect();
        expected.sort();
        assert_eq!(files, expected);
    }
}
