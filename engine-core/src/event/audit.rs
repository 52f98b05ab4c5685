//! Payloads of events about signals, alerts and checkpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{CheckpointId, SignalId};
use crate::signal::SignalType;
use crate::wire::open_enum;

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

/// Something a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertRaised {
    /// What it is about, as a stable code.
    #[schemars(length(min = 1))]
    pub code: String,
    /// Which alert with this code it is in this run.
    pub number: u32,
    /// How urgent it is.
    pub severity: Severity,
    /// What happened, for a person.
    pub message: String,
}

open_enum! {
    /// How urgent an alert is.
    pub enum Severity {
        /// Now.
        P1 = "P1",
        /// Today.
        P2 = "P2",
        /// To know.
        P3 = "P3",
    }
}

/// The run's state was stored so that a new run can start from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointCreated {
    /// The checkpoint.
    pub checkpoint_id: CheckpointId,
    /// The last event it contains.
    pub up_to_seq: u64,
    /// Its size.
    pub size_bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
}
