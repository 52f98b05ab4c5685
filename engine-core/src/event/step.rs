//! Payloads of the events about a step attempt.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::FailureClass;
use crate::id::{AgentName, HandlerName, SignalId, StepId};
use crate::signal::ManualCompletion;
use crate::time::Timestamp;
use crate::wire::open_enum;

/// A worker has taken the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStarted {
    /// The code that does the work.
    pub handler: HandlerName,
    /// The executor that the attempt was given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The worker process.
    pub worker: String,
    /// Until when the worker's claim holds unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_until: Option<Timestamp>,
    /// The token handed to the handler, the same over all retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_token: Option<String>,
}

/// A try failed and another follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRetried {
    /// What went wrong.
    pub error: StepError,
    /// When the try started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long until the next try, at least.
    pub delay_ms: u64,
    /// The worker was lost: this does not count against `maxAttempts`.
    #[serde(default)]
    pub worker_lost: bool,
}

/// The handler is done and a person must complete the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepWaiting {
    /// Must be given back with COMPLETE_STEP.
    #[schemars(length(min = 1))]
    pub completion_token: String,
    /// What the handler produced; the step's output unless COMPLETE_STEP brings another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<StepOutput>,
    /// What the person is asked to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// The attempt ended well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepCompleted {
    /// What it produced.
    #[serde(default)]
    pub output: StepOutput,
    /// Files and other large results it left in the artifact store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
    /// How the person completed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualCompletion>,
}

/// The attempt failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepFailed {
    /// What went wrong.
    pub error: StepError,
    /// Tries that failed, this one included; lost workers are not counted.
    pub tries: u32,
    /// How often the worker was lost.
    #[serde(default)]
    pub losses: u32,
    /// How the person failed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualCompletion>,
}

/// The attempt is not needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSkipped {
    /// Why.
    pub reason: SkipReason,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_step: Option<StepId>,
}

open_enum! {
    /// Why a step was skipped.
    pub enum SkipReason {
        /// Its `when` is false.
        ConditionFalse = "condition_false",
        /// A step it needs failed, and the run goes on without it.
        DependencyFailed = "dependency_failed",
        /// It failed, and its `onFailure` is skip.
        FailurePolicy = "failure_policy",
        /// A SKIP_STEP signal.
        Operator = "operator",
        /// A fallback whose step did not need it.
        FallbackNotNeeded = "fallback_not_needed",
    }
}

/// The attempt was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepCancelled {
    /// Why.
    pub reason: CancelReason,
    /// Whether it had to be cut off after the grace period.
    #[serde(default)]
    pub forced: bool,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// How the person cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualCompletion>,
}

open_enum! {
    /// Why an attempt was given up.
    pub enum CancelReason {
        /// The run is being cancelled.
        RunCancelled = "RUN_CANCELLED",
        /// The run timed out.
        RunTimeout = "RUN_TIMEOUT",
        /// The run is failing and does not wait for it.
        RunFailing = "RUN_FAILING",
        /// Draining stopped waiting for it.
        Orphaned = "ORPHANED",
        /// A person completed it as Cancelled.
        Manual = "MANUAL",
        /// The handler gave up without being asked.
        Handler = "HANDLER",
    }
}

/// A new logical attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRetryRequested {
    /// Why.
    pub reason: RetryReason,
    /// The executor that the new attempt goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// The step whose retry this one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_step: Option<StepId>,
}

open_enum! {
    /// Why there is a new logical attempt.
    pub enum RetryReason {
        /// A RETRY_STEP signal for this step.
        Signal = "signal",
        /// A RETRY_STEP signal for a step that this one depends on.
        Cascade = "cascade",
        /// The failure action `retry`.
        Retry = "retry",
        /// The failure action `reassign`.
        Reassign = "reassign",
        /// The attempt was orphaned by a pause, and the run was resumed.
        Orphaned = "orphaned",
    }
}

/// A handler asks for a person's eyes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HumanReviewRequested {
    /// Which request of this attempt, from 1.
    pub number: u32,
    /// Why.
    pub reason: String,
    /// What the person should know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Value>,
}

/// What a step produced: inline, or by reference when it is large.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepOutput {
    /// The output itself.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::wire::present")]
    pub value: Option<Value>,
    /// A reference to a large output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactRef>,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Tokens spent on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_used: Option<u64>,
    /// How good it is, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub quality_score: Option<f64>,
    /// Anything else about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

impl StepOutput {
    /// Whether there is neither a value nor a reference to one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.value.is_none() && self.artifact.is_none()
    }
}

/// A large result in the artifact store; the log holds only this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRef {
    /// Where it is.
    pub uri: String,
    /// What it is, as `output` or `log-bundle`.
    pub kind: String,
    /// SHA-256 of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// When retention may delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What went wrong in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepError {
    /// The error's name, as `ECONNREFUSED` or `ValidationError`.
    #[schemars(length(min = 1))]
    pub code: String,
    /// What kind of failure it is.
    pub class: FailureClass,
    /// What happened, for a person.
    pub message: String,
    /// The HTTP status, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}
