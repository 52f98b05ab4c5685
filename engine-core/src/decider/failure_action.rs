//! What follows a final failure: the configured action, or the end of the run.

use std::sync::Arc;

use super::Run;
use super::evolve::number;
use super::state::{Disposition, Ending, Failing};
use crate::error::Code;
use crate::event::Draft;
use crate::event::step::{RetryReason, SkipReason, StepRetryRequested, StepSkipped};
use crate::machine::{RunStatus, StepStatus};
use crate::plan::compiled::StepIndex;
use crate::plan::{FailFast, FailureAction};
use crate::time::Timestamp;

impl Run {
    /// Finds what follows the failure of `step`'s latest attempt, at the moment it is folded: releases after it
    /// depend on it (ACTION-7).
    pub(super) fn resolve_failure(&mut self, step: StepIndex, now: Timestamp) {
        let action = self.action_after_failure(step);
        let disposition = match action {
            // ACTION-8: while a run ends, no action creates an attempt and no fallback starts.
            Some(action) if self.state.ending.is_none() => action,
            Some(_) => Disposition::Aborted,
            None => self.give_up(step, now),
        };
        self.change(step, now, |cell| cell.disposition = disposition);
        self.fallback_failed(step, now);
    }

    /// The step's action, if it still has one that can be done.
    fn action_after_failure(&self, step: StepIndex) -> Option<Disposition> {
        if self.too_many_failures() {
            return None;
        }
        let cell = self.cell(step);
        match self.plan.failure_action(step) {
            // FALLBACK-4: a fallback has no action of its own; its failure is the failure of the step it serves.
            _ if self.plan.serves(step).is_some() => None,
            FailureAction::Abort => None,
            FailureAction::Skip => Some(Disposition::Skip),
            FailureAction::Pause => Some(Disposition::Held),
            FailureAction::Retry => {
                (cell.retries < self.plan.max_retries(step)).then_some(Disposition::Retry)
            }
            FailureAction::Reassign => {
                let next = cell.agent as usize + 1;
                (next < self.plan.agent_chain(step).len()).then_some(Disposition::Reassign)
            }
            FailureAction::Fallback => {
                let fallback = self.plan.fallback(step)?;
                let available = self.cell(fallback).status == StepStatus::Pending;
                available.then_some(Disposition::AwaitFallback)
            }
        }
    }

    /// No action is left: the run goes on without the step (PARTIAL-1), waits for a person (RUN-5), or ends.
    fn give_up(&mut self, step: StepIndex, now: Timestamp) -> Disposition {
        if self.plan.serves(step).is_some() {
            return Disposition::GivenUp;
        }
        if self.state.ending.is_some() {
            self.note_earlier_cause(step);
            return Disposition::Aborted;
        }
        let hard = self.too_many_failures();
        if self.state.settings.policies.continue_on_partial_failure && !hard {
            return Disposition::GivenUp;
        }
        // RUN-4: there is no way from PAUSED to FAILED; somebody may still rescue the run.
        if self.state.status == Some(RunStatus::Paused) {
            return Disposition::Held;
        }
        let code = if hard { Code::MaxFailures } else { Code::StepFailed };
        self.begin_failing(step, code, now);
        Disposition::Aborted
    }

    /// ACTION-16.
    fn too_many_failures(&self) -> bool {
        self.state.settings.limits.max_failures.is_some_and(|most| self.state.failures > most)
    }

    fn begin_failing(&mut self, step: StepIndex, code: Code, now: Timestamp) {
        self.state.ending = Some(Ending::Failing(self.failing(step, code)));
        let settings = &self.state.settings;
        if settings.policies.fail_fast == FailFast::Cancel && settings.capabilities.fail_fast_cancel {
            self.ask_to_stop(now);
        }
    }

    fn failing(&self, step: StepIndex, code: Code) -> Failing {
        let cell = self.cell(step);
        Failing {
            code,
            step: number(step),
            attempt: cell.attempt,
            seq: cell.end_seq,
            step_code: cell.code.clone().unwrap_or_else(|| Arc::from(Code::StepFailed.as_str())),
        }
    }

    /// RUN-26: the root cause is the first in the log, also where siblings are folded in another order.
    fn note_earlier_cause(&mut self, step: StepIndex) {
        if let Some(Ending::Failing(failing)) = &self.state.ending
            && failing.code == Code::StepFailed
            && self.cell(step).end_seq < failing.seq
        {
            self.state.ending = Some(Ending::Failing(self.failing(step, Code::StepFailed)));
        }
    }

    /// A pause that was decided before its driver saw an abort: the failures wait for a person, as if they had come
    /// after it (RUN-34).
    pub(super) fn hold_failures(&mut self, now: Timestamp) {
        if self.state.compensation_begun || !matches!(self.state.ending, Some(Ending::Failing(_))) {
            return;
        }
        self.state.ending = None;
        self.state.cancellation = Default::default();
        for step in self.plan.indices() {
            if self.cell(step).has_failed() && self.cell(step).disposition == Disposition::Aborted {
                self.change(step, now, |cell| cell.disposition = Disposition::Held);
            }
        }
    }

    /// RESUME with failures that nobody rescued: they count as aborted, the first one in the log first (RUN-7).
    pub(super) fn abort_held(&mut self, now: Timestamp) {
        let mut held: Vec<StepIndex> = self.index.held.iter().copied().collect();
        held.sort_by_key(|step| self.cell(*step).end_seq);
        for step in held {
            let disposition = self.give_up(step, now);
            self.change(step, now, |cell| cell.disposition = disposition);
        }
    }

    /// A fallback succeeded: the step it serves counts as satisfied (FALLBACK-2).
    pub(super) fn fallback_succeeded(&mut self, fallback: StepIndex, now: Timestamp) {
        if let Some(served) = self.served_and_awaiting(fallback) {
            self.change(served, now, |cell| cell.disposition = Disposition::Resolved);
        }
    }

    /// A fallback ended otherwise: its step failed for good, and is the root cause (FALLBACK-4, FALLBACK-5).
    pub(super) fn fallback_failed(&mut self, fallback: StepIndex, now: Timestamp) {
        if let Some(served) = self.served_and_awaiting(fallback) {
            let disposition = self.give_up(served, now);
            self.change(served, now, |cell| cell.disposition = disposition);
        }
    }

    /// A fallback is done again: the step it serves waits for it again.
    pub(super) fn fallback_retried(&mut self, fallback: StepIndex, now: Timestamp) {
        if let Some(served) = self.plan.serves(fallback)
            && self.cell(served).has_failed()
            && self.cell(served).disposition != Disposition::Orphaned
        {
            self.change(served, now, |cell| cell.disposition = Disposition::AwaitFallback);
        }
    }

    fn served_and_awaiting(&self, fallback: StepIndex) -> Option<StepIndex> {
        let served = self.plan.serves(fallback)?;
        let awaits =
            self.cell(served).has_failed() && self.cell(served).disposition == Disposition::AwaitFallback;
        // An orphaned fallback is done again, so its step goes on waiting.
        let final_end = self.cell(fallback).disposition != Disposition::Orphaned;
        (awaits && final_end).then_some(served)
    }

    /// The events of actions that are due: new attempts (ACTION-4, ACTION-5), and skips (ACTION-3).
    pub(super) fn settle_failures(&self) -> Vec<Draft> {
        self.index.actionable.iter().map(|step| self.failure_event(*step)).collect()
    }

    fn failure_event(&self, step: StepIndex) -> Draft {
        let cell = self.cell(step);
        let subject = self.subject_at(step, cell.attempt + 1);
        let retry = |reason, agent| {
            Draft::step(
                subject.clone(),
                StepRetryRequested { reason, agent, signal_id: None, caused_by_step: None },
            )
        };
        match cell.disposition {
            Disposition::Reassign => {
                let next = self.plan.agent_chain(step).get(cell.agent as usize + 1);
                retry(RetryReason::Reassign, next.map(|agent| self.plan.agent(*agent).clone()))
            }
            Disposition::Retry => retry(RetryReason::Retry, None),
            _ => Draft::step(
                subject,
                StepSkipped { reason: SkipReason::FailurePolicy, signal_id: None, caused_by_step: None },
            ),
        }
    }

    /// Skips that follow from others: steps whose need failed, and fallbacks that nobody needs.
    pub(super) fn settle_skips(&self) -> Vec<Draft> {
        let skip = |step: StepIndex, reason, caused_by_step| {
            Draft::step(self.subject(step), StepSkipped { reason, signal_id: None, caused_by_step })
        };
        let mut drafts = Vec::new();
        // GRAPH-6: without continueOnPartialFailure a blocked step stays PENDING.
        if self.state.settings.policies.continue_on_partial_failure {
            for step in &self.index.doomed {
                drafts.push(skip(*step, SkipReason::DependencyFailed, self.lost_dependency(*step)));
            }
        }
        // FALLBACK-6. A fallback depends on nothing, so it is never in both sets.
        for step in &self.index.unneeded {
            drafts.push(skip(*step, SkipReason::FallbackNotNeeded, None));
        }
        drafts
    }

    fn lost_dependency(&self, step: StepIndex) -> Option<crate::id::StepId> {
        self.plan
            .dependencies(step)
            .iter()
            .find(|link| link.required && self.index.standing(link.step) == super::state::Standing::Lost)
            .map(|link| self.plan.step(link.step).id.clone())
    }
}
