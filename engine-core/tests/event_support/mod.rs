//! One event of every type with every field filled, and arbitrary ones.

// Each test program uses a part of it.
#![allow(dead_code)]

pub(crate) mod arbitrary;

use std::sync::Arc;

use engine_core::event::{Body, Draft, Event, EventType, Seal, Subject};
use engine_core::{PlanVersion, RunId, StepId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A payload of this type in which no field is absent.
pub(crate) fn payload(event_type: EventType) -> Map<String, Value> {
    let time = "2026-02-11T10:30:00.000Z";
    let counts = json!({
        "total": 7, "pending": 1, "running": 0, "succeeded": 3, "failed": 1, "skipped": 1, "cancelled": 1,
    });
    let artifact = json!({
        "uri": "store://a/b", "kind": "output", "sha256": "00ff", "sizeBytes": 300_000, "expiresAt": time,
    });
    let output = json!({
        "value": {"rows": [1, 2.5, null, "x"]}, "artifact": artifact, "contentType": "application/json",
        "tokensUsed": 12, "qualityScore": 0.75, "metadata": {"model": "m"},
    });
    let error = json!({
        "code": "ECONNREFUSED", "class": "transient", "message": "no answer", "httpStatus": 503,
    });
    let manual = json!({
        "schemaVersion": 1, "completionToken": "token", "outcome": "Succeeded", "actorUserId": "ada",
        "completedAtIso": time, "notes": "looked at it", "evidenceRefs": ["store://evidence"],
    });
    let plan_ref = json!({
        "uri": "store://plans/p", "sha256": "00ff", "schemaVersion": "1.0", "planId": "p", "planVersion": "1.2.0",
    });
    let context = json!({
        "tenantId": "t", "projectId": "p", "environmentId": "e", "triggeredBy": "ada",
        "triggerSource": "manual",
    });
    let undone = json!({"compensated": ["load"], "failed": ["ship"], "nonCompensable": ["mail"]});
    let value = match event_type {
        EventType::RunQueued => json!({
            "planRef": plan_ref,
            "input": {"value": {"day": "monday"}, "artifact": artifact},
            "context": context,
            "identity": "00ff",
            "originalIntent": "load the orders",
            "limits": {
                "maxConcurrency": 10, "perAgent": 3, "runTimeoutMs": 60_000, "drainTimeoutMs": 300_000,
                "cancelGraceMs": 5000, "maxFailures": 4,
            },
            "policies": {
                "approval": "required", "separationOfDuties": true, "continueOnPartialFailure": true,
                "failFast": "cancel", "compensateOnCancel": true, "pauseOnHumanReview": true,
                "orphans": "reject",
            },
            "capabilities": {"immediatePause": true, "failFastCancel": true},
            "deciderVersion": 1,
            "notBefore": time,
            "origin": {
                "type": "rerun", "sourceRunId": "run-1", "step": "load",
                "reused": [{
                    "stepId": "extract", "status": "SUCCESS", "logicalAttemptId": 1, "runSeq": 5,
                    "skipReason": "condition_false", "output": output,
                }],
            },
        }),
        EventType::RunApproved => json!({"approvedBy": "ada", "signalId": "signal-7", "reason": "checked"}),
        EventType::RunStarted => json!({
            "engineRunRef": "workflow/1", "engineType": "mock", "interpreterVersion": "1",
            "planRef": plan_ref, "context": context, "startedAt": time,
        }),
        EventType::RunPaused => json!({
            "pauseNumber": 4, "cause": "signal", "inFlight": 2, "immediate": true, "causedByStep": "load",
            "signalId": "signal-7", "reason": "maintenance",
        }),
        EventType::RunDrained => json!({"pauseNumber": 4, "timedOut": true, "inFlight": ["load"]}),
        EventType::RunResumed => json!({"pauseNumber": 4, "signalId": "signal-7", "reason": "done"}),
        EventType::RunCompleted => json!({"outcome": "PARTIAL", "output": output, "counts": counts}),
        EventType::RunFailed => json!({
            "code": "STEP_FAILED", "message": "load failed",
            "rootCause": {
                "stepId": "load", "logicalAttemptId": 1, "runSeq": 9, "code": "ETIMEDOUT",
            },
            "failedSteps": [{"stepId": "load", "logicalAttemptId": 1, "runSeq": 9}],
            "counts": counts, "compensation": undone,
        }),
        EventType::RunCancelled => json!({
            "signalId": "signal-7", "actor": "ada", "reason": "not needed", "counts": counts,
            "compensation": undone,
        }),
        EventType::StepStarted => json!({
            "handler": "http", "agent": "a1", "worker": "w1", "claimUntil": time, "idempotencyToken": "00ff",
        }),
        EventType::StepRetried => json!({
            "error": error, "startedAt": time, "endedAt": time, "delayMs": 1000, "workerLost": true,
        }),
        EventType::StepWaiting => {
            json!({"completionToken": "token", "output": output, "prompt": "please look"})
        }
        EventType::StepCompleted => json!({"output": output, "artifacts": [artifact], "manual": manual}),
        EventType::StepFailed => json!({"error": error, "tries": 3, "losses": 1, "manual": manual}),
        EventType::StepSkipped => json!({
            "reason": "dependency_failed", "signalId": "signal-7", "causedByStep": "extract",
        }),
        EventType::StepCancelled => json!({
            "reason": "RUN_CANCELLED", "forced": true, "signalId": "signal-7", "manual": manual,
        }),
        EventType::StepRetryRequested => json!({
            "reason": "cascade", "agent": "a2", "signalId": "signal-7", "causedByStep": "extract",
        }),
        EventType::CompensationStarted => json!({"handler": "http", "compensationKey": "r:load:compensate"}),
        EventType::CompensationCompleted => json!({"notes": {"refund": "12 EUR"}}),
        EventType::CompensationFailed => json!({"error": error, "willRetry": true, "delayMs": 1000}),
        EventType::SignalAccepted => json!({
            "signalId": "signal-7", "signalType": "RETRY_STEP", "actor": "ada", "reason": "fixed",
            "details": {"stepId": "load", "cascade": true},
        }),
        EventType::SignalRejected => json!({
            "signalId": "signal-7", "signalType": "PAUSE", "actor": "ada", "code": "RUN_TERMINAL",
            "message": "the run has ended",
        }),
        EventType::TimerFired => json!({"timerId": "run-timeout", "dueAt": time}),
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
    };
    value.as_object().unwrap().clone()
}

pub(crate) fn body(event_type: EventType) -> Body {
    Body::from_payload(event_type.as_str(), payload(event_type)).unwrap()
}

/// The attempt that the sample of this type is about.
pub(crate) fn subject(event_type: EventType) -> Option<Subject> {
    event_type.is_about_a_step().then(|| Subject::new(StepId::new("load").unwrap(), 2).with_engine_attempt(3))
}

pub(crate) fn seal(draft: Draft) -> Event {
    let (run, version) = (RunId::new("run-9").unwrap(), PlanVersion::new("1.2.0").unwrap());
    let (by, correlation): (Arc<str>, Arc<str>) = ("engine".into(), "request-1".into());
    draft.seal(Seal {
        event_id: Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001),
        run_id: &run,
        run_seq: 12,
        emitted_at: "2026-02-11T10:30:01.500Z".parse().unwrap(),
        emitted_by: &by,
        correlation_id: &correlation,
        plan_version: &version,
    })
}

pub(crate) fn event(event_type: EventType) -> Event {
    let draft = Draft { subject: subject(event_type), occurred_at: None, body: body(event_type) };
    seal(draft.at("2026-02-11T10:30:00.250Z".parse().unwrap()))
}

/// The event as it is written.
pub(crate) fn written(event_type: EventType) -> Value {
    serde_json::to_value(event(event_type)).unwrap()
}

/// Every type.
pub(crate) fn every_type() -> impl Iterator<Item = EventType> {
    EventType::ALL.iter().copied()
}
