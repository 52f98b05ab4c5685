//! A log without what differs from run to run: ids, times, engines' own attempts, texts for people.

use std::collections::BTreeMap;
use std::fmt;

use engine_core::event::{Body, Event};
use engine_core::plan::CompiledPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::history::RunHistory;

/// The fields of events that every engine must write alike. `error` stands for its code and class.
const KEPT: &[&str] = &[
    "cause",
    "causedByStep",
    "class",
    "code",
    "forced",
    "immediate",
    "outcome",
    "pauseNumber",
    "signalType",
    "timedOut",
    "tries",
    "willRetry",
];

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// What each step waits for, by the plan.
    pub dependencies: BTreeMap<String, Vec<String>>,
    /// What happened, as it stands in the log.
    pub moments: Vec<Moment>,
}

/// An event without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// The event's type.
    pub event: String,
    /// The step and its logical attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<(String, u32)>,
    /// What every engine must write alike.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.event)?;
        if let Some((step, attempt)) = &self.about {
            write!(formatter, " {step}#{attempt}")?;
        }
        for (name, value) in &self.details {
            write!(formatter, " {name}={value}")?;
        }
        Ok(())
    }
}

impl Trace {
    /// The trace of a run.
    #[must_use]
    pub fn of(run: &RunHistory) -> Self {
        Self {
            dependencies: dependencies(&run.plan),
            moments: run.events.iter().filter_map(moment).collect(),
        }
    }
}

fn dependencies(plan: &CompiledPlan) -> BTreeMap<String, Vec<String>> {
    let of = |id: &str| -> Vec<String> {
        let links = plan.find(id).map(|index| plan.dependencies(index)).unwrap_or_default();
        links.iter().map(|link| plan.step(link.step).id.to_string()).collect()
    };
    plan.document().steps.iter().map(|step| (step.id.to_string(), of(step.id.as_str()))).collect()
}

fn moment(event: &Event) -> Option<Moment> {
    match &event.body {
        // Which worker died when is the engine's affair: the step is tried again, and that is all.
        Body::StepRetried(retried) if retried.worker_lost => return None,
        // When a checkpoint is taken is the engine's affair too.
        Body::CheckpointCreated(_) => return None,
        _ => {}
    }
    let payload = event.body.to_payload();
    let mut details = BTreeMap::new();
    for (name, value) in &payload {
        if KEPT.contains(&name.as_str()) {
            details.insert(name.clone(), text(value));
        }
    }
    if let Some(Value::Object(error)) = payload.get("error") {
        for name in ["code", "class"] {
            details.extend(error.get(name).map(|value| (name.to_owned(), text(value))));
        }
    }
    // Of a step it is a word of the contract; of a run or a signal it is what a person wrote.
    if matches!(event.body, Body::StepSkipped(_) | Body::StepCancelled(_) | Body::StepRetryRequested(_)) {
        details.extend(payload.get("reason").map(|value| ("reason".to_owned(), text(value))));
    }
    details.retain(|_, value| value != "false");
    let about = event.subject.as_ref().map(|subject| (subject.step.to_string(), subject.attempt));
    Some(Moment { event: event.body.type_name().to_owned(), about, details })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
