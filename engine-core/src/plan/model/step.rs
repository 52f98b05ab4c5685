//! One unit of work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::{FailureAction, RetryPolicy};
use super::flow::{InputMapping, OutputMapping, SecretRef};
use super::is_default;
use crate::id::{AgentName, HandlerName, StepId};
use crate::time::Timestamp;

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
    #[schemars(transform = named_pools)]
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

/// At least one unit, of a pool that is named like an agent.
fn named_pools(schema: &mut schemars::Schema) {
    let units = serde_json::json!({"type": "integer", "minimum": 1, "maximum": u32::MAX});
    schema.insert("patternProperties".to_owned(), serde_json::json!({AgentName::PATTERN: units}));
    schema.insert("additionalProperties".to_owned(), false.into());
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
pub(crate) fn is_default_max_losses(losses: &u32) -> bool {
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
