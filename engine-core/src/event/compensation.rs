//! Payloads of the events about undoing a step.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::step::StepError;
use crate::id::HandlerName;

/// Undoing a step begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompensationStarted {
    /// The code that undoes it.
    pub handler: HandlerName,
    /// The key that stays the same over tries: `runId:stepId:compensate`. Its written name is not
    /// `idempotencyKey`, which is the event's own.
    #[serde(rename = "compensationKey")]
    pub idempotency_key: String,
}

/// A step was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompensationCompleted {
    /// What the handler said about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

/// A try at undoing a step failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompensationFailed {
    /// What went wrong.
    pub error: StepError,
    /// Whether another try follows.
    pub will_retry: bool,
    /// How long until then, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}
