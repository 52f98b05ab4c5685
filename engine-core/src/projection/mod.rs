//! Snapshots: what people and programs see of a run, folded from its log and nothing else.
//!
//! - [`snapshot`]: what a snapshot contains;
//! - [`progress`]: counts, percent and estimate;
//! - [`resync`]: gaps in what was delivered, and how a reader gets back in step.

pub mod progress;
pub mod resync;
pub mod snapshot;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use progress::Progress;
pub use resync::{Advance, Freshness, MachineryAlert, Projector, Resync, ResyncReply, ResyncRequest};
pub use snapshot::{AttemptSnapshot, ErrorSnapshot, ReviewSnapshot, RunSnapshot, StepSnapshot};

use crate::decider::{AttemptView, Run, State};
use crate::error::{Code, Error, Result};
use crate::event::run::{CompensationSummary, PlanRef, RootCause, RunContext, RunOutcome, StepCounts};
use crate::event::step::ArtifactRef;
use crate::event::{Body, Event, Subject};
use crate::id::RunId;
use crate::machine::StepStatus;
use crate::plan::CompiledPlan;
use crate::time::Timestamp;

/// A run as seen so far. Each [`Projection::snapshot`] is a value of its own; nothing changes one afterwards.
#[derive(Clone, Debug)]
pub struct Projection {
    run: Run,
    details: Details,
}

/// A projection as it is stored: a reader continues from it instead of from the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionRecord {
    state: State,
    details: Details,
}

impl ProjectionRecord {
    /// The last event it contains.
    #[must_use]
    pub fn last_event_seq(&self) -> u64 {
        self.state.watermark()
    }
}

/// What a snapshot tells besides what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    run_id: Option<RunId>,
    plan_ref: Option<PlanRef>,
    context: Option<RunContext>,
    engine_run_ref: Option<String>,
    engine_type: Option<String>,
    queued_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    outcome: Option<RunOutcome>,
    error: Option<ErrorSnapshot>,
    root_cause: Option<RootCause>,
    compensation: CompensationSummary,
    artifacts: Vec<ArtifactRef>,
    reviews: Vec<ReviewSnapshot>,
    /// Per step, every attempt that anything was heard of.
    attempts: Vec<Vec<AttemptSnapshot>>,
}

impl Projection {
    /// The projection of an empty log.
    #[must_use]
    pub fn new(plan: Arc<CompiledPlan>) -> Self {
        let details = Details { attempts: vec![Vec::new(); plan.len()], ..Details::default() };
        Self { run: Run::new(plan), details }
    }

    /// Continues from a stored projection.
    ///
    /// # Errors
    /// `PLAN_HASH_MISMATCH` when it is of another plan.
    pub fn restore(plan: Arc<CompiledPlan>, record: ProjectionRecord) -> Result<Self> {
        if record.details.attempts.len() != plan.len() {
            return Err(Error::new(Code::PlanHashMismatch, "the stored snapshot is of another plan"));
        }
        Ok(Self { run: Run::restore(plan, record.state)?, details: record.details })
    }

    /// The projection, to be stored.
    #[must_use]
    pub fn record(&self) -> ProjectionRecord {
        ProjectionRecord { state: self.run.state().clone(), details: self.details.clone() }
    }

    /// The run behind it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The last event it contains.
    #[must_use]
    pub fn last_event_seq(&self) -> u64 {
        self.run.state().watermark()
    }

    /// Applies one event. Tells when a step started before what it depends on: a delayed write, no corruption.
    pub fn apply(&mut self, event: &Event) -> Option<MachineryAlert> {
        // The details follow the fold: what it ignores changes nothing here either.
        let before = event.subject.as_ref().and_then(|subject| self.run.attempt(subject.step.as_str()));
        let ended = self.run.state().status().is_some_and(|status| status.is_terminal());
        self.run.evolve(event);
        if ended {
            return None;
        }
        self.note_run(event);
        let subject = event.subject.as_ref()?;
        let after = self.run.attempt(subject.step.as_str())?;
        self.note_step(event, subject, before.as_ref(), &after);
        let inverted = matches!(event.body, Body::StepStarted(_))
            && before
                .is_some_and(|before| before.status == StepStatus::Pending && before.substatus.is_none());
        inverted.then(|| MachineryAlert::causal_violation(&subject.step))
    }

    fn note_run(&mut self, event: &Event) {
        let details = &mut self.details;
        match &event.body {
            Body::RunQueued(queued) if details.queued_at.is_none() => {
                details.run_id = Some(event.run_id.clone());
                details.queued_at = Some(event.happened_at());
                details.plan_ref = Some(queued.plan_ref.clone());
                details.context = Some(queued.context.clone());
            }
            Body::RunStarted(started) if details.started_at.is_none() => {
                details.started_at = Some(started.started_at);
                details.engine_run_ref = Some(started.engine_run_ref.clone());
                details.engine_type = Some(started.engine_type.clone());
            }
            Body::RunCompleted(completed) => {
                details.outcome = Some(completed.outcome.clone());
                details
                    .artifacts
                    .extend(completed.output.iter().filter_map(|output| output.artifact.clone()));
                details.end_at(event.happened_at());
            }
            Body::RunFailed(failed) => {
                let error = ErrorSnapshot {
                    code: failed.code.clone(),
                    message: failed.message.clone(),
                    retryable: false,
                };
                details.error = Some(error);
                details.root_cause = failed.root_cause.clone();
                details.compensation = failed.compensation.clone();
                details.end_at(event.happened_at());
            }
            Body::RunCancelled(cancelled) => {
                details.compensation = cancelled.compensation.clone();
                details.end_at(event.happened_at());
            }
            _ => {}
        }
    }

    fn note_step(
        &mut self,
        event: &Event,
        subject: &Subject,
        before: Option<&AttemptView>,
        after: &AttemptView,
    ) {
        let Some(step) = self.run.plan().find(subject.step.as_str()) else { return };
        let at = event.happened_at();
        if let Body::HumanReviewRequested(review) = &event.body {
            let review = ReviewSnapshot {
                step_id: subject.step.clone(),
                logical_attempt_id: subject.attempt,
                number: review.number,
                reason: review.reason.clone(),
                requested_at: at,
            };
            if !self.details.reviews.iter().any(|known| known.is_same(&review)) {
                self.details.reviews.push(review);
            }
            return;
        }
        let attempts = &mut self.details.attempts[step.position()];
        let changed =
            before.is_none_or(|before| (before.attempt, before.status) != (after.attempt, after.status));
        if changed {
            match attempts.last_mut() {
                Some(latest) if latest.logical_attempt_id == after.attempt => latest.status = after.status,
                _ => attempts.push(AttemptSnapshot::new(after.attempt, after.status)),
            }
        }
        let Some(latest) = attempts.last_mut().filter(|latest| latest.logical_attempt_id == subject.attempt)
        else {
            return;
        };
        if let Some(engine_attempt) = subject.engine_attempt {
            latest.engine_attempt_id = latest.engine_attempt_id.max(Some(engine_attempt));
        }
        (latest.retries, latest.losses) = (after.retries, after.losses);
        latest.note(&event.body, at, changed);
        if let (true, Body::StepCompleted(completed)) = (changed, &event.body) {
            let output = completed.output.artifact.iter();
            self.details.artifacts.extend(completed.artifacts.iter().chain(output).cloned());
        }
    }

    /// The snapshot at the time `now`.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> RunSnapshot {
        let view = self.run.view();
        let details = &self.details;
        let counts = self.run.state().counts();
        RunSnapshot {
            run_id: details.run_id.clone(),
            status: view.status,
            substatus: view.substatus,
            message: view.message,
            last_event_seq: self.last_event_seq(),
            plan_ref: details.plan_ref.clone(),
            context: details.context.clone(),
            engine_run_ref: details.engine_run_ref.clone(),
            engine_type: details.engine_type.clone(),
            queued_at: details.queued_at,
            started_at: details.started_at,
            completed_at: details.completed_at,
            total_duration_ms: details
                .started_at
                .zip(details.completed_at)
                .map(|(started, completed)| completed.millis_since(started)),
            outcome: details.outcome.clone(),
            error: details.error.clone(),
            root_cause: details.root_cause.clone(),
            compensation: details.compensation.clone(),
            progress: self.progress(counts, now),
            artifacts: details.artifacts.clone(),
            reviews: details.reviews.clone(),
            steps: self.run.attempts().zip(&details.attempts).map(step_snapshot).collect(),
        }
    }

    fn progress(&self, counts: StepCounts, now: Timestamp) -> Progress {
        let started = self.details.started_at;
        let until = self.details.completed_at.unwrap_or(now);
        let elapsed_ms = started.map_or(0, |started| until.millis_since(started));
        let ended = self.run.state().status().is_some_and(|status| status.is_terminal());
        Progress::new(counts, elapsed_ms, self.run.active_ms(until), ended)
    }
}

impl Details {
    /// The end is never before the start, whatever the clocks say (STEP-11).
    fn end_at(&mut self, at: Timestamp) {
        let earliest = self.started_at.unwrap_or(at);
        self.completed_at.get_or_insert(at.max(earliest));
    }
}

fn step_snapshot((view, attempts): (AttemptView, &Vec<AttemptSnapshot>)) -> StepSnapshot {
    let latest = attempts.last().filter(|latest| latest.logical_attempt_id == view.attempt);
    StepSnapshot {
        step_id: view.step,
        status: view.status,
        substatus: view.substatus,
        logical_attempt_id: view.attempt,
        engine_attempt_id: latest.and_then(|latest| latest.engine_attempt_id),
        agent: view.agent,
        started_at: latest.and_then(|latest| latest.started_at),
        completed_at: latest.and_then(|latest| latest.completed_at),
        end_seq: view.end_seq,
        artifacts: latest.map(|latest| latest.artifacts.clone()).unwrap_or_default(),
        error: latest.and_then(|latest| latest.error.clone()),
        skip_reason: latest.and_then(|latest| latest.skip_reason.clone()),
        blocked_by: view.blocked_by,
        resolved_by: view.resolved_by,
        held: view.held,
        reused: view.reused,
        attempts: attempts.clone(),
    }
}
