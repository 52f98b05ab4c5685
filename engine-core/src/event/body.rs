//! The list of event types: kind, payload, reading and writing.

use std::fmt;

use serde_json::{Map, Value};

use super::audit::{AlertRaised, CheckpointCreated};
use super::compensation::{CompensationCompleted, CompensationFailed, CompensationStarted};
use super::run::{
    RunApproved, RunCancelled, RunCompleted, RunDrained, RunFailed, RunPaused, RunQueued, RunResumed,
    RunStarted, TimerFired,
};
use super::signal::{SignalAccepted, SignalRejected};
use super::step::{
    HumanReviewRequested, SkipReason, StepCancelled, StepCompleted, StepFailed, StepRetried,
    StepRetryRequested, StepSkipped, StepStarted, StepWaiting,
};
use crate::error::{Code, Error, Result};

/// Who writes an event, and what it does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Written by whoever runs the attempt.
    Worker,
    /// Written by the run's driver, with the number of decisions it had seen.
    Decision,
    /// Changes no status, release or count.
    Audit,
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident ($payload:ty): $kind:ident $(, $step:ident)?;)*) => {
        /// What happened, by type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum EventType {
            $($(#[$doc])* $name,)*
        }

        impl EventType {
            /// Every type this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type as it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The type with this name; `None` when a newer version wrote it.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)* _ => None }
            }

            /// Whether events of this type are always about a step.
            #[must_use]
            pub fn is_about_a_step(self) -> bool {
                match self { $(Self::$name => events!(@step $($step)?),)* }
            }

            /// The JSON Schema of this type's payload, without the envelope.
            pub(super) fn payload_schema(self) -> schemars::Schema {
                let generator = schemars::generate::SchemaSettings::draft2020_12()
                    .with(|settings| settings.inline_subschemas = true)
                    .into_generator();
                match self { $(Self::$name => generator.into_root_schema_for::<$payload>(),)* }
            }
        }

        /// What happened.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Body {
            $($(#[$doc])* $name(Box<$payload>),)*
            /// Something that a newer version wrote: it advances the watermark and changes nothing.
            Unknown(Box<Unknown>),
        }

        impl Body {
            /// The type; `None` when a newer version wrote it.
            #[must_use]
            pub fn event_type(&self) -> Option<EventType> {
                match self {
                    $(Self::$name(_) => Some(EventType::$name),)*
                    Self::Unknown(_) => None,
                }
            }

            /// The type's name, also of an unknown one.
            #[must_use]
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                    Self::Unknown(unknown) => &unknown.event_type,
                }
            }

            /// Who writes it, and what it does to a run.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    // COND-4: a skip by condition is found by the worker, any other is decided.
                    Self::StepSkipped(skip) if skip.reason == SkipReason::ConditionFalse => Kind::Worker,
                    $(Self::$name(_) => Kind::$kind,)*
                    Self::Unknown(_) => Kind::Audit,
                }
            }

            /// The payload as a JSON object, without the envelope.
            #[must_use]
            pub fn to_payload(&self) -> Map<String, Value> {
                let value = match self {
                    $(Self::$name(payload) => serde_json::to_value(payload),)*
                    Self::Unknown(unknown) => return unknown.payload.clone(),
                };
                match value {
                    Ok(Value::Object(fields)) => fields,
                    // Payloads are structs with string keys: they are always objects.
                    _ => Map::new(),
                }
            }

            /// The payload as JSON text, without the envelope.
            #[must_use]
            pub fn to_payload_text(&self) -> String {
                let text = match self {
                    $(Self::$name(payload) => serde_json::to_string(payload),)*
                    Self::Unknown(unknown) => serde_json::to_string(&unknown.payload),
                };
                // Payloads are structs with string keys: writing them cannot fail.
                text.unwrap_or_default()
            }

            /// Reads what [`Body::to_payload_text`] wrote, as [`Body::from_payload`] does.
            ///
            /// # Errors
            /// `SCHEMA_VALIDATION_FAILED` when it is no JSON object, or a required field is missing or has another
            /// type.
            pub fn from_payload_text(type_name: &str, payload: &str) -> Result<Self> {
                let read = match EventType::parse(type_name) {
                    $(Some(EventType::$name) => {
                        serde_json::from_str(payload).map(|body| Self::$name(Box::new(body)))
                    })*
                    None => serde_json::from_str(payload).map(|payload| {
                        Self::Unknown(Box::new(Unknown { event_type: type_name.to_owned(), payload }))
                    }),
                };
                read.map_err(|cause| {
                    Error::new(Code::SchemaValidationFailed, format!("{type_name}: {cause}"))
                })
            }

            /// Reads the payload of an event of this type. Unknown fields are passed over; an unknown type is
            /// kept whole.
            ///
            /// # Errors
            /// `SCHEMA_VALIDATION_FAILED` when a required field is missing or has another type.
            pub fn from_payload(type_name: &str, payload: Map<String, Value>) -> Result<Self> {
                let read = match EventType::parse(type_name) {
                    $(Some(EventType::$name) => {
                        serde_json::from_value(Value::Object(payload)).map(|body| Self::$name(Box::new(body)))
                    })*
                    None => {
                        let unknown = Unknown { event_type: type_name.to_owned(), payload };
                        return Ok(Self::Unknown(Box::new(unknown)));
                    }
                };
                read.map_err(|cause| {
                    Error::new(Code::SchemaValidationFailed, format!("{type_name}: {cause}"))
                })
            }
        }

        $(impl From<$payload> for Body {
            fn from(payload: $payload) -> Self {
                Self::$name(Box::new(payload))
            }
        })*
    };
    (@step step) => { true };
    (@step) => { false };
}

events! {
    /// The run exists and everything that decides it is frozen.
    RunQueued(RunQueued): Decision;
    /// The run may start.
    RunApproved(RunApproved): Decision;
    /// The engine has begun.
    RunStarted(RunStarted): Decision;
    /// Nothing new is released.
    RunPaused(RunPaused): Decision;
    /// The pause has nothing in flight, or stopped waiting.
    RunDrained(RunDrained): Decision;
    /// Releases go on.
    RunResumed(RunResumed): Decision;
    /// The run ended well.
    RunCompleted(RunCompleted): Decision;
    /// The run ended by a failure.
    RunFailed(RunFailed): Decision;
    /// The run was cancelled.
    RunCancelled(RunCancelled): Decision;
    /// A worker took the attempt.
    StepStarted(StepStarted): Worker, step;
    /// A try failed and another follows.
    StepRetried(StepRetried): Worker, step;
    /// A person must complete the step.
    StepWaiting(StepWaiting): Worker, step;
    /// The attempt ended well.
    StepCompleted(StepCompleted): Worker, step;
    /// The attempt failed for good.
    StepFailed(StepFailed): Worker, step;
    /// The attempt is not needed.
    StepSkipped(StepSkipped): Decision, step;
    /// The attempt was given up.
    StepCancelled(StepCancelled): Decision, step;
    /// There is a new logical attempt.
    StepRetryRequested(StepRetryRequested): Decision, step;
    /// Undoing a step begins.
    CompensationStarted(CompensationStarted): Decision, step;
    /// A step was undone.
    CompensationCompleted(CompensationCompleted): Decision, step;
    /// A try at undoing a step failed.
    CompensationFailed(CompensationFailed): Decision, step;
    /// A signal was accepted.
    SignalAccepted(SignalAccepted): Decision;
    /// A signal was refused.
    SignalRejected(SignalRejected): Audit;
    /// A timer is due.
    TimerFired(TimerFired): Decision;
    /// A handler asks for a person's eyes.
    HumanReviewRequested(HumanReviewRequested): Worker, step;
    /// The run's state was stored.
    CheckpointCreated(CheckpointCreated): Audit;
    /// Something a person should look at.
    AlertRaised(AlertRaised): Audit;
}

/// An event of a type that this version does not know, kept as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// The type's name.
    pub event_type: String,
    /// Everything besides the envelope.
    pub payload: Map<String, Value>,
}

impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
