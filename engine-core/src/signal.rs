//! Signals: what people and programs ask of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};
use crate::event::step::StepOutput;
use crate::id::{SignalId, StepId};
use crate::time::Timestamp;
use crate::wire::open_enum;

/// A request to a run. Sending the same `signal_id` again changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Tells this request from others.
    pub signal_id: SignalId,
    /// Who sends it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// What is asked.
    pub command: Command,
}

/// What a signal asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Command {
    /// Release nothing new.
    Pause {
        /// What happens to what is in flight.
        #[serde(default)]
        mode: PauseMode,
    },
    /// Go on.
    Resume,
    /// Stop everything.
    Cancel,
    /// Do an ended step again.
    RetryStep {
        /// The step.
        step_id: StepId,
        /// Whether everything that depends on it is done again too.
        #[serde(default = "default_true")]
        cascade: bool,
    },
    /// Go on without a step.
    SkipStep {
        /// The step.
        step_id: StepId,
    },
    /// End a step that waits for a person.
    CompleteStep {
        /// The step.
        step_id: StepId,
        /// What the person says.
        completion: Box<ManualCompletion>,
        /// What the step produced.
        #[serde(default)]
        output: Option<Box<StepOutput>>,
    },
    /// Let a run start.
    Approve,
}

/// What a pause does with steps in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PauseMode {
    /// They finish.
    #[default]
    Drain,
    /// They are given up at once and done again after RESUME. Not every engine can.
    Immediate,
}

/// How a person completed a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualCompletion {
    /// The version of this shape.
    #[serde(default = "one")]
    pub schema_version: u32,
    /// The token that was handed out when the wait began.
    pub completion_token: String,
    /// How it ended.
    pub outcome: ManualOutcome,
    /// Who completed it.
    pub actor_user_id: String,
    /// When.
    pub completed_at_iso: Timestamp,
    /// What the person wrote about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Evidence for it, by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_refs: Vec<String>,
}

open_enum! {
    /// How a person ended a step.
    pub enum ManualOutcome {
        /// It is done.
        Succeeded = "Succeeded",
        /// It cannot be done.
        Failed = "Failed",
        /// It is not wanted any more.
        Cancelled = "Cancelled",
    }
}

open_enum! {
    /// What a signal asks for, by type.
    pub enum SignalType {
        /// Release nothing new.
        Pause = "PAUSE",
        /// Go on.
        Resume = "RESUME",
        /// Stop everything.
        Cancel = "CANCEL",
        /// Do an ended step again.
        RetryStep = "RETRY_STEP",
        /// Go on without a step.
        SkipStep = "SKIP_STEP",
        /// End a step that waits for a person.
        CompleteStep = "COMPLETE_STEP",
        /// Let a run start.
        Approve = "APPROVE",
    }
}

impl Signal {
    /// Reads a signal as it is sent: `{"signalId", "type", "actor", "reason", …}`.
    ///
    /// # Errors
    /// `SIGNAL_INVALID_PAYLOAD` when a field is missing, unknown to the type, or of another type.
    pub fn from_json(value: &Value) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            signal_id: SignalId,
            actor: String,
            #[serde(default)]
            reason: Option<String>,
        }
        let refuse = |cause: serde_json::Error| {
            Error::new(Code::SignalInvalidPayload, format!("not a signal: {cause}")).with_hint(
                "send {\"signalId\", \"type\", \"actor\"} with one of the types PAUSE, RESUME, CANCEL, \
                 RETRY_STEP, SKIP_STEP, COMPLETE_STEP, APPROVE",
            )
        };
        let head = Head::deserialize(value).map_err(refuse)?;
        let command = Command::deserialize(value).map_err(refuse)?;
        let signal = Self { signal_id: head.signal_id, actor: head.actor, reason: head.reason, command };
        signal.check()?;
        Ok(signal)
    }

    /// The signal as it is sent.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut fields = self.details();
        fields.insert("type".into(), self.signal_type().as_str().into());
        fields.insert("signalId".into(), self.signal_id.as_str().into());
        fields.insert("actor".into(), self.actor.as_str().into());
        if let Some(reason) = &self.reason {
            fields.insert("reason".into(), reason.as_str().into());
        }
        Value::Object(fields)
    }

    /// The type.
    #[must_use]
    pub fn signal_type(&self) -> SignalType {
        match self.command {
            Command::Pause { .. } => SignalType::Pause,
            Command::Resume => SignalType::Resume,
            Command::Cancel => SignalType::Cancel,
            Command::RetryStep { .. } => SignalType::RetryStep,
            Command::SkipStep { .. } => SignalType::SkipStep,
            Command::CompleteStep { .. } => SignalType::CompleteStep,
            Command::Approve => SignalType::Approve,
        }
    }

    /// What stands in the payload besides type, id, actor and reason.
    pub(crate) fn details(&self) -> Map<String, Value> {
        match serde_json::to_value(&self.command) {
            Ok(Value::Object(mut fields)) => {
                fields.remove("type");
                fields.retain(|_, value| !value.is_null());
                fields
            }
            _ => Map::new(),
        }
    }

    /// Refuses what no decision could accept, before anything is stored.
    ///
    /// # Errors
    /// `SIGNAL_INVALID_PAYLOAD` with the field that is wrong.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::new(Code::SignalInvalidPayload, message));
        if self.actor.trim().is_empty() {
            return refuse("actor is empty: say who sends the signal");
        }
        if let Command::CompleteStep { completion, .. } = &self.command {
            if completion.schema_version != 1 {
                return refuse("completion.schemaVersion must be 1");
            }
            if completion.completion_token.is_empty() {
                return refuse(
                    "completion.completionToken is empty: send the token of the step's StepWaiting event",
                );
            }
            if let ManualOutcome::Other(outcome) = &completion.outcome {
                return refuse(&format!(
                    "completion.outcome {outcome:?} is none of Succeeded, Failed, Cancelled"
                ));
            }
            if completion.actor_user_id.trim().is_empty() {
                return refuse("completion.actorUserId is empty: say who completes the step");
            }
        }
        Ok(())
    }
}

fn default_true() -> bool {
    true
}

fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_signal_round_trips_as_json() {
        let text = json!({
            "signalId": "s1", "type": "RETRY_STEP", "actor": "ops", "reason": "fixed", "stepId": "load",
            "cascade": true,
        });
        let signal = Signal::from_json(&text).unwrap();
        assert_eq!(
            signal.command,
            Command::RetryStep { step_id: StepId::new("load").unwrap(), cascade: true }
        );
        assert_eq!(signal.to_json(), text);
    }

    #[test]
    fn cascade_is_the_default() {
        let signal = Signal::from_json(
            &json!({"signalId": "s1", "type": "RETRY_STEP", "actor": "ops", "stepId": "load"}),
        );
        assert!(matches!(signal.unwrap().command, Command::RetryStep { cascade: true, .. }));
    }

    #[test]
    fn malformed_signals_are_refused_with_the_reason() {
        for (bad, mentions) in [
            (json!({"type": "PAUSE", "actor": "ops"}), "signalId"),
            (json!({"signalId": "s", "type": "EXPLODE", "actor": "ops"}), "EXPLODE"),
            (json!({"signalId": "s", "type": "SKIP_STEP", "actor": "ops"}), "stepId"),
            (json!({"signalId": "s", "type": "PAUSE", "actor": " "}), "actor"),
            (json!({"signalId": "a b", "type": "PAUSE", "actor": "ops"}), "SignalId"),
        ] {
            let error = Signal::from_json(&bad).unwrap_err();
            assert_eq!(error.code(), Code::SignalInvalidPayload);
            assert!(error.message().contains(mentions), "{error}");
        }
    }
}
