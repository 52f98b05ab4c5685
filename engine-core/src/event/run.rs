//! Payloads of the events about a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::step::{ArtifactRef, SkipReason, StepOutput};
use crate::decider::DECIDER_VERSION;
use crate::hash::sha256_hex;
use crate::id::{PlanId, PlanVersion, RunId, SignalId, StepId, TenantId};
use crate::machine::StepStatus;
use crate::plan::{Approval, CompiledPlan, FailFast, OrphanPolicy};
use crate::time::Timestamp;
use crate::wire::{known_or_default, open_enum};

/// The first event of every run: everything that decisions read besides later events, frozen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunQueued {
    /// The plan, by content.
    pub plan_ref: PlanRef,
    /// Where the run's input is.
    pub input: RunInput,
    /// On whose behalf the run is.
    pub context: RunContext,
    /// The hash that makes starting the same again return the same run.
    pub identity: String,
    /// What the caller wants, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_intent: Option<String>,
    /// The limits in force, after tiers.
    pub limits: EffectiveLimits,
    /// The policies in force.
    pub policies: EffectivePolicies,
    /// Optional abilities of the engine that decisions depend on.
    #[serde(default)]
    pub capabilities: FrozenCapabilities,
    /// The decider that must decide for this run.
    pub decider_version: u32,
    /// The run does not start before this time (admission said DELAY).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The run that this one was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl RunQueued {
    /// A run of a plan without input, with the plan's own limits and policies. What else is wanted is set on it.
    #[must_use]
    pub fn of(plan: &CompiledPlan, context: RunContext, run_request_id: &str) -> Self {
        let document = plan.document();
        Self {
            plan_ref: PlanRef::of(plan),
            input: RunInput::default(),
            identity: context.identity(&document.id, &document.version, run_request_id),
            context,
            original_intent: None,
            limits: document.limits.clone().into(),
            policies: document.into(),
            capabilities: FrozenCapabilities::default(),
            decider_version: DECIDER_VERSION,
            not_before: None,
            origin: None,
        }
    }
}

/// A plan by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRef {
    /// Where the content is.
    pub uri: String,
    /// SHA-256 of the canonical plan document.
    pub sha256: String,
    /// The version of the plan document's schema.
    pub schema_version: String,
    /// The plan.
    pub plan_id: PlanId,
    /// Its version.
    pub plan_version: PlanVersion,
}

impl PlanRef {
    /// The plan as the store keeps it.
    #[must_use]
    pub fn of(plan: &CompiledPlan) -> Self {
        let document = plan.document();
        Self {
            uri: format!("store:plans/{}", plan.hash()),
            sha256: plan.hash().to_owned(),
            schema_version: "v1".to_owned(),
            plan_id: document.id.clone(),
            plan_version: document.version.clone(),
        }
    }
}

/// Where a run's input is: in the event, or in the artifact store when it is large.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// The input itself.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::wire::present")]
    pub value: Option<Value>,
    /// A reference to a large input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactRef>,
}

impl From<Value> for RunInput {
    fn from(value: Value) -> Self {
        Self { value: Some(value), artifact: None }
    }
}

/// On whose behalf a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The project it belongs to.
    pub project_id: String,
    /// The environment its secrets come from.
    pub environment_id: String,
    /// Who asked for it: a user id, or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// How it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_source: Option<TriggerSource>,
}

impl RunContext {
    /// The hash that is unique over all runs (START-2): asking for the same again gives the same run.
    #[must_use]
    pub fn identity(&self, plan: &PlanId, version: &PlanVersion, run_request_id: &str) -> String {
        let fields = [
            self.tenant_id.as_str(),
            &self.project_id,
            &self.environment_id,
            plan.as_str(),
            version.as_str(),
            run_request_id,
        ];
        sha256_hex(fields.join("|"))
    }
}

open_enum! {
    /// How a run was asked for.
    pub enum TriggerSource {
        /// By a person.
        Manual = "manual",
        /// By the plan's schedule.
        Schedule = "schedule",
        /// By a webhook.
        Webhook = "webhook",
        /// By another program.
        Api = "api",
    }
}

/// The limits in force for one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EffectiveLimits {
    /// Steps in flight at once.
    pub max_concurrency: u32,
    /// Steps in flight at once on one agent.
    pub per_agent: u32,
    /// The longest the run may take, pauses not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// How long a pause waits for what is in flight.
    pub drain_timeout_ms: u64,
    /// How long cancelled steps have before they are cut off.
    pub cancel_grace_ms: u64,
    /// Final step failures that the run survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
}

impl Default for EffectiveLimits {
    fn default() -> Self {
        crate::plan::Limits::default().into()
    }
}

impl From<crate::plan::Limits> for EffectiveLimits {
    fn from(limits: crate::plan::Limits) -> Self {
        Self {
            max_concurrency: limits.max_concurrency,
            per_agent: limits.per_agent,
            run_timeout_ms: limits.run_timeout_ms,
            drain_timeout_ms: limits.drain_timeout_ms,
            cancel_grace_ms: 5000,
            max_failures: limits.max_failures,
        }
    }
}

/// The policies in force for one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EffectivePolicies {
    /// Whether the run waits for APPROVE.
    #[serde(deserialize_with = "known_or_default")]
    pub approval: Approval,
    /// Whoever triggered the run may not approve it.
    pub separation_of_duties: bool,
    /// Independent branches go on after a failure.
    pub continue_on_partial_failure: bool,
    /// Whether steps in flight finish or are cancelled once the run is failing.
    #[serde(deserialize_with = "known_or_default")]
    pub fail_fast: FailFast,
    /// A cancelled run is compensated too.
    pub compensate_on_cancel: bool,
    /// The run pauses when a handler asks for human review.
    pub pause_on_human_review: bool,
    /// What happens to steps in flight when draining times out.
    #[serde(deserialize_with = "known_or_default")]
    pub orphans: OrphanPolicy,
}

impl From<&crate::plan::Plan> for EffectivePolicies {
    fn from(plan: &crate::plan::Plan) -> Self {
        Self {
            approval: plan.approval,
            separation_of_duties: plan.separation_of_duties,
            continue_on_partial_failure: plan.failure.continue_on_partial_failure,
            fail_fast: plan.failure.fail_fast,
            compensate_on_cancel: plan.failure.compensate_on_cancel,
            pause_on_human_review: plan.failure.pause_on_human_review,
            orphans: plan.failure.orphans,
        }
    }
}

/// Optional abilities of the engine that decisions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FrozenCapabilities {
    /// PAUSE with `mode: immediate` gives up what is in flight at once.
    pub immediate_pause: bool,
    /// `failFast: cancel` can cancel what is in flight.
    pub fail_fast_cancel: bool,
}

/// The run that a run was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// How it was made.
    #[serde(rename = "type")]
    pub origin_type: OriginType,
    /// The run it was made from.
    pub source_run_id: RunId,
    /// The chosen step, when only a part of the plan was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Steps that are taken over from the source and do not run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<ReusedStep>,
}

open_enum! {
    /// How a run was made from another.
    pub enum OriginType {
        /// The same plan again: from the start, from failed steps or from a checkpoint.
        Rerun = "rerun",
        /// The same plan, or a step of it with what belongs to it, from the start.
        Copy = "copy",
        /// The source's outputs by reference.
        Link = "link",
        /// The source's outputs, copied.
        Archive = "archive",
    }
}

/// A step that is taken over from the source run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReusedStep {
    /// The step.
    pub step_id: StepId,
    /// How it ended there.
    pub status: StepStatus,
    /// The attempt that ended so.
    pub logical_attempt_id: u32,
    /// The place of its end in the source's log, where its output is.
    pub run_seq: u64,
    /// Why it was skipped there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<SkipReason>,
    /// What it left, when this run has a copy of its own (an archive).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<StepOutput>,
}

/// The run may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunApproved {
    /// Who approved: a user id, or `system`.
    pub approved_by: String,
    /// The signal that said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The engine has begun to execute the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The engine's own name for the run.
    pub engine_run_ref: String,
    /// Which engine: `temporal`, `conductor`, `mock`, or a third party's.
    pub engine_type: String,
    /// The version of the adapter's interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter_version: Option<String>,
    /// The plan, by content.
    pub plan_ref: PlanRef,
    /// On whose behalf the run is.
    pub context: RunContext,
    /// When the engine began.
    pub started_at: Timestamp,
}

/// Nothing new is released any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPaused {
    /// Which pause of the run this is, from 1.
    pub pause_number: u32,
    /// What paused it.
    pub cause: PauseCause,
    /// Steps in flight at that moment.
    pub in_flight: u32,
    /// Whether what is in flight was given up at once.
    #[serde(default)]
    pub immediate: bool,
    /// The step that failed or asked for review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_step: Option<StepId>,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

open_enum! {
    /// What paused a run.
    pub enum PauseCause {
        /// A PAUSE signal.
        Signal = "signal",
        /// A failed step with `onFailure: pause`.
        StepFailed = "step_failed",
        /// A handler asked for review.
        HumanReview = "human_review",
    }
}

/// The pause has nothing in flight any more, or stopped waiting for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDrained {
    /// The pause.
    pub pause_number: u32,
    /// Whether steps were still in flight.
    #[serde(default)]
    pub timed_out: bool,
    /// The steps that were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<StepId>,
}

/// Releases go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {
    /// The pause that ends.
    pub pause_number: u32,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How many steps ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StepCounts {
    /// All steps of the plan.
    pub total: u32,
    /// Not started.
    pub pending: u32,
    /// Started and not ended.
    pub running: u32,
    /// Ended well.
    pub succeeded: u32,
    /// Failed for good.
    pub failed: u32,
    /// Skipped.
    pub skipped: u32,
    /// Given up.
    pub cancelled: u32,
}

/// The run ended; everything was done or skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    /// Whether all of it succeeded.
    pub outcome: RunOutcome,
    /// The run's output. Decisions know no outputs: whoever appends the event fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<StepOutput>,
    /// How many steps ended how.
    pub counts: StepCounts,
}

open_enum! {
    /// Whether all of a completed run succeeded.
    pub enum RunOutcome {
        /// All of it.
        Success = "SUCCESS",
        /// A step failed, was cancelled or was skipped because of a failure.
        Partial = "PARTIAL",
    }
}

/// The run ended by a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed {
    /// Why, as a stable code.
    pub code: String,
    /// Why, for a person.
    pub message: String,
    /// The first failure that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_cause: Option<RootCause>,
    /// Every step whose latest attempt failed, in the order of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_steps: Vec<FailedStep>,
    /// How many steps ended how.
    pub counts: StepCounts,
    /// What was undone.
    #[serde(default, skip_serializing_if = "CompensationSummary::is_empty")]
    pub compensation: CompensationSummary,
}

/// The failure that ended a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    /// The step.
    pub step_id: StepId,
    /// Its attempt.
    pub logical_attempt_id: u32,
    /// The place of its end in the log.
    pub run_seq: u64,
    /// The step's error code; the whole error stands in the log at that place.
    pub code: String,
}

/// A failed attempt, by its place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedStep {
    /// The step.
    pub step_id: StepId,
    /// Its attempt.
    pub logical_attempt_id: u32,
    /// The place of its end in the log, where its error is.
    pub run_seq: u64,
}

/// What was undone when a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CompensationSummary {
    /// Undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compensated: Vec<StepId>,
    /// Not undone, although it was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<StepId>,
    /// Succeeded, changed the outside world, and has no compensation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_compensable: Vec<StepId>,
}

impl CompensationSummary {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The run was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<SignalId>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many steps ended how.
    pub counts: StepCounts,
    /// What was undone.
    #[serde(default, skip_serializing_if = "CompensationSummary::is_empty")]
    pub compensation: CompensationSummary,
}

/// A timer that the decider asked for is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimerFired {
    /// The timer.
    pub timer_id: String,
    /// When it was due.
    pub due_at: Timestamp,
}
