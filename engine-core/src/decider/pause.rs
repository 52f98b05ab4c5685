//! PAUSE, draining, orphans, RESUME, and pauses that a failure or a review brings about.

use super::Run;
use super::signals::{Decided, Refusal};
use crate::error::Code;
use crate::event::Draft;
use crate::event::audit::{AlertRaised, Severity};
use crate::event::run::{PauseCause, RunDrained, RunPaused, RunResumed};
use crate::event::step::{CancelReason, RetryReason, StepCancelled, StepRetryRequested};
use crate::id::StepId;
use crate::machine::RunStatus;
use crate::plan::OrphanPolicy;
use crate::plan::compiled::StepIndex;
use crate::signal::{PauseMode, Signal};

impl Run {
    /// PAUSE-1, PAUSE-13, PAUSE-14.
    pub(super) fn pause(&self, signal: &Signal, mode: PauseMode) -> Decided {
        if self.state.status == Some(RunStatus::Paused) {
            return Err(Refusal::new(Code::RunAlreadyPaused, "the run is paused already"));
        }
        let immediate = mode == PauseMode::Immediate;
        if immediate && !self.state.settings.capabilities.immediate_pause {
            let message = "this engine cannot give up steps in flight; use a pause that drains";
            return Err(Refusal::new(Code::Unsupported, message));
        }
        let paused = RunPaused {
            pause_number: self.state.pause.number + 1,
            cause: PauseCause::Signal,
            in_flight: self.count_in_flight(),
            immediate,
            caused_by_step: None,
            signal_id: Some(signal.signal_id.clone()),
            reason: signal.reason.clone(),
        };
        Ok(self.pause_events(paused))
    }

    /// RESUME-1, RESUME-2, RESUME-5.
    pub(super) fn resume(&self, signal: &Signal) -> Decided {
        if self.state.status != Some(RunStatus::Paused) {
            return Err(Refusal::new(Code::RunNotPaused, "the run is not paused"));
        }
        Ok(vec![Draft::run(RunResumed {
            pause_number: self.state.pause.number,
            signal_id: Some(signal.signal_id.clone()),
            reason: signal.reason.clone(),
        })])
    }

    /// The pause, and with nothing in flight its end of draining at once (PAUSE-5).
    fn pause_events(&self, paused: RunPaused) -> Vec<Draft> {
        let pause_number = paused.pause_number;
        let immediate = paused.immediate;
        let mut drafts = vec![Draft::run(paused)];
        if immediate {
            drafts.extend(self.index.in_flight.iter().map(|step| self.orphan(*step)));
        }
        if immediate || self.index.in_flight.is_empty() {
            drafts.push(Draft::run(RunDrained { pause_number, timed_out: false, in_flight: Vec::new() }));
        }
        drafts
    }

    /// A failure with `onFailure: pause` (ACTION-6), or a requested review (REVIEW-2), pauses the run.
    pub(super) fn settle_pause(&self) -> Vec<Draft> {
        if self.state.status != Some(RunStatus::Running) {
            return Vec::new();
        }
        let first_held = self.index.held.iter().min_by_key(|step| self.cell(**step).end_seq).copied();
        let review = self.state.review.map(|step| StepIndex::new(step as usize));
        let (cause, step) = match (first_held, review) {
            (Some(step), _) => (PauseCause::StepFailed, step),
            (None, Some(step)) => (PauseCause::HumanReview, step),
            (None, None) => return Vec::new(),
        };
        self.pause_events(RunPaused {
            pause_number: self.state.pause.number + 1,
            cause,
            in_flight: self.count_in_flight(),
            immediate: false,
            caused_by_step: Some(self.plan.step(step).id.clone()),
            signal_id: None,
            reason: None,
        })
    }

    /// The end of draining: nothing is in flight (PAUSE-5), or the pause stops waiting (PAUSE-6, PAUSE-8).
    pub(super) fn settle_drain(&self) -> Vec<Draft> {
        let pause = &self.state.pause;
        if self.state.status != Some(RunStatus::Paused) || pause.drained {
            return Vec::new();
        }
        let pause_number = pause.number;
        if self.index.in_flight.is_empty() {
            return vec![Draft::run(RunDrained { pause_number, timed_out: false, in_flight: Vec::new() })];
        }
        if !pause.timed_out {
            return Vec::new();
        }
        let in_flight: Vec<StepId> =
            self.index.in_flight.iter().map(|step| self.plan.step(*step).id.clone()).collect();
        let mut drafts = vec![Draft::run(AlertRaised {
            code: Code::PauseDrainTimeout.as_str().to_owned(),
            number: pause_number,
            severity: Severity::P2,
            message: format!("pause {pause_number} still had {} in flight", steps(in_flight.len())),
        })];
        if self.state.settings.policies.orphans == OrphanPolicy::Reject {
            drafts.extend(self.index.in_flight.iter().map(|step| self.orphan(*step)));
        }
        drafts.push(Draft::run(RunDrained { pause_number, timed_out: true, in_flight }));
        drafts
    }

    /// Attempts that a pause gave up are done again once the run goes on (PAUSE-10).
    pub(super) fn settle_orphans(&self) -> Vec<Draft> {
        if self.state.status != Some(RunStatus::Running) {
            return Vec::new();
        }
        self.index
            .orphaned
            .iter()
            .map(|step| {
                Draft::step(
                    self.subject_at(*step, self.cell(*step).attempt + 1),
                    StepRetryRequested {
                        reason: RetryReason::Orphaned,
                        agent: None,
                        signal_id: None,
                        caused_by_step: None,
                    },
                )
            })
            .collect()
    }

    fn orphan(&self, step: StepIndex) -> Draft {
        let body =
            StepCancelled { reason: CancelReason::Orphaned, forced: true, signal_id: None, manual: None };
        Draft::step(self.subject(step), body)
    }

    pub(super) fn count_in_flight(&self) -> u32 {
        u32::try_from(self.index.in_flight.len()).unwrap_or(u32::MAX)
    }
}

/// `n` steps, in words.
pub(super) fn steps(count: usize) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}
