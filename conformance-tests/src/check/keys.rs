//! Idempotency keys, worked out anew from the contract's table.

use std::collections::HashSet;

use engine_core::event::{Body, Event};
use sha2::{Digest as _, Sha256};

use super::Findings;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut keys = HashSet::new();
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        findings.unless(keys.insert(event.idempotency_key), &["STORE-4"], || {
            format!("{} has a key that stands in the log already", about())
        });
        let Some(expected) = key(event) else { continue };
        findings.unless(event.idempotency_key.to_string() == expected, &["KEY-1", "KEY-2", "KEY-3"], || {
            format!("{} has the key {} in place of {expected}", about(), event.idempotency_key)
        });
    }
}

/// The key that an event must have; `None` for a type that this suite does not know.
fn key(event: &Event) -> Option<String> {
    event.body.event_type()?;
    let step = event.subject.as_ref().map_or("RUN", |subject| subject.step.as_str());
    let text =
        format!("{}|{step}|{}|{}|{}", event.run_id, n(event), event.body.type_name(), event.plan_version);
    Some(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The `n` of the contract's table.
fn n(event: &Event) -> String {
    let logical = event.subject.as_ref().map_or(1, |subject| subject.attempt);
    let engine = event.subject.as_ref().and_then(|subject| subject.engine_attempt).unwrap_or(1);
    match &event.body {
        Body::RunPaused(paused) => paused.pause_number.to_string(),
        Body::RunDrained(drained) => drained.pause_number.to_string(),
        Body::RunResumed(resumed) => resumed.pause_number.to_string(),
        Body::StepRetried(_) | Body::CompensationFailed(_) => format!("{logical}.{engine}"),
        Body::HumanReviewRequested(review) => format!("{logical}.{}", review.number),
        Body::SignalAccepted(accepted) => accepted.signal_id.to_string(),
        Body::SignalRejected(rejected) => rejected.signal_id.to_string(),
        Body::TimerFired(fired) => fired.timer_id.clone(),
        Body::CheckpointCreated(created) => created.checkpoint_id.to_string(),
        Body::AlertRaised(alert) => format!("{}.{}", alert.code, alert.number),
        _ => logical.to_string(),
    }
}
