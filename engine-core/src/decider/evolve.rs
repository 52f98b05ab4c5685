//! What each event changes. The log is right: an end that is stored stands. Total and idempotent: a duplicate, an event that is illegal in the current state, or
//! one of an unknown type changes nothing but the watermark (CORE-6, CORE-7, CORE-8). Duplicates are recognised by what
//! the state says, not by their place in the log (CORE-9), because an engine may fold siblings in another order.

use std::sync::Arc;

use super::state::{
    Cancelling, Cell, Compensating, CompensationState, Delay, Disposition, Pause, Settings, Success,
};
use super::{Run, start};
use crate::event::run::RunQueued;
use crate::event::step::{CancelReason, RetryReason, SkipReason, StepRetryRequested};
use crate::event::{Body, Event, EventType, Kind, Subject};
use crate::machine::{RunStatus, StepStatus, run, step};
use crate::plan::compiled::StepIndex;
use crate::signal::{ManualCompletion, SignalType};
use crate::time::Timestamp;

impl Run {
    /// Applies one event and works out what it releases (CORE-10).
    pub fn evolve(&mut self, event: &Event) {
        let fresh = self.state.note_place(event.run_seq);
        if fresh && event.body.kind() == Kind::Decision {
            self.state.decisions += 1;
        }
        match &event.body {
            Body::SignalAccepted(accepted) => drop(self.state.signals.insert(accepted.signal_id.clone())),
            Body::SignalRejected(rejected) => drop(self.state.signals.insert(rejected.signal_id.clone())),
            _ => {}
        }
        // RUN-2: nothing changes a run that has ended.
        if self.state.status.is_some_and(RunStatus::is_terminal) {
            return;
        }
        self.apply(event);
        self.fill_slots(event.emitted_at);
    }

    fn apply(&mut self, event: &Event) {
        let now = event.emitted_at;
        match &event.body {
            Body::RunQueued(queued) => self.queued(event, queued),
            Body::RunApproved(_) => self.enter(EventType::RunApproved),
            Body::RunStarted(_) => {
                if self.enters(EventType::RunStarted) {
                    self.state.clock.running_since = Some(now);
                    self.begin_delays(now);
                }
            }
            Body::RunPaused(paused) => {
                if paused.pause_number == self.state.pause.number + 1 && self.enters(EventType::RunPaused) {
                    self.stop_clock(now);
                    self.state.pause =
                        Pause { number: paused.pause_number, since: now, drained: false, timed_out: false };
                    self.hold_failures(now);
                }
            }
            Body::RunDrained(drained) => {
                if drained.pause_number == self.state.pause.number && self.enters(EventType::RunDrained) {
                    self.state.pause.drained = true;
                }
            }
            Body::RunResumed(resumed) => {
                if resumed.pause_number == self.state.pause.number && self.enters(EventType::RunResumed) {
                    self.state.clock.running_since = Some(now);
                    self.state.review = None;
                    self.abort_held(now);
                }
            }
            Body::RunCompleted(_) => self.enter(EventType::RunCompleted),
            Body::RunFailed(_) => self.enter(EventType::RunFailed),
            Body::RunCancelled(_) => self.enter(EventType::RunCancelled),
            Body::SignalAccepted(accepted) => {
                if accepted.signal_type == SignalType::Cancel {
                    let cancelling = Cancelling {
                        signal: accepted.signal_id.clone(),
                        actor: accepted.actor.clone(),
                        reason: accepted.reason.clone(),
                    };
                    self.begin_cancelling(cancelling, now);
                }
            }
            Body::TimerFired(fired) => {
                if let Ok(timer) = fired.timer_id.parse() {
                    self.timer_fired(&timer, now);
                }
            }
            Body::SignalRejected(_)
            | Body::CheckpointCreated(_)
            | Body::AlertRaised(_)
            | Body::Unknown(_) => {}
            body => {
                if let Some(subject) = &event.subject
                    && let Some(step) = self.plan.find(subject.step.as_str())
                {
                    self.apply_to_step(event, step, subject, body);
                }
            }
        }
    }

    fn apply_to_step(&mut self, event: &Event, step: StepIndex, subject: &Subject, body: &Body) {
        let now = event.emitted_at;
        let latest = subject.attempt == self.cell(step).attempt;
        let moves = |run: &Self, on| latest && step::next(Some(run.cell(step).status), on).is_ok();
        // A stored end has taken the attempt's slot, so it stands: also one that was decided before its writer saw
        // the attempt start.
        let ends = |run: &Self| latest && !run.cell(step).status.is_terminal();
        match body {
            Body::StepStarted(_) if moves(self, EventType::StepStarted) => {
                self.change(step, now, |cell| {
                    cell.status = StepStatus::Running;
                    // CORE-39: a driver that folded siblings in another order released it; the log is right.
                    cell.released = true;
                });
            }
            Body::StepRetried(retried) if moves(self, EventType::StepRetried) => {
                let engine_attempt = subject.engine_attempt.unwrap_or(self.cell(step).engine_attempt + 1);
                if engine_attempt > self.cell(step).engine_attempt {
                    self.change(step, now, |cell| {
                        cell.engine_attempt = engine_attempt;
                        cell.not_before = Some(now.plus_millis(retried.delay_ms));
                        if retried.worker_lost {
                            cell.losses += 1;
                        } else {
                            cell.tries += 1;
                        }
                    });
                }
            }
            Body::StepWaiting(waiting)
                if moves(self, EventType::StepWaiting) && self.cell(step).token.is_none() =>
            {
                let token = waiting.completion_token.as_str().into();
                self.change(step, now, |cell| cell.token = Some(token));
            }
            Body::StepCompleted(completed) if ends(self) => {
                self.change(step, now, |cell| {
                    cell.end(StepStatus::Success, event.run_seq, Disposition::Settled);
                    cell.success = Some(Success { attempt: cell.attempt, seq: event.run_seq });
                    cell.note_completion(completed.manual.as_ref());
                });
                self.fallback_succeeded(step, now);
            }
            Body::StepFailed(failed) if ends(self) => {
                self.state.failures += 1;
                self.change(step, now, |cell| {
                    cell.end(StepStatus::Failed, event.run_seq, Disposition::Settled);
                    cell.code = Some(failed.error.code.as_str().into());
                    cell.note_completion(failed.manual.as_ref());
                });
                self.resolve_failure(step, now);
            }
            Body::StepCancelled(cancelled) if ends(self) => {
                self.change(step, now, |cell| {
                    cell.end(StepStatus::Cancelled, event.run_seq, Disposition::Settled);
                    cell.code = Some(cancelled.reason.as_str().into());
                    cell.note_completion(cancelled.manual.as_ref());
                });
                match cancelled.reason {
                    CancelReason::Orphaned => self.change(step, now, |cell| {
                        cell.disposition = Disposition::Orphaned;
                        cell.orphaned = cell.attempt;
                    }),
                    // While a run ends nothing follows from a cancellation; otherwise it is a failure.
                    _ if self.state.ending.is_some() => {}
                    _ => self.resolve_failure(step, now),
                }
            }
            Body::StepSkipped(skipped) => self.skipped(event, step, subject, &skipped.reason),
            Body::StepRetryRequested(requested) => self.retry_requested(step, subject, requested, now),
            Body::HumanReviewRequested(review) => {
                let wanted = self.state.settings.policies.pause_on_human_review
                    && self.state.ending.is_none()
                    && self.state.is_live();
                if latest && review.number > self.cell(step).reviews {
                    self.change(step, now, |cell| cell.reviews = review.number);
                    if wanted {
                        self.state.review = Some(number(step));
                    }
                }
            }
            Body::CompensationStarted(_)
                if self.state.ending.is_some()
                    && self.state.compensating.is_none()
                    && self.cell(step).compensation == CompensationState::None =>
            {
                self.state.compensating = Some(Compensating {
                    step: number(step),
                    attempt: subject.attempt,
                    tries: 0,
                    not_before: None,
                });
                self.state.compensation_begun = true;
            }
            Body::CompensationCompleted(_) if self.is_compensating(step) => {
                self.compensated(step, CompensationState::Done, now);
            }
            Body::CompensationFailed(failed) => {
                let tries = subject.engine_attempt.unwrap_or(1);
                if self.is_compensating(step)
                    && let Some(compensating) = &mut self.state.compensating
                    && tries > compensating.tries
                {
                    compensating.tries = tries;
                    compensating.not_before = failed.delay_ms.map(|delay| now.plus_millis(delay));
                    if !failed.will_retry {
                        self.compensated(step, CompensationState::Failed, now);
                    }
                }
            }
            _ => {}
        }
    }

    fn queued(&mut self, event: &Event, queued: &RunQueued) {
        if self.state.status.is_some() || start::check_queued(&self.plan, queued).is_err() {
            return;
        }
        self.state.status = run::next(None, EventType::RunQueued).ok();
        self.state.run_id = Some(event.run_id.clone());
        self.state.settings = Settings {
            limits: queued.limits.clone(),
            policies: queued.policies.clone(),
            capabilities: queued.capabilities,
            triggered_by: queued.context.triggered_by.as_deref().map(Arc::from),
            plan_hash: queued.plan_ref.sha256.as_str().into(),
            decider_version: queued.decider_version,
        };
        if let Some(origin) = &queued.origin {
            self.take_over(&origin.reused);
        }
        self.index = super::Index::rebuild(&self.plan, &mut self.state);
    }

    fn skipped(&mut self, event: &Event, step: StepIndex, subject: &Subject, reason: &SkipReason) {
        let cell = self.cell(step);
        // ATTEMPT-4: a failed attempt stays; the skip is an attempt of its own.
        let after_failure = cell.has_failed() && subject.attempt == cell.attempt + 1;
        let in_place = !cell.status.is_terminal() && subject.attempt == cell.attempt;
        if !after_failure && !in_place {
            return;
        }
        let disposition = Disposition::after_skip(reason);
        self.change(step, event.emitted_at, |cell| {
            if after_failure {
                cell.next_attempt();
            }
            cell.end(StepStatus::Skipped, event.run_seq, disposition);
        });
        self.fallback_failed(step, event.emitted_at);
    }

    fn retry_requested(
        &mut self,
        step: StepIndex,
        subject: &Subject,
        requested: &StepRetryRequested,
        now: Timestamp,
    ) {
        let cell = self.cell(step);
        if !cell.status.is_terminal() || subject.attempt != cell.attempt + 1 {
            return;
        }
        let chain = self.plan.agent_chain(step);
        let agent = requested
            .agent
            .as_ref()
            .and_then(|agent| chain.iter().position(|position| self.plan.agent(*position) == agent));
        let by_person = matches!(requested.reason, RetryReason::Signal | RetryReason::Cascade);
        self.change(step, now, |cell| {
            cell.next_attempt();
            if by_person {
                cell.retries = 0;
                cell.agent = 0;
            } else if requested.reason == RetryReason::Retry {
                cell.retries += 1;
            }
            if let Some(agent) = agent {
                cell.agent = u32::try_from(agent).unwrap_or(0);
            }
        });
        self.fallback_retried(step, now);
    }

    /// Changes one step's cell and brings everything up to date that depends on it.
    pub(super) fn change(&mut self, step: StepIndex, now: Timestamp, change: impl FnOnce(&mut Cell)) {
        change(&mut self.state.steps[step.position()]);
        self.index.refresh(&self.plan, &mut self.state, step, Some(now));
    }

    fn enters(&mut self, event: EventType) -> bool {
        match run::next(self.state.status, event) {
            Ok(status) => {
                self.state.status = Some(status);
                true
            }
            Err(_) => false,
        }
    }

    fn enter(&mut self, event: EventType) {
        self.enters(event);
    }

    fn stop_clock(&mut self, now: Timestamp) {
        if let Some(since) = self.state.clock.running_since.take() {
            self.state.clock.used_ms += now.millis_since(since);
        }
    }

    /// Steps without dependencies are satisfied from the start, so their delays begin here (GRAPH-13).
    fn begin_delays(&mut self, now: Timestamp) {
        for step in self.plan.indices() {
            if self.plan.step(step).schedule.is_some() {
                self.change(step, now, |_| {});
            }
        }
    }
}

impl Cell {
    fn end(&mut self, status: StepStatus, seq: u64, disposition: Disposition) {
        self.status = status;
        self.end_seq = seq;
        self.disposition = disposition;
    }

    /// Remembers by which token a person ended the attempt.
    fn note_completion(&mut self, manual: Option<&ManualCompletion>) {
        if let Some(manual) = manual {
            self.completed_token = Some(manual.completion_token.as_str().into());
        }
    }

    /// Makes the cell that of a new attempt. What later decisions need of earlier attempts stays, also that the
    /// step's own delay is over (GRAPH-16).
    fn next_attempt(&mut self) {
        *self = Self {
            attempt: self.attempt + 1,
            agent: self.agent,
            retries: self.retries,
            success: self.success,
            compensation: self.compensation,
            delays: self.delays,
            completed_token: self.completed_token.take(),
            orphaned: self.orphaned,
            delay: match self.delay {
                Delay::Over => Delay::Over,
                Delay::None | Delay::Due(_) => Delay::None,
            },
            ..Self::default()
        };
    }
}

pub(super) fn number(step: StepIndex) -> u32 {
    u32::try_from(step.position()).unwrap_or(u32::MAX)
}
