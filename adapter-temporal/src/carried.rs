//! What travels through Temporal's history: ids, places and statuses, never payloads (DATA-5).

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::decider::{AttemptRef, State};
use engine_core::event::step::StepError;
use engine_core::event::{Body, Draft, Event, Seal, Subject};
use engine_core::plan::{Dispatch, Outline};
use engine_core::signal::ManualCompletion;
use engine_core::{AgentName, Error, PlanVersion, Result, RunId, StepId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the interpreter is started with, and what it hands to its successor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunInput {
    pub(crate) tenant_id: TenantId,
    pub(crate) run_id: RunId,
    /// What was chosen where the run was started. It is the same for the run's whole life, whoever drives it.
    #[serde(default)]
    pub(crate) chosen: Chosen,
    /// The run so far, when this is not its first execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) whole: Option<Whole>,
}

/// What was chosen where the run was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Chosen {
    /// Task queues of agents that have one of their own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) queues: BTreeMap<AgentName, String>,
    /// After how long without a sign of life an attempt's worker counts as lost, in milliseconds.
    pub(crate) heartbeat_ms: u64,
    /// How steps reach a worker when neither they nor the plan say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dispatch: Option<Dispatch>,
    /// The history is cut off at the latest when it has so many events; without it, when Temporal suggests it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) longest_history: Option<u32>,
}

/// A run as its driver knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Whole {
    pub(crate) outline: Outline,
    pub(crate) state: State,
}

/// An attempt, or the undoing of one, for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Errand {
    pub(crate) tenant_id: TenantId,
    pub(crate) run_id: RunId,
    pub(crate) step_id: StepId,
    pub(crate) attempt: u32,
    /// Which try at undoing this is; absent: the attempt itself is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undo: Option<u32>,
}

/// What became of an errand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    pub(crate) standing: Standing,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Carried>,
}

/// Where an attempt stands after an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Standing {
    /// The events tell.
    Told,
    /// The log does not tell of its release: the driver must look at the log anew.
    NotReleased,
    /// The run has ended, or is about to; the log tells how.
    Over,
    /// Signals wait, and they go first.
    SignalsFirst,
}

/// What the driver wants decided and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ask {
    /// The run; `None` only before it is filled in.
    pub(crate) of: Option<(TenantId, RunId)>,
    /// Everything up to this place is known to the driver.
    pub(crate) after: u64,
    /// The driver wants the whole run.
    pub(crate) whole: bool,
    /// Attempts that Temporal has given up by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) given_up: Vec<GivenUp>,
    /// Somebody asked Temporal itself to cancel the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled: Option<String>,
    /// A timer was due at this time by Temporal's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
}

/// An attempt that Temporal has given up by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GivenUp {
    pub(crate) step_id: StepId,
    pub(crate) attempt: u32,
    /// It was the try to undo it.
    #[serde(default)]
    pub(crate) undo: bool,
    /// Why; `None` when it was cancelled.
    pub(crate) error: Option<StepError>,
}

impl GivenUp {
    pub(crate) fn new(attempt: &AttemptRef, undo: bool, error: Option<StepError>) -> Self {
        Self { step_id: attempt.step.clone(), attempt: attempt.attempt, undo, error }
    }
}

/// What the log says after a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Told {
    /// Everything after the place that the driver knew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Carried>,
    /// The whole run, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) whole: Option<Whole>,
    /// The run does not start before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_at: Option<Timestamp>,
    /// The run cannot be driven and has ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) refused: bool,
}

/// An event without its payload: what the decider reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Carried {
    #[serde(rename = "type")]
    event_type: String,
    seq: u64,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepId>,
    #[serde(default, skip_serializing_if = "is_none_or_one")]
    attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    body: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_or_one(attempt: &Option<u32>) -> bool {
    attempt.is_none_or(|attempt| attempt == 1)
}

impl Carried {
    /// Takes the payload out of an event.
    pub(crate) fn of(event: &Event) -> Self {
        let subject = event.subject.as_ref();
        Self {
            event_type: event.body.type_name().to_owned(),
            seq: event.run_seq,
            at: event.emitted_at,
            step: subject.map(|subject| subject.step.clone()),
            attempt: subject.map(|subject| subject.attempt),
            engine_attempt: subject.and_then(|subject| subject.engine_attempt),
            body: bared(event.body.clone()).to_payload(),
        }
    }

    /// The event as the decider folds it.
    ///
    /// # Errors
    /// When another version wrote what this one cannot read.
    pub(crate) fn into_event(self, run_id: &RunId, plan_version: &PlanVersion) -> Result<Event> {
        let attempt = self.attempt.unwrap_or(1);
        let subject = self.step.map(|step| Subject { step, attempt, engine_attempt: self.engine_attempt });
        let body = Body::from_payload(&self.event_type, self.body)?;
        let nobody: Arc<str> = Arc::from("");
        Ok(Draft { subject, occurred_at: None, body }.seal(Seal {
            event_id: uuid::Uuid::nil(),
            run_id,
            run_seq: self.seq,
            emitted_at: self.at,
            emitted_by: &nobody,
            correlation_id: &nobody,
            plan_version,
        }))
    }
}

/// The body without anything that only people or steps read.
fn bared(mut body: Body) -> Body {
    let bare_error = |error: &mut StepError| error.message = String::new();
    let bare_manual = |manual: &mut Option<ManualCompletion>| {
        if let Some(manual) = manual {
            manual.notes = None;
            manual.evidence_refs = Vec::new();
        }
    };
    match &mut body {
        Body::StepStarted(started) => started.idempotency_token = None,
        Body::StepRetried(retried) => {
            bare_error(&mut retried.error);
            (retried.started_at, retried.ended_at) = (None, None);
        }
        Body::StepWaiting(waiting) => (waiting.output, waiting.prompt) = (None, None),
        Body::StepCompleted(completed) => {
            completed.output = Default::default();
            completed.artifacts = Vec::new();
            bare_manual(&mut completed.manual);
        }
        Body::StepFailed(failed) => {
            bare_error(&mut failed.error);
            bare_manual(&mut failed.manual);
        }
        Body::StepCancelled(cancelled) => bare_manual(&mut cancelled.manual),
        Body::HumanReviewRequested(review) => {
            review.reason = String::new();
            review.context = BTreeMap::new();
        }
        Body::SignalAccepted(accepted) => accepted.details = Map::new(),
        Body::RunCompleted(completed) => completed.output = None,
        Body::CompensationCompleted(completed) => completed.notes = BTreeMap::new(),
        Body::CompensationFailed(failed) => bare_error(&mut failed.error),
        Body::Unknown(unknown) => unknown.payload = Map::new(),
        _ => {}
    }
    body
}

/// What kept a payload from being read, as an error of ours.
pub(crate) fn unreadable(what: &str, cause: impl std::fmt::Display) -> Error {
    Error::new(engine_core::Code::Internal, format!("{what} cannot be read: {cause}"))
        .with_hint("a newer version may have written it; let that drive the run")
}

#[cfg(test)]
mod tests {
    use engine_core::event::step::{StepCompleted, StepOutput};

    use super::*;

    #[test]
    fn an_event_comes_back_without_its_output() {
        let output = StepOutput { value: Some("a secret letter".into()), ..StepOutput::default() };
        let completed = StepCompleted { output, ..StepCompleted::default() };
        let (run_id, version) = (RunId::new("r").unwrap(), PlanVersion::new("1").unwrap());
        let somebody: Arc<str> = Arc::from("somebody");
        let event = Draft::step(Subject::new(StepId::new("a").unwrap(), 2), completed).seal(Seal {
            event_id: uuid::Uuid::nil(),
            run_id: &run_id,
            run_seq: 7,
            emitted_at: Timestamp::from_millis(1),
            emitted_by: &somebody,
            correlation_id: &somebody,
            plan_version: &version,
        });
        let text = serde_json::to_string(&Carried::of(&event)).unwrap();
        assert!(!text.contains("letter"), "{text}");
        let carried: Carried = serde_json::from_str(&text).unwrap();
        let back = carried.into_event(&run_id, &version).unwrap();
        assert_eq!((back.run_seq, back.emitted_at, &back.subject), (7, event.emitted_at, &event.subject));
        assert_eq!(back.body, Body::from(StepCompleted::default()));
    }
}
