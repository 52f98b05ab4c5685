//! Payloads of the decisions about signals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::SignalId;
use crate::signal::SignalType;

/// A signal was accepted; its effects are the events appended with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignalAccepted {
    /// The signal.
    pub signal_id: SignalId,
    /// What it asked for.
    pub signal_type: SignalType,
    /// Who sent it.
    pub actor: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rest of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// A signal was refused; nothing else changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignalRejected {
    /// The signal.
    pub signal_id: SignalId,
    /// What it asked for.
    pub signal_type: SignalType,
    /// Who sent it.
    pub actor: String,
    /// Why it was refused, as a stable code.
    #[schemars(length(min = 1))]
    pub code: String,
    /// Why it was refused, for a person.
    pub message: String,
}
