//! What a snapshot of a run contains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Progress;
use crate::event::Body;
use crate::event::run::{CompensationSummary, PlanRef, RootCause, RunContext, RunOutcome};
use crate::event::step::{ArtifactRef, CancelReason, SkipReason, StepError};
use crate::failure::FailureClass;
use crate::id::{AgentName, RunId, StepId};
use crate::machine::{RunStatus, RunSubstatus, StepStatus, StepSubstatus};
use crate::time::Timestamp;

/// A run at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The run; absent before RunQueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Where it stands; absent before RunQueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// What it is busy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substatus: Option<RunSubstatus>,
    /// The same in a sentence.
    pub message: String,
    /// The last event it contains.
    pub last_event_seq: u64,
    /// The plan, by content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_ref: Option<PlanRef>,
    /// On whose behalf it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<RunContext>,
    /// The engine's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_run_ref: Option<String>,
    /// Which engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_type: Option<String>,
    /// When it was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<Timestamp>,
    /// When the engine began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// From start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_duration_ms: Option<u64>,
    /// Whether all of a completed run succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSnapshot>,
    /// The step that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_cause: Option<RootCause>,
    /// What was undone.
    #[serde(default, skip_serializing_if = "CompensationSummary::is_empty")]
    pub compensation: CompensationSummary,
    /// How far it is.
    pub progress: Progress,
    /// Everything its steps left in the artifact store.
    #[serde(default)]
    pub artifacts: Vec<ArtifactRef>,
    /// Reviews that handlers asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<ReviewSnapshot>,
    /// Every step, in the order of the plan.
    pub steps: Vec<StepSnapshot>,
}

/// A step at one moment: its latest attempt, and all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSnapshot {
    /// The step.
    pub step_id: StepId,
    /// Where its latest attempt stands.
    pub status: StepStatus,
    /// What that attempt is busy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substatus: Option<StepSubstatus>,
    /// The latest attempt.
    pub logical_attempt_id: u32,
    /// The platform's counter, for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_attempt_id: Option<u32>,
    /// The executor it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// When the latest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The place of its end in the log, where its output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_seq: Option<u64>,
    /// What it left in the artifact store.
    #[serde(default)]
    pub artifacts: Vec<ArtifactRef>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSnapshot>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<SkipReason>,
    /// Steps that must succeed first and have failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<StepId>,
    /// The fallback that stood in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<StepId>,
    /// Whether a person must retry or skip it.
    #[serde(default)]
    pub held: bool,
    /// Taken over from another run.
    #[serde(default)]
    pub reused: bool,
    /// Every attempt that anything was heard of, the latest last.
    #[serde(default)]
    pub attempts: Vec<AttemptSnapshot>,
}

/// One logical attempt. Once it has ended it does not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptSnapshot {
    /// The attempt, from 1.
    pub logical_attempt_id: u32,
    /// The platform's counter, for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_attempt_id: Option<u32>,
    /// Where it stands.
    pub status: StepStatus,
    /// The worker that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended; never before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Tries that failed and were tried again.
    #[serde(default)]
    pub retries: u32,
    /// How often its worker was lost.
    #[serde(default)]
    pub losses: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSnapshot>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<SkipReason>,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<CancelReason>,
    /// What it left in the artifact store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
}

/// What went wrong, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorSnapshot {
    /// The error's name or code.
    pub code: String,
    /// What happened, for a person.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
}

/// A review that a handler asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSnapshot {
    /// The step.
    pub step_id: StepId,
    /// Its attempt.
    pub logical_attempt_id: u32,
    /// Which request of that attempt.
    pub number: u32,
    /// Why.
    pub reason: String,
    /// When.
    pub requested_at: Timestamp,
}

impl ReviewSnapshot {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |review: &Self| (review.step_id.clone(), review.logical_attempt_id, review.number);
        key(self) == key(other)
    }
}

impl From<&StepError> for ErrorSnapshot {
    fn from(error: &StepError) -> Self {
        Self {
            code: error.code.clone(),
            message: error.message.clone(),
            retryable: !matches!(error.class, FailureClass::Permanent | FailureClass::Cancelled),
        }
    }
}

impl AttemptSnapshot {
    pub(super) fn new(logical_attempt_id: u32, status: StepStatus) -> Self {
        Self {
            logical_attempt_id,
            engine_attempt_id: None,
            status,
            worker: None,
            started_at: None,
            completed_at: None,
            retries: 0,
            losses: 0,
            error: None,
            skip_reason: None,
            cancel_reason: None,
            artifacts: Vec::new(),
        }
    }

    /// Takes what an event tells; `changed` when the event changed the attempt's status.
    pub(super) fn note(&mut self, body: &Body, at: Timestamp, changed: bool) {
        match body {
            Body::StepRetried(retried) if !self.status.is_terminal() => {
                self.error = Some((&retried.error).into());
            }
            _ if !changed => {}
            Body::StepStarted(started) => {
                self.started_at = Some(at);
                self.worker = Some(started.worker.clone());
            }
            Body::StepCompleted(completed) => {
                self.end_at(at);
                self.error = None;
                self.artifacts =
                    completed.artifacts.iter().chain(&completed.output.artifact).cloned().collect();
            }
            Body::StepFailed(failed) => {
                self.end_at(at);
                self.error = Some((&failed.error).into());
            }
            Body::StepSkipped(skipped) => {
                self.end_at(at);
                self.skip_reason = Some(skipped.reason.clone());
            }
            Body::StepCancelled(cancelled) => {
                self.end_at(at);
                self.cancel_reason = Some(cancelled.reason.clone());
            }
            _ => {}
        }
    }

    fn end_at(&mut self, at: Timestamp) {
        self.completed_at = Some(at.max(self.started_at.unwrap_or(at)));
    }
}
