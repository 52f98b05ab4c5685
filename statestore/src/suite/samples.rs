//! One event of every type with every field filled.

use engine_core::event::run::PlanRef;
use engine_core::event::{Body, Draft, EventType, Subject, Unknown};
use serde_json::{Map, Value, json};

use super::drafts;

const TIME: &str = "2026-02-11T10:30:00.000Z";

/// The three ways in which a run ends. A log has one of them.
pub(crate) const ENDS: [EventType; 3] =
    [EventType::RunCompleted, EventType::RunFailed, EventType::RunCancelled];

/// Every decision but RunQueued, which makes the run, and its end; in an order in which each is legal for the run.
pub(crate) fn decisions() -> Vec<Draft> {
    by_order(&[
        EventType::RunApproved,
        EventType::RunStarted,
        EventType::RunPaused,
        EventType::RunDrained,
        EventType::RunResumed,
        EventType::StepSkipped,
        EventType::StepCancelled,
        EventType::StepRetryRequested,
        EventType::CompensationStarted,
        EventType::CompensationCompleted,
        EventType::CompensationFailed,
        EventType::SignalAccepted,
        EventType::TimerFired,
    ])
}

/// Every worker and audit event, and one of a type that nobody knows.
pub(crate) fn reports() -> Vec<Draft> {
    let mut drafts = by_order(&[
        EventType::StepStarted,
        EventType::StepRetried,
        EventType::StepWaiting,
        EventType::HumanReviewRequested,
        EventType::StepCompleted,
        EventType::StepFailed,
        EventType::SignalRejected,
        EventType::CheckpointCreated,
        EventType::AlertRaised,
    ]);
    let mut condition = sample(EventType::StepSkipped, "c", 3);
    if let Body::StepSkipped(skipped) = &mut condition.body {
        skipped.reason = engine_core::event::step::SkipReason::ConditionFalse;
    }
    drafts.push(condition);
    drafts.push(unknown("StepTeleported"));
    drafts
}

/// An event of a type that no version knows yet.
pub(crate) fn unknown(event_type: &str) -> Draft {
    let payload = object(json!({"to": {"planet": "mars"}, "sure": null, "levels": [1, [2, {}]]}));
    let body = Body::Unknown(Box::new(Unknown { event_type: event_type.into(), payload }));
    Draft { subject: Some(drafts::attempt("a", 7)), occurred_at: None, body }
}

/// The sample of a type. Ends of attempts are about different attempts, so that each can be stored.
pub(crate) fn one(event_type: EventType) -> Draft {
    let (step, attempt) = match event_type {
        EventType::StepFailed => ("b", 1),
        EventType::StepSkipped => ("c", 1),
        EventType::StepCancelled => ("c", 2),
        _ => ("a", 2),
    };
    sample(event_type, step, attempt)
}

fn by_order(types: &[EventType]) -> Vec<Draft> {
    types.iter().map(|event_type| one(*event_type)).collect()
}

fn sample(event_type: EventType, step: &str, attempt: u32) -> Draft {
    let subject = event_type
        .is_about_a_step()
        .then(|| Subject::new(drafts::step(step), attempt).with_engine_attempt(attempt + 1));
    let body = Body::from_payload(event_type.as_str(), payload(event_type)).expect("a payload");
    let occurred_at = Some("2026-02-11T10:29:59.250Z".parse().expect("a time"));
    Draft { subject, occurred_at, body }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

fn output() -> Value {
    json!({
        "value": {"rows": [1, -2, 2.5, null, true, "x"], "empty": {}, "text": "Zoë → 𝄞 \u{1F9ED}"},
        "artifact": artifact(), "contentType": "application/json", "tokensUsed": u64::MAX, "qualityScore": 0.75,
        "metadata": {"model": "m"},
    })
}

fn artifact() -> Value {
    json!({
        "uri": "store://a/b", "kind": "output", "sha256": "00ff", "sizeBytes": 9_007_199_254_740_993_u64,
        "expiresAt": TIME,
    })
}

fn failure() -> Value {
    json!({"code": "ECONNREFUSED", "class": "transient", "message": "no answer", "httpStatus": 503})
}

fn manual() -> Value {
    json!({
        "schemaVersion": 1, "completionToken": "token", "outcome": "Succeeded", "actorUserId": "ada",
        "completedAtIso": TIME, "notes": "looked at it", "evidenceRefs": ["store://evidence"],
    })
}

fn counts() -> Value {
    json!({
        "total": 7, "pending": 1, "running": 0, "succeeded": 3, "failed": 1, "skipped": 1, "cancelled": 1,
    })
}

fn undone() -> Value {
    json!({"compensated": ["a"], "failed": ["b"], "nonCompensable": ["c"]})
}

/// A payload of this type in which no field is absent.
fn payload(event_type: EventType) -> Map<String, Value> {
    object(match event_type {
        EventType::RunApproved => json!({"approvedBy": "ada", "signalId": "signal-1", "reason": "checked"}),
        EventType::RunStarted => json!({
            "engineRunRef": "workflow/1", "engineType": "mock", "interpreterVersion": "1",
            "planRef": PlanRef::of(&drafts::plan()),
            "context": {
                "tenantId": "acme", "projectId": "p", "environmentId": "e", "triggeredBy": "ada",
                "triggerSource": "manual",
            },
            "startedAt": TIME,
        }),
        EventType::RunPaused => json!({
            "pauseNumber": 4, "cause": "signal", "inFlight": 2, "immediate": true, "causedByStep": "a",
            "signalId": "signal-2", "reason": "maintenance",
        }),
        EventType::RunDrained => json!({"pauseNumber": 4, "timedOut": true, "inFlight": ["a"]}),
        EventType::RunResumed => json!({"pauseNumber": 4, "signalId": "signal-3", "reason": "done"}),
        EventType::RunCompleted => json!({"outcome": "PARTIAL", "output": output(), "counts": counts()}),
        EventType::RunFailed => json!({
            "code": "STEP_FAILED", "message": "b failed",
            "rootCause": {"stepId": "b", "logicalAttemptId": 1, "runSeq": 9, "code": "ETIMEDOUT"},
            "failedSteps": [{"stepId": "b", "logicalAttemptId": 1, "runSeq": 9}],
            "counts": counts(), "compensation": undone(),
        }),
        EventType::RunCancelled => json!({
            "signalId": "signal-4", "actor": "ada", "reason": "not needed", "counts": counts(),
            "compensation": undone(),
        }),
        EventType::StepStarted => json!({
            "handler": "http", "agent": "a1", "worker": "w1", "claimUntil": TIME, "idempotencyToken": "00ff",
        }),
        EventType::StepRetried => json!({
            "error": failure(), "startedAt": TIME, "endedAt": TIME, "delayMs": 1000, "workerLost": true,
        }),
        EventType::StepWaiting => {
            json!({"completionToken": "token", "output": output(), "prompt": "please look"})
        }
        EventType::StepCompleted => {
            json!({"output": output(), "artifacts": [artifact()], "manual": manual()})
        }
        EventType::StepFailed => json!({"error": failure(), "tries": 3, "losses": 1, "manual": manual()}),
        EventType::StepSkipped => json!({
            "reason": "dependency_failed", "signalId": "signal-5", "causedByStep": "b",
        }),
        EventType::StepCancelled => json!({
            "reason": "RUN_CANCELLED", "forced": true, "signalId": "signal-6", "manual": manual(),
        }),
        EventType::StepRetryRequested => json!({
            "reason": "cascade", "agent": "a2", "signalId": "signal-7", "causedByStep": "b",
        }),
        EventType::CompensationStarted => json!({"handler": "http", "compensationKey": "r:a:compensate"}),
        EventType::CompensationCompleted => json!({"notes": {"refund": "12 EUR"}}),
        EventType::CompensationFailed => json!({"error": failure(), "willRetry": true, "delayMs": 1000}),
        EventType::SignalAccepted => json!({
            "signalId": "signal-8", "signalType": "RETRY_STEP", "actor": "ada", "reason": "fixed",
            "details": {"stepId": "a", "cascade": true},
        }),
        EventType::SignalRejected => json!({
            "signalId": "signal-9", "signalType": "PAUSE", "actor": "ada", "code": "RUN_TERMINAL",
            "message": "the run has ended",
        }),
        EventType::TimerFired => json!({"timerId": "run-timeout", "dueAt": TIME}),
        EventType::HumanReviewRequested => json!({
            "number": 5, "reason": "unsure", "context": {"score": 0.5},
        }),
        EventType::CheckpointCreated => json!({
            "checkpointId": "checkpoint-8", "upToSeq": 40, "sizeBytes": 4096, "sha256": "00ff",
        }),
        EventType::AlertRaised => json!({
            "code": "PAUSE_DRAIN_TIMEOUT", "number": 6, "severity": "P2", "message": "still waiting",
        }),
        other => panic!("write a sample of {other}"),
    })
}
