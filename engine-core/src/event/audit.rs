//! Payloads of the events about alerts and checkpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::CheckpointId;
use crate::wire::open_enum;

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
