//! Events against their published schemas: what is written passes, what is broken is refused by name, and
//! what a newer version wrote is read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

mod event_support;

use std::collections::BTreeSet;

use engine_core::Code;
use engine_core::event::schema::{self, text, validate, validate_json, violations};
use engine_core::event::{Body, Draft, Event, EventType};
use event_support::{body, event, every_type, payload, seal, subject, written};
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema_of(event_type: EventType) -> Value {
    serde_json::from_str(text(event_type)).unwrap()
}

/// Every object schema within `schema` that the sample has, as (JSON Pointer, schema).
fn objects<'a>(schema: &'a Value, sample: &Value, path: &str, found: &mut Vec<(String, &'a Value)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    found.push((path.to_owned(), schema));
    for (name, field) in properties {
        match sample.get(name) {
            Some(inner @ Value::Object(_)) => objects(field, inner, &format!("{path}/{name}"), found),
            Some(Value::Array(items)) if items.first().is_some_and(Value::is_object) => {
                objects(&field["items"], &items[0], &format!("{path}/{name}/0"), found);
            }
            _ => {}
        }
    }
}

fn required(schema: &Value) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn object_at<'a>(event: &'a mut Value, path: &str) -> &'a mut serde_json::Map<String, Value> {
    event.pointer_mut(path).unwrap().as_object_mut().unwrap()
}

fn refused(event: &Value) -> String {
    let error = validate_json(event).unwrap_err();
    assert_eq!(error.code(), Code::SchemaValidationFailed);
    error.message().to_owned()
}

#[test]
fn every_type_round_trips_and_validates() {
    for event_type in every_type() {
        let event = event(event_type);
        let text = serde_json::to_string(&event).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(violations(&value).unwrap(), [], "{event_type}");
        validate(&event).unwrap();
        assert_eq!(Event::from_json(value).unwrap(), event, "{event_type}");
    }
}

#[test]
fn the_samples_leave_no_field_out() {
    // The table tests below are only as good as the samples they break.
    for event_type in EventType::ALL {
        let schema = schema_of(*event_type);
        let sample = written(*event_type);
        let mut found = Vec::new();
        objects(&schema, &sample, "", &mut found);
        for (path, schema) in found {
            for name in schema["properties"].as_object().unwrap().keys() {
                let run_level = path.is_empty()
                    && ["stepId", "logicalAttemptId", "engineAttemptId"].contains(&name.as_str());
                let filled = sample.pointer(&format!("{path}/{name}")).is_some();
                assert!(filled || run_level, "{event_type}: the sample has no {path}/{name}");
            }
        }
    }
}

#[test]
fn a_missing_required_field_is_refused_by_name() {
    for event_type in every_type() {
        let schema = schema_of(event_type);
        let sample = written(event_type);
        let mut found = Vec::new();
        objects(&schema, &sample, "", &mut found);
        let mut looked_at = 0;
        for (path, schema) in found {
            for name in required(schema) {
                let mut broken = sample.clone();
                object_at(&mut broken, &path).remove(&name).unwrap();
                // Without its type nobody knows which schema an event should follow.
                let named = if name == "eventType" { "event without a type" } else { event_type.as_str() };
                let message = refused(&broken);
                assert!(
                    message.starts_with(&format!("{named}: "))
                        && message.contains(&format!("{path}/{name}: is required and missing")),
                    "{event_type} without {path}/{name}: {message}"
                );
                // Reading is more tolerant in two places: an attempt that nobody counted is the first, and the
                // status follows from the type.
                let tolerated = ["logicalAttemptId", "status"].contains(&name.as_str()) && path.is_empty();
                if !tolerated {
                    let error = Event::from_json(broken).unwrap_err();
                    assert_eq!(error.code(), Code::SchemaValidationFailed);
                    assert!(error.message().contains(&name), "{event_type} without {name}: {error}");
                }
                looked_at += 1;
            }
        }
        assert!(looked_at >= 10, "{event_type}: the envelope alone requires ten fields");
    }
}

#[test]
fn optional_fields_may_be_missing() {
    for event_type in every_type() {
        let schema = schema_of(event_type);
        let mut event = written(event_type);
        let needed: BTreeSet<String> = required(&schema).into_iter().collect();
        event.as_object_mut().unwrap().retain(|name, _| needed.contains(name));
        validate_json(&event).unwrap();
        let read = Event::from_json(event).unwrap();
        validate(&read).unwrap();
    }
}

#[test]
fn a_field_of_another_type_is_refused_with_its_path() {
    for event_type in every_type() {
        let schema = schema_of(event_type);
        let sample = written(event_type);
        for (name, field) in schema["properties"].as_object().unwrap() {
            // A schema without a type (a JSON value) takes anything.
            if sample.get(name).is_none() || field.get("type").is_none() && field.get("const").is_none() {
                continue;
            }
            let mut broken = sample.clone();
            let wrong = if sample[name].is_array() { json!({"no": "list"}) } else { json!([["no"]]) };
            broken[name] = wrong;
            let message = refused(&broken);
            assert!(message.contains(&format!("/{name}: ")), "{event_type}: {message}");
        }
    }
}

#[test]
fn all_violations_are_listed_at_once_and_show_no_value() {
    let mut broken = written(EventType::StepFailed);
    broken["runSeq"] = json!(0);
    broken["error"]["message"] = json!({"password": "hunter2"});
    broken["error"]["class"] = json!("");
    object_at(&mut broken, "").remove("tries");
    let message = refused(&broken);
    for path in ["/runSeq: ", "/error/message: ", "/error/class: ", "/tries: "] {
        assert!(message.contains(path), "{message}");
    }
    assert!(!message.contains("hunter2"), "{message}");
}

#[test]
fn the_envelope_is_really_checked() {
    let bad = [
        ("eventId", json!("not-a-uuid")),
        ("emittedAt", json!("yesterday")),
        ("emittedAt", json!("2026-02-30T10:30:00Z")),
        ("occurredAt", json!("10:30")),
        ("runSeq", json!(0)),
        ("runSeq", json!(1.5)),
        ("runId", json!("has space")),
        ("planVersion", json!("a|b")),
        ("schemaVersion", json!("one")),
        ("schemaVersion", json!("2.0")),
        ("idempotencyKey", json!("00ff")),
        ("idempotencyKey", json!("A".repeat(64))),
        ("stepId", json!("RUN")),
        ("logicalAttemptId", json!(0)),
        ("logicalAttemptId", json!(4_294_967_296_u64)),
        ("engineAttemptId", json!(0)),
        ("claimUntil", json!("soon")),
        ("emittedBy", json!(7)),
    ];
    for (name, value) in bad {
        let mut broken = written(EventType::StepStarted);
        broken[name] = value.clone();
        let message = refused(&broken);
        assert!(message.starts_with(&format!("StepStarted: /{name}: ")), "{name} {value}: {message}");
    }
}

#[test]
fn what_is_no_event_at_all_is_refused() {
    for nothing in [json!(null), json!([]), json!("RunStarted"), json!(7), json!({}), json!({"eventType": 1})]
    {
        assert!(validate_json(&nothing).is_err(), "{nothing}");
        assert!(Event::from_json(nothing).is_err());
    }
}

#[test]
fn the_event_of_another_type_does_not_pass() {
    let mut swapped = written(EventType::RunPaused);
    swapped["eventType"] = json!("RunFailed");
    let message = refused(&swapped);
    assert!(message.starts_with("RunFailed: ") && message.contains("/counts"), "{message}");
}

#[test]
fn an_unknown_type_is_read_and_kept_whole_if_its_envelope_is_right() {
    let mut future = written(EventType::AlertRaised);
    future["eventType"] = json!("RunTeleported");
    future["schemaVersion"] = json!("2.3");
    future["where"] = json!({"planet": "Mars", "moons": [1, 2]});
    validate_json(&future).unwrap();
    let read = Event::from_json(future.clone()).unwrap();
    assert_eq!(read.body.event_type(), None);
    assert_eq!(read.body.type_name(), "RunTeleported");
    validate(&read).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), future);

    future["runSeq"] = json!("twelve");
    assert!(refused(&future).starts_with("RunTeleported: /runSeq: "));
}

#[test]
fn unknown_fields_are_tolerated_everywhere() {
    for event_type in every_type() {
        let schema = schema_of(event_type);
        let sample = written(event_type);
        let mut found = Vec::new();
        objects(&schema, &sample, "", &mut found);
        let mut wider = sample.clone();
        for (path, _) in found {
            object_at(&mut wider, &path).insert("addedLater".into(), json!({"any": ["thing"]}));
        }
        validate_json(&wider).unwrap();
        assert_eq!(Event::from_json(wider).unwrap(), event(event_type), "{event_type}");
    }
}

#[test]
fn unknown_values_of_open_enums_survive_a_round_trip() {
    let places = [
        (EventType::RunPaused, "/cause"),
        (EventType::RunCompleted, "/outcome"),
        (EventType::RunStarted, "/context/triggerSource"),
        (EventType::RunQueued, "/origin/type"),
        (EventType::StepSkipped, "/reason"),
        (EventType::StepCancelled, "/reason"),
        (EventType::StepRetryRequested, "/reason"),
        (EventType::StepFailed, "/error/class"),
        (EventType::CompensationFailed, "/error/class"),
        (EventType::SignalAccepted, "/signalType"),
        (EventType::SignalRejected, "/signalType"),
        (EventType::AlertRaised, "/severity"),
    ];
    for (event_type, path) in places {
        let mut future = written(event_type);
        *future.pointer_mut(path).unwrap() = json!("P0-from-the-future");
        validate_json(&future).unwrap();
        let read = Event::from_json(future.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), future, "{event_type} {path}");
    }
}

#[test]
fn run_started_has_the_payload_that_the_contract_names() {
    let schema = schema_of(EventType::RunStarted);
    let needed = required(&schema);
    for name in ["status", "engineRunRef", "engineType", "planRef", "context", "startedAt"] {
        assert!(needed.contains(&name.to_owned()), "{name}");
    }
    assert_eq!(
        required(&schema["properties"]["planRef"]),
        ["uri", "sha256", "schemaVersion", "planId", "planVersion"]
    );
    assert_eq!(required(&schema["properties"]["context"]), ["tenantId", "projectId", "environmentId"]);
    let mut event = written(EventType::RunStarted);
    assert_eq!(event["status"], "RUNNING");
    event["status"] = json!("PAUSED");
    assert!(refused(&event).contains("/status: "));
}

#[test]
fn the_schemas_are_open_portable_and_complete() {
    fn look(schema: &Value, place: &str) {
        if let Value::Object(fields) = schema {
            assert_ne!(fields.get("additionalProperties"), Some(&json!(false)), "{place} is closed");
            assert!(!fields.contains_key("$ref"), "{place} refers to another document");
            if let Some(format) = fields.get("format").and_then(Value::as_str) {
                assert!(["uuid", "date-time"].contains(&format), "{place}: not every tool knows {format}");
            }
            for (name, inner) in fields {
                look(inner, &format!("{place}/{name}"));
            }
        } else if let Value::Array(items) = schema {
            items.iter().for_each(|item| look(item, place));
        }
    }
    for event_type in EventType::ALL {
        let schema = schema_of(*event_type);
        look(&schema, event_type.as_str());
        assert_eq!(schema, schema::generate(*event_type));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(
            schema["$id"],
            format!("https://drivetrain.dev/schemas/events/{event_type}.v1.schema.json")
        );
        assert_eq!(schema["properties"]["eventType"]["const"], event_type.as_str());
        let needed = required(&schema);
        for name in ["stepId", "logicalAttemptId"] {
            assert_eq!(
                needed.contains(&name.to_owned()),
                event_type.is_about_a_step(),
                "{event_type} {name}"
            );
        }
    }
}

#[test]
fn no_payload_hides_a_field_of_the_envelope() {
    let envelope: BTreeSet<String> =
        ["eventType", "eventId", "schemaVersion", "runId", "runSeq", "idempotencyKey", "emittedAt"]
            .into_iter()
            .chain(["emittedBy", "occurredAt", "correlationId", "planVersion", "stepId"])
            .chain(["logicalAttemptId", "engineAttemptId"])
            .map(str::to_owned)
            .collect();
    for event_type in EventType::ALL {
        let hidden: Vec<_> =
            body(*event_type).to_payload().into_iter().filter(|(name, _)| envelope.contains(name)).collect();
        assert!(hidden.is_empty(), "{event_type}: {hidden:?}");
    }
}

#[test]
fn a_draft_without_its_step_is_refused() {
    for event_type in EventType::ALL {
        let draft = Draft { subject: None, occurred_at: None, body: body(*event_type) };
        let checked = draft.check();
        assert_eq!(checked.is_err(), event_type.is_about_a_step(), "{event_type}");
        if let Err(error) = checked {
            assert_eq!(error.code(), Code::SchemaValidationFailed);
            assert!(error.message().contains("/stepId: is required"), "{error}");
        }
        let draft = Draft { subject: subject(*event_type), occurred_at: None, body: body(*event_type) };
        draft.check().unwrap();
    }
}

#[test]
fn a_payload_is_written_as_it_was_read() {
    for event_type in EventType::ALL {
        assert_eq!(body(*event_type).to_payload(), payload(*event_type), "{event_type}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_typed_event_that_passes_the_check_validates_and_round_trips(
        draft in event_support::arbitrary::draft()
    ) {
        let checked = draft.check();
        let event = seal(draft);
        let text = serde_json::to_string(&event).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let validated = validate_json(&value);
        // The check without JSON and the schema agree on every draft.
        prop_assert_eq!(checked.is_ok(), validated.is_ok(), "{:?} {:?}", checked, validated);
        prop_assert_eq!(validate(&event).is_ok(), validated.is_ok());
        if validated.is_ok() {
            let read = Event::from_json(value.clone()).unwrap();
            prop_assert_eq!(serde_json::to_value(&read).unwrap(), value);
            prop_assert_eq!(read, event);
        }
    }

    #[test]
    fn validation_never_panics_whatever_is_in_the_event(
        name in prop::sample::select(EventType::ALL), field in "[a-zA-Z]{1,16}", text in ".{0,16}",
        number in any::<f64>(),
    ) {
        let mut event = written(name);
        event[field.as_str()] = json!([text, number]);
        let _ = validate_json(&event);
        if let Ok(Event { body: Body::Unknown(_), .. }) = Event::from_json(event) {
            prop_assert!(false, "a known type was read as unknown");
        }
    }
}
