//! The plan document as people write it, in YAML or JSON.
//!
//! The published schema `schemas/plan.v1.schema.json` is made from these types, so their comments are
//! what an editor shows. Defaults are what the document means when a field is absent.
//!
//! - this file: the plan itself, its limits and its schedule;
//! - [`step`]: one unit of work and everything it can say;
//! - [`flow`]: where a step's input comes from and its output goes;
//! - [`failure`]: retries, failure actions and policies.

pub mod failure;
pub mod flow;
pub mod step;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use failure::{Backoff, FailFast, FailureAction, FailurePolicy, OrphanPolicy, RetryPolicy};
pub use flow::{FullSecretRef, InputMapping, InputSource, Merge, OutputMapping, SecretRef};
pub(crate) use step::is_default_max_losses;
pub use step::{
    Compensation, Completion, Dependency, Dispatch, ExplicitDependency, LOCAL_TIMEOUT_MS, OnWorkerLost, Step,
    StepSchedule,
};

use crate::id::{PlanId, PlanVersion};
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

impl Plan {
    /// The plan without its steps. Those are most of it, and whoever writes them one at a time needs no second
    /// copy of them all.
    pub(crate) fn without_steps(&self) -> Self {
        Self {
            id: self.id.clone(),
            version: self.version.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            labels: self.labels.clone(),
            mode: self.mode,
            approval: self.approval,
            separation_of_duties: self.separation_of_duties,
            schedule: self.schedule.clone(),
            limits: self.limits.clone(),
            failure: self.failure.clone(),
            dispatch: self.dispatch,
            input_schema: self.input_schema.clone(),
            result: self.result.clone(),
            steps: Vec::new(),
        }
    }
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

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
