//! The plan document as people write it, in YAML or JSON.
//!
//! The published schema `schemas/plan.v1.schema.json` is made from these types, so their comments are
//! what an editor shows. Defaults are what the document means when a field is absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AgentName, HandlerName, PlanId, PlanVersion, StepId};
use crate::time::Timestamp;

/// A versioned graph of steps that a run executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Identifies the plan over all of its versions.
    pub id: PlanId,
    /// This version of the plan. Quote it in YAML: "1.0".
    pub version: PlanVersion,
    /// A short title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the plan is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free labels for people and tools; they change nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether the order of steps comes from `dependsOn` or from the list. Absent: a graph as soon as any
    /// step has `dependsOn`, else sequential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether a person must approve each run before it starts.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "auto"))]
    pub approval: Approval,
    /// Whoever triggered a run may neither approve it nor complete its manual steps. A step may say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = false))]
    pub separation_of_duties: bool,
    /// When runs of this plan start by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<PlanSchedule>,
    /// How much of a run may happen at once, and for how long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// What happens when steps fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure: FailurePolicy,
    /// How steps reach a worker when they do not say so themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// JSON Schema (2020-12, no remote references) of the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JMESPath over `input`, `steps` and `vars` that gives the run's output. Absent: the outputs of the
    /// steps that nothing depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The work. At least one step.
    #[schemars(length(min = 1))]
    pub steps: Vec<Step>,
}

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Identifies the step within the plan.
    pub id: StepId,
    /// A short title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the step is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The code that does the work, by the name it is registered under.
    pub handler: HandlerName,
    /// The executor that must do the work. Absent: any worker that has the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Executors in the order in which `onFailure: reassign` tries them; the first one does the work when
    /// `agent` is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub agents: Vec<AgentName>,
    /// Steps that must end before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// The position in a sequential plan, and the tie-breaker among ready steps. When given, the orders of
    /// all steps together are 1, 2, 3, …; absent: the position in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub order: Option<u32>,
    /// Which ready step goes first: 0 urgent, 1 high, 2 normal, 3 low.
    #[serde(default = "default_priority", skip_serializing_if = "is_default_priority")]
    #[schemars(range(min = 0, max = 3))]
    #[schemars(extend("default" = 2))]
    pub priority: u8,
    /// JMESPath condition over `input`, `steps` and `vars`; when false the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The step's input: values in which `${ jmespath }` is replaced. Not together with `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Value>,
    /// The step's input taken from one place. Not together with `with`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputMapping>,
    /// Where the step's output goes besides `steps.<id>.output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputMapping>,
    /// Paths of `vars` that neither this step nor a step after it may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    /// Top-level fields of the step's output that stay in the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<String>,
    /// Secrets the handler gets by name. Only references stand here, never values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretRef>,
    /// How often a failing attempt is tried again before the failure is final.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: RetryPolicy,
    /// The longest one attempt may take, in milliseconds. Default 300000; 10000 with `dispatch: local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// What happens when the step has failed for good. Absent: the plan's `failure` policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<FailureAction>,
    /// New logical attempts that `onFailure: retry` makes. Absent: the plan's `failure.maxRetries`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_retries: Option<u32>,
    /// The step that stands in when this one fails; implies `onFailure: fallback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<StepId>,
    /// How to undo the step when the run fails after it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
    /// Whether the step changes the outside world. Such a step without `compensation` is named as
    /// non-compensable when the run fails. Default: true with `compensation`, else false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<bool>,
    /// Whether the handler's success ends the step, or a person does.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "auto"))]
    pub completion: Completion,
    /// Whoever triggered the run may not complete this manual step. Absent: as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separation_of_duties: Option<bool>,
    /// Units of named pools that the step holds while it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, u32>,
    /// Holds the step, and what depends on it, back for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<StepSchedule>,
    /// How the step reaches a worker. Absent: as the plan says, else queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// What a lost worker means for the attempt it held.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "retry"))]
    pub on_worker_lost: OnWorkerLost,
    /// How often an attempt may lose its worker before that counts as a failure.
    #[serde(default = "default_max_losses", skip_serializing_if = "is_default_max_losses")]
    #[schemars(range(min = 0, max = 1000))]
    #[schemars(extend("default" = 10))]
    pub max_losses: u32,
}

/// How the order of steps is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// By `dependsOn` alone.
    Graph,
    /// One after another in `order`; no step has `dependsOn`.
    Sequential,
}

/// Whether a run waits for a person before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Approval {
    /// The system approves.
    #[default]
    Auto,
    /// The run waits in PENDING for an APPROVE signal.
    Required,
}

/// A step that must end first: its id, or an object that says whether it must succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Dependency {
    /// The step must end in SUCCESS or SKIPPED, or its fallback must succeed.
    Required(StepId),
    /// The same with the requirement spelled out.
    Explicit(ExplicitDependency),
}

/// A dependency with its requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExplicitDependency {
    /// The step that must end first.
    pub step: StepId,
    /// Whether it must succeed; when false any end will do.
    #[serde(default = "default_true")]
    pub required: bool,
}

impl Dependency {
    /// The step that must end first.
    #[must_use]
    pub fn step(&self) -> &StepId {
        match self {
            Self::Required(step) => step,
            Self::Explicit(explicit) => &explicit.step,
        }
    }

    /// Whether it must succeed.
    #[must_use]
    pub fn is_required(&self) -> bool {
        match self {
            Self::Required(_) => true,
            Self::Explicit(explicit) => explicit.required,
        }
    }
}

/// Input taken from one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputMapping {
    /// Where the input comes from.
    pub from: InputSource,
    /// The value itself, with `from: literal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// JMESPath applied to what was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// JSON Schema (2020-12, no remote references) that the input must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Where a step's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputSource {
    /// The whole context: `input`, `steps` and `vars`.
    Context,
    /// The output of the one step it depends on.
    PreviousStep,
    /// The value written in the plan.
    Literal,
}

/// Where a step's output goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputMapping {
    /// Path below `vars` that is written, as `report.totals`. Absent: nothing is written to `vars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// JMESPath applied to the handler's output; its result is the step's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// How the value joins what stands at `to` already.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "replace"))]
    pub merge: Merge,
    /// JSON Schema (2020-12, no remote references) that the output must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// How a value joins an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Merge {
    /// The later value stands.
    #[default]
    Replace,
    /// Objects are merged field by field, the later value wins.
    Merge,
    /// The value is added at the end of a list.
    Append,
}

/// A reference to a secret: `provider:key`, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SecretRef {
    /// `provider:key`, as `env:STRIPE_KEY` or `file:stripe/key`.
    Short(String),
    /// The same, with a version.
    Full(FullSecretRef),
}

/// A reference to one version of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FullSecretRef {
    /// Which provider resolves it, as `env` or `file`.
    pub provider: String,
    /// The secret's name there.
    pub key: String,
    /// Which version; absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl SecretRef {
    /// The reference with its parts named; `None` when a short one lacks its `provider:`.
    #[must_use]
    pub fn parts(&self) -> Option<FullSecretRef> {
        match self {
            Self::Full(full) => Some(full.clone()),
            Self::Short(text) => {
                let (provider, key) = text.split_once(':')?;
                (!provider.is_empty() && !key.is_empty()).then(|| FullSecretRef {
                    provider: provider.to_owned(),
                    key: key.to_owned(),
                    version: None,
                })
            }
        }
    }
}

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

/// How to undo a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compensation {
    /// The code that undoes the step.
    pub handler: HandlerName,
    /// Its input: values in which `${ jmespath }` is replaced; the step's own output is `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Value>,
    /// The longest one try may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
}

/// Who ends a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Completion {
    /// The handler's result ends it.
    #[default]
    Auto,
    /// After the handler, a person does with COMPLETE_STEP.
    Manual,
}

/// How a step reaches a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dispatch {
    /// Through the engine's own queue.
    #[default]
    Queued,
    /// The driver's worker may run it at once. For short steps without an agent or a native handler.
    Local,
}

/// What a lost worker means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnWorkerLost {
    /// The attempt is delivered again.
    #[default]
    Retry,
    /// The attempt has failed for good: for work that must not be repeated.
    Fail,
}

/// Holds a step back. Exactly one of the two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepSchedule {
    /// Milliseconds to wait once the step's dependencies are satisfied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub delay_ms: Option<u64>,
    /// The step does not start before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// When runs start by themselves. Exactly one of `cron`, `intervalMs` and `at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanSchedule {
    /// Five fields: minute, hour, day of month, month, day of week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Milliseconds from one start to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub interval_ms: Option<u64>,
    /// One start, at this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The time zone that `cron` is read in, as `Europe/Berlin`. Default UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// No start before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// No start after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// The schedule ends after this many starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_runs: Option<u64>,
}

/// How much of a run may happen at once, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Steps of one run in flight at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_concurrency: u32,
    /// Steps of one run in flight at once on one agent.
    #[schemars(range(min = 1, max = 10_000))]
    pub per_agent: u32,
    /// The longest a run may take, pauses not counted, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub run_timeout_ms: Option<u64>,
    /// How long a pause waits for what is in flight, in milliseconds.
    #[schemars(range(min = 1))]
    pub drain_timeout_ms: u64,
    /// Final step failures that a run survives; one more aborts it whatever the steps' own actions are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_concurrency: 10,
            per_agent: 3,
            run_timeout_ms: None,
            drain_timeout_ms: 300_000,
            max_failures: None,
        }
    }
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_true() -> bool {
    true
}

fn default_priority() -> u8 {
    2
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_priority(priority: &u8) -> bool {
    *priority == default_priority()
}

fn default_max_losses() -> u32 {
    10
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_max_losses(losses: &u32) -> bool {
    *losses == default_max_losses()
}

impl Step {
    /// The executors that `reassign` goes through, the first being the one that starts.
    #[must_use]
    pub fn agent_chain(&self) -> Vec<AgentName> {
        let mut chain: Vec<AgentName> = Vec::new();
        for agent in self.agent.iter().chain(&self.agents) {
            if !chain.contains(agent) {
                chain.push(agent.clone());
            }
        }
        chain
    }

    /// How the step reaches a worker, in a plan that says `plan_dispatch`.
    #[must_use]
    pub fn effective_dispatch(&self, plan_dispatch: Option<Dispatch>) -> Dispatch {
        self.dispatch.or(plan_dispatch).unwrap_or_default()
    }

    /// The longest one attempt may take, in a plan that says `plan_dispatch`.
    #[must_use]
    pub fn effective_timeout_ms(&self, plan_dispatch: Option<Dispatch>) -> u64 {
        self.timeout_ms.unwrap_or(match self.effective_dispatch(plan_dispatch) {
            Dispatch::Queued => 300_000,
            Dispatch::Local => LOCAL_TIMEOUT_MS,
        })
    }

    /// Whether the step changes the outside world.
    #[must_use]
    pub fn has_side_effects(&self) -> bool {
        self.side_effects.unwrap_or(self.compensation.is_some())
    }
}

/// The longest that a `dispatch: local` step may take, and its default timeout.
pub const LOCAL_TIMEOUT_MS: u64 = 10_000;
