//! Retries, failure actions and policies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::HandlerName;

/// How often and how fast a failing attempt is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Tries in all, the first one included.
    #[schemars(range(min = 1, max = 10))]
    pub max_attempts: u32,
    /// A named backoff; the three numbers below are then not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Delay before the second try, in milliseconds.
    #[schemars(range(max = 86_400_000))]
    pub initial_backoff_ms: u64,
    /// Each further delay is this many times the one before.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub backoff_multiplier: f64,
    /// The longest delay, in milliseconds.
    #[schemars(range(max = 86_400_000))]
    pub max_backoff_ms: u64,
    /// Error names or HTTP statuses that are tried again. When given, a named error that is not listed is
    /// final; an error that is permanent by nature stays final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_errors: Option<Vec<String>>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: None,
            initial_backoff_ms: 1000,
            backoff_multiplier: 2.0,
            max_backoff_ms: 30_000,
            retryable_errors: None,
        }
    }
}

/// A named backoff. `n` is the number of tries that failed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Backoff {
    /// Always one second.
    Constant,
    /// `n` seconds.
    Linear,
    /// 2ⁿ × 100 ms.
    Exponential,
}

/// What happens when a step has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureAction {
    /// The run ends: what is in flight finishes, then compensation, then FAILED.
    #[default]
    Abort,
    /// The step counts as skipped and its dependents go on.
    Skip,
    /// The next of `agents` tries; after the last one, abort.
    Reassign,
    /// The run pauses until a person retries or skips the step.
    Pause,
    /// The step named by `fallback` stands in.
    Fallback,
    /// A new logical attempt, up to `maxRetries`; then abort.
    Retry,
}

/// What happens when steps fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FailurePolicy {
    /// For steps that say nothing themselves and have no override.
    pub default: FailureAction,
    /// By handler, for steps that say nothing themselves.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<HandlerName, FailureAction>,
    /// New logical attempts that the action `retry` makes.
    #[schemars(range(min = 0, max = 100))]
    pub max_retries: u32,
    /// Independent branches go on after a failure that would abort, and the run completes with outcome
    /// PARTIAL.
    pub continue_on_partial_failure: bool,
    /// Whether steps in flight finish or are cancelled once the run is failing.
    pub fail_fast: FailFast,
    /// A cancelled run is compensated too.
    pub compensate_on_cancel: bool,
    /// The run pauses when a handler asks for human review.
    pub pause_on_human_review: bool,
    /// What happens to steps that are still in flight when draining times out.
    pub orphans: OrphanPolicy,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            default: FailureAction::Abort,
            overrides: BTreeMap::new(),
            max_retries: 3,
            continue_on_partial_failure: false,
            fail_fast: FailFast::Finish,
            compensate_on_cancel: false,
            pause_on_human_review: false,
            orphans: OrphanPolicy::Accept,
        }
    }
}

/// What becomes of steps in flight once a run is failing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailFast {
    /// They finish, retries included.
    #[default]
    Finish,
    /// They are cancelled, where the engine can.
    Cancel,
}

/// What becomes of steps in flight when draining times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OrphanPolicy {
    /// Late outcomes are accepted and applied.
    #[default]
    Accept,
    /// The attempts are cancelled, late outcomes refused, and RESUME makes new attempts.
    Reject,
}
