//! What makes an append happen once: idempotency keys and slots.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::{Body, Subject};
use crate::error::{Code, Error, Result};
use crate::hash::hex;
use crate::id::{PlanVersion, RUN_SUBJECT, RunId, SignalId, StepId};

/// KEY-1: lower-case hexadecimal SHA-256 of `runId|stepId or RUN|n|eventType|planVersion`; unique within a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey([u8; 32]);

impl IdempotencyKey {
    /// The key of an event.
    #[must_use]
    pub fn of(run: &RunId, subject: Option<&Subject>, body: &Body, plan_version: &PlanVersion) -> Self {
        Self::of_name(run, &event_name(subject, body), plan_version)
    }

    /// The key of the event with this [name](event_name).
    #[must_use]
    pub fn of_name(run: &RunId, name: &str, plan_version: &PlanVersion) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(run.as_str());
        hasher.update("|");
        hasher.update(name);
        hasher.update("|");
        hasher.update(plan_version.as_str());
        Self(hasher.finalize().into())
    }

    /// A key that was stored as its raw digest.
    #[must_use]
    pub fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The raw digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// `stepId or RUN|n|eventType`: what the key hashes besides the run and its plan version. Run and version are the same
/// for all events of a run, so within it two events have the same key exactly when they have the same name.
#[must_use]
pub fn event_name(subject: Option<&Subject>, body: &Body) -> String {
    let step = subject.map_or(RUN_SUBJECT, |subject| subject.step.as_str());
    format!("{step}|{}|{}", discriminator(subject, body), body.type_name())
}

/// The `n` of the key (KEY-3): what tells two events of one type about one subject apart.
fn discriminator(subject: Option<&Subject>, body: &Body) -> String {
    let logical = subject.map_or(1, |subject| subject.attempt);
    let engine = subject.and_then(|subject| subject.engine_attempt).unwrap_or(1);
    match body {
        Body::RunPaused(paused) => paused.pause_number.to_string(),
        Body::RunDrained(drained) => drained.pause_number.to_string(),
        Body::RunResumed(resumed) => resumed.pause_number.to_string(),
        Body::StepRetried(_) | Body::CompensationFailed(_) => format!("{logical}.{engine}"),
        Body::HumanReviewRequested(review) => format!("{logical}.{}", review.number),
        Body::SignalAccepted(accepted) => accepted.signal_id.to_string(),
        Body::SignalRejected(rejected) => rejected.signal_id.to_string(),
        Body::CheckpointCreated(created) => created.checkpoint_id.to_string(),
        Body::AlertRaised(alert) => format!("{}.{}", alert.code, alert.number),
        Body::TimerFired(fired) => fired.timer_id.clone(),
        _ => logical.to_string(),
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl std::str::FromStr for IdempotencyKey {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::new(
                Code::SchemaValidationFailed,
                format!("{text:?} is not an idempotency key: 64 lower-case hexadecimal digits"),
            )
        };
        if text.len() != 64 {
            return Err(refuse());
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut key = [0; 32];
        for (pair, slot) in text.as_bytes().chunks_exact(2).zip(&mut key) {
            *slot =
                digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(refuse)?;
        }
        Ok(Self(key))
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A place that only one event of a run can take, whatever its type (STORE-5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// The end of the run.
    RunEnd,
    /// The end of a logical attempt.
    AttemptEnd(StepId, u32),
    /// The decision about a signal.
    SignalDecision(SignalId),
}

impl Slot {
    /// The slot that an event takes, if any.
    #[must_use]
    pub fn of(subject: Option<&Subject>, body: &Body) -> Option<Self> {
        match body {
            Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_) => Some(Self::RunEnd),
            Body::StepCompleted(_) | Body::StepFailed(_) | Body::StepSkipped(_) | Body::StepCancelled(_) => {
                subject.map(|subject| Self::AttemptEnd(subject.step.clone(), subject.attempt))
            }
            Body::SignalAccepted(accepted) => Some(Self::SignalDecision(accepted.signal_id.clone())),
            Body::SignalRejected(rejected) => Some(Self::SignalDecision(rejected.signal_id.clone())),
            _ => None,
        }
    }
}

impl Slot {
    /// The slot that closes an attempt to this event: once it is taken, a start, a retry, a wait or a review of that
    /// attempt comes too late (STORE-14).
    #[must_use]
    pub fn closed_to(subject: Option<&Subject>, body: &Body) -> Option<Self> {
        match body {
            Body::StepStarted(_)
            | Body::StepRetried(_)
            | Body::StepWaiting(_)
            | Body::HumanReviewRequested(_) => {
                subject.map(|subject| Self::AttemptEnd(subject.step.clone(), subject.attempt))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunEnd => formatter.write_str("run"),
            Self::AttemptEnd(step, attempt) => write!(formatter, "step|{step}|{attempt}"),
            Self::SignalDecision(signal) => write!(formatter, "signal|{signal}"),
        }
    }
}
