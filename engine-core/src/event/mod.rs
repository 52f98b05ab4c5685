//! Events: the only truth about a run.
//!
//! - [`run`], [`step`], [`compensation`], [`signal`], [`audit`]: the payload of every event type;
//! - [`body`]: the list of types, which kind each is, reading and writing payloads;
//! - [`key`]: idempotency keys and slots, which make an append happen once;
//! - [`schema`]: the JSON Schema of each type and validation before append.
//!
//! Whoever decides makes a [`Draft`]; the store seals it into an [`Event`] with sequence, id and time.

pub mod audit;
pub mod body;
pub mod compensation;
pub mod key;
pub mod run;
pub mod schema;
pub mod signal;
pub mod step;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use body::{Body, EventType, Kind, Unknown};
pub use key::{IdempotencyKey, Slot, event_name};

use crate::error::{Code, Error, Result};
use crate::id::{PlanVersion, RunId, StepId};
use crate::time::Timestamp;

/// The version of the event shapes that this code writes.
pub const SCHEMA_VERSION: &str = "1.0";

/// The step attempt that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The step.
    pub step: StepId,
    /// The logical attempt, from 1; it decides what an event means.
    pub attempt: u32,
    /// The platform's own counter, for operators only.
    pub engine_attempt: Option<u32>,
}

impl Subject {
    /// A logical attempt of a step.
    #[must_use]
    pub fn new(step: StepId, attempt: u32) -> Self {
        Self { step, attempt, engine_attempt: None }
    }

    /// The same with the platform's counter.
    #[must_use]
    pub fn with_engine_attempt(mut self, engine_attempt: u32) -> Self {
        self.engine_attempt = Some(engine_attempt);
        self
    }
}

/// An event as it is decided, before the store has given it its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The step attempt it is about; `None` for the run itself.
    pub subject: Option<Subject>,
    /// When it happened, if measurably before it is stored.
    pub occurred_at: Option<Timestamp>,
    /// What happened.
    pub body: Body,
}

impl Draft {
    /// An event about the run.
    #[must_use]
    pub fn run(body: impl Into<Body>) -> Self {
        Self { subject: None, occurred_at: None, body: body.into() }
    }

    /// An event about a step attempt.
    #[must_use]
    pub fn step(subject: Subject, body: impl Into<Body>) -> Self {
        Self { subject: Some(subject), occurred_at: None, body: body.into() }
    }

    /// Says when it happened.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.occurred_at = Some(time);
        self
    }

    /// Gives the draft its place in a run's log.
    #[must_use]
    pub fn seal(self, seal: Seal<'_>) -> Event {
        let idempotency_key =
            IdempotencyKey::of(seal.run_id, self.subject.as_ref(), &self.body, seal.plan_version);
        Event {
            event_id: seal.event_id,
            schema_version: SCHEMA_VERSION.into(),
            run_id: seal.run_id.clone(),
            run_seq: seal.run_seq,
            idempotency_key,
            emitted_at: seal.emitted_at,
            emitted_by: seal.emitted_by.clone(),
            occurred_at: self.occurred_at,
            correlation_id: seal.correlation_id.clone(),
            plan_version: seal.plan_version.clone(),
            subject: self.subject,
            body: self.body,
        }
    }
}

/// What the store adds to a draft.
#[derive(Clone, Copy, Debug)]
pub struct Seal<'a> {
    /// A fresh id.
    pub event_id: Uuid,
    /// The run.
    pub run_id: &'a RunId,
    /// The next number in the run's log.
    pub run_seq: u64,
    /// Now, by the store's clock.
    pub emitted_at: Timestamp,
    /// Who appends.
    pub emitted_by: &'a Arc<str>,
    /// Ties the run's events to the request that caused it.
    pub correlation_id: &'a Arc<str>,
    /// The run's plan version.
    pub plan_version: &'a PlanVersion,
}

/// A stored event: the envelope and what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Unique over all runs.
    pub event_id: Uuid,
    /// The version of the shape it was written in.
    pub schema_version: Arc<str>,
    /// The run.
    pub run_id: RunId,
    /// The place in the run's log; the only order there is.
    pub run_seq: u64,
    /// Makes appending it again change nothing.
    pub idempotency_key: IdempotencyKey,
    /// When it was stored.
    pub emitted_at: Timestamp,
    /// Who appended it.
    pub emitted_by: Arc<str>,
    /// When it happened, if measurably before it was stored.
    pub occurred_at: Option<Timestamp>,
    /// Ties the run's events to the request that caused it.
    pub correlation_id: Arc<str>,
    /// The run's plan version.
    pub plan_version: PlanVersion,
    /// The step attempt it is about; `None` for the run itself.
    pub subject: Option<Subject>,
    /// What happened.
    pub body: Body,
}

impl Event {
    /// When it happened, for durations: `occurredAt`, else `emittedAt`. Never for order.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.occurred_at.unwrap_or(self.emitted_at)
    }

    /// Reads an event, tolerantly: unknown types, fields and values are kept or passed over.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` when the envelope or a known type's required field is missing or has
    /// another type.
    pub fn from_json(value: Value) -> Result<Self> {
        serde_json::from_value(value)
            .map_err(|cause| Error::new(Code::SchemaValidationFailed, format!("not an event: {cause}")))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    event_type: String,
    event_id: Uuid,
    schema_version: Arc<str>,
    run_id: RunId,
    run_seq: u64,
    idempotency_key: IdempotencyKey,
    emitted_at: Timestamp,
    emitted_by: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurred_at: Option<Timestamp>,
    correlation_id: Arc<str>,
    plan_version: PlanVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_id: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logical_attempt_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine_attempt_id: Option<u32>,
    #[serde(flatten)]
    payload: Map<String, Value>,
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let subject = self.subject.as_ref();
        let mut payload = self.body.to_payload();
        // Readers without the machine's table still see where the run stands.
        if let Some(status) = self.body.event_type().and_then(crate::machine::run::status_after) {
            payload.insert("status".into(), status.as_str().into());
        }
        Envelope {
            event_type: self.body.type_name().to_owned(),
            event_id: self.event_id,
            schema_version: self.schema_version.clone(),
            run_id: self.run_id.clone(),
            run_seq: self.run_seq,
            idempotency_key: self.idempotency_key,
            emitted_at: self.emitted_at,
            emitted_by: self.emitted_by.clone(),
            occurred_at: self.occurred_at,
            correlation_id: self.correlation_id.clone(),
            plan_version: self.plan_version.clone(),
            step_id: subject.map(|subject| subject.step.clone()),
            logical_attempt_id: subject.map(|subject| subject.attempt),
            engine_attempt_id: subject.and_then(|subject| subject.engine_attempt),
            payload,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let envelope = Envelope::deserialize(deserializer)?;
        let subject = match (envelope.step_id, envelope.logical_attempt_id) {
            (Some(step), attempt) => Some(Subject {
                step,
                attempt: attempt.unwrap_or(1),
                engine_attempt: envelope.engine_attempt_id,
            }),
            (None, _) => None,
        };
        let about_a_step = EventType::parse(&envelope.event_type).is_some_and(EventType::is_about_a_step);
        if about_a_step && subject.is_none() {
            return Err(D::Error::missing_field("stepId"));
        }
        let body = Body::from_payload(&envelope.event_type, envelope.payload)
            .map_err(|error| D::Error::custom(error.message()))?;
        Ok(Self {
            event_id: envelope.event_id,
            schema_version: envelope.schema_version,
            run_id: envelope.run_id,
            run_seq: envelope.run_seq,
            idempotency_key: envelope.idempotency_key,
            emitted_at: envelope.emitted_at,
            emitted_by: envelope.emitted_by,
            occurred_at: envelope.occurred_at,
            correlation_id: envelope.correlation_id,
            plan_version: envelope.plan_version,
            subject,
            body,
        })
    }
}
