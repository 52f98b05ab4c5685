//! What a worker, or an engine on its own, reports about an attempt.

use super::Run;
use super::stimulus::{Report, StepReport};
use crate::error::{Code, Error, Result};
use crate::event::step::{
    CancelReason, HumanReviewRequested, SkipReason, StepCancelled, StepError, StepFailed, StepRetried,
    StepSkipped, StepStarted,
};
use crate::event::{Draft, EventType, Subject};
use crate::failure::{FailureClass, Verdict};
use crate::id::StepId;
use crate::machine::{RunStatus, StepStatus, step};
use crate::plan::compiled::StepIndex;
use crate::plan::{Completion, OnWorkerLost};
use crate::time::Timestamp;

impl Run {
    pub(super) fn report(&self, told: StepReport) -> Result<Vec<Draft>> {
        let step = self.step_index(&told.step)?;
        self.check_current(step, told.attempt)?;
        if !told.released_by_driver {
            self.check_released(step)?;
        }
        let subject = Subject { engine_attempt: told.engine_attempt, ..self.subject(step) };
        let mut drafts = Vec::with_capacity(1);
        let mut status = self.cell(step).status;
        if let (StepStatus::Pending, Some(start)) = (status, told.start) {
            self.check_not_stopping(step)?;
            drafts.push(Draft::step(subject.clone(), start));
            status = StepStatus::Running;
        }
        let legal = |on| step::next(Some(status), on).map(|_| ());
        let definition = self.plan.step(step);
        match told.report {
            Report::Started(started) => {
                legal(EventType::StepStarted)?;
                self.check_not_stopping(step)?;
                drafts.push(Draft::step(subject, started));
            }
            Report::ConditionFalse => {
                legal(EventType::StepSkipped)?;
                self.check_not_stopping(step)?;
                let reason = SkipReason::ConditionFalse;
                drafts.push(Draft::step(
                    subject,
                    StepSkipped { reason, signal_id: None, caused_by_step: None },
                ));
            }
            Report::Waiting(waiting) => {
                legal(EventType::StepWaiting)?;
                self.check_not_waiting(step)?;
                if definition.completion != Completion::Manual {
                    return Err(illegal(
                        &told.step,
                        "its completion is auto, so it cannot wait for a person",
                    ));
                }
                drafts.push(Draft::step(subject, waiting));
            }
            Report::Completed(completed) => {
                legal(EventType::StepCompleted)?;
                if definition.completion == Completion::Manual {
                    let reason = "its completion is manual: it waits, and COMPLETE_STEP ends it";
                    return Err(illegal(&told.step, reason));
                }
                drafts.push(Draft::step(subject, completed));
            }
            Report::Failed { error, started_at, ended_at } => {
                self.check_not_waiting(step)?;
                let verdict = definition.retry.verdict(&error, self.cell(step).tries + 1);
                let tried = Tried { error, started_at, ended_at, verdict };
                self.failed(step, subject, status, tried, &mut drafts);
            }
            Report::EngineFailed { error } => {
                self.check_not_waiting(step)?;
                let tried = Tried { error, started_at: None, ended_at: None, verdict: Verdict::Final };
                self.failed(step, subject, status, tried, &mut drafts);
            }
            Report::WorkerLost { message } => {
                legal(EventType::StepRetried)?;
                self.check_not_waiting(step)?;
                drafts.push(self.worker_lost(step, subject, message));
            }
            Report::Cancelled => {
                legal(EventType::StepCancelled)?;
                self.check_not_waiting(step)?;
                drafts.push(self.gave_up(step, subject));
            }
            Report::ReviewRequested { reason, context } => {
                if status != StepStatus::Running {
                    return Err(illegal(&told.step, "only a running attempt can ask for review"));
                }
                let number = self.cell(step).reviews + 1;
                drafts.push(Draft::step(subject, HumanReviewRequested { number, reason, context }));
            }
        }
        Ok(drafts)
    }

    /// Refuses reports about a run or an attempt that has ended (STEP-2, PAUSE-9).
    fn check_current(&self, step: StepIndex, attempt: u32) -> Result<()> {
        let id = &self.plan.step(step).id;
        let cell = self.cell(step);
        match self.state.status {
            None => return Err(Error::new(Code::NotFound, "there is no such run")),
            Some(status) if status.is_terminal() => {
                return Err(Error::new(Code::RunTerminal, format!("the run has ended: {status}")));
            }
            Some(RunStatus::Pending | RunStatus::Approved) => {
                return Err(Error::new(
                    Code::RunNotStarted,
                    format!("{id} was not released: the run has not started"),
                ));
            }
            Some(_) => {}
        }
        if attempt == 0 || attempt > cell.attempt {
            return Err(illegal(id, &format!("it has no attempt {attempt}, its latest is {}", cell.attempt)));
        }
        if attempt == cell.orphaned {
            return Err(Error::new(
                Code::OrphanedTask,
                format!("attempt {attempt} of {id} was given up when a pause stopped waiting for it"),
            ));
        }
        if attempt < cell.attempt || cell.status.is_terminal() {
            return Err(Error::new(Code::StepTerminal, format!("attempt {attempt} of {id} has ended")));
        }
        Ok(())
    }

    /// PAUSE-3: only what was released may start, and so have any outcome.
    fn check_released(&self, step: StepIndex) -> Result<()> {
        if self.cell(step).released {
            Ok(())
        } else {
            let reason = "its attempt was not released: PENDING to RUNNING must wait";
            Err(illegal(&self.plan.step(step).id, reason))
        }
    }

    fn check_not_stopping(&self, step: StepIndex) -> Result<()> {
        if self.stops_in_flight() {
            return Err(Error::new(
                Code::RunEnding,
                format!("{} must not start: the run stops what is in flight", self.plan.step(step).id),
            ));
        }
        Ok(())
    }

    fn check_not_waiting(&self, step: StepIndex) -> Result<()> {
        if self.cell(step).is_waiting() {
            Err(illegal(&self.plan.step(step).id, "it waits for a person, and COMPLETE_STEP ends it"))
        } else {
            Ok(())
        }
    }

    /// A try failed: another follows, or the failure is final, or the attempt was asked to stop anyway.
    fn failed(
        &self,
        step: StepIndex,
        subject: Subject,
        status: StepStatus,
        tried: Tried,
        drafts: &mut Vec<Draft>,
    ) {
        let Tried { error, started_at, ended_at, verdict } = tried;
        let cell = self.cell(step);
        // What is asked to stop is not tried again.
        let stops = self.stops_in_flight() && matches!(verdict, Verdict::TryAgain { .. });
        if error.class == FailureClass::Cancelled || stops {
            drafts.push(self.gave_up(step, subject));
            return;
        }
        if status == StepStatus::Pending {
            drafts.push(self.started_by_the_engine(step, &subject));
        }
        drafts.push(match verdict {
            Verdict::TryAgain { delay_ms } => {
                let retried = StepRetried { error, started_at, ended_at, delay_ms, worker_lost: false };
                Draft::step(self.numbered(step, subject), retried)
            }
            Verdict::Final => {
                let failed = StepFailed { error, tries: cell.tries + 1, losses: cell.losses, manual: None };
                Draft::step(subject, failed)
            }
        });
    }

    /// A lost worker is no failed try, up to a point (WORKER-9, WORKER-12, WORKER-13).
    fn worker_lost(&self, step: StepIndex, subject: Subject, message: String) -> Draft {
        let cell = self.cell(step);
        let definition = self.plan.step(step);
        let losses = cell.losses + 1;
        let code = Code::WorkerLost.as_str();
        if self.stops_in_flight() {
            return Draft { subject: Some(subject), ..self.cancelled(step, true) };
        }
        if definition.on_worker_lost == OnWorkerLost::Fail || losses > definition.max_losses {
            let error = StepError::new(FailureClass::Permanent, code, message);
            return Draft::step(subject, StepFailed { error, tries: cell.tries, losses, manual: None });
        }
        let error = StepError::new(FailureClass::Transient, code, message);
        let retried = StepRetried { error, started_at: None, ended_at: None, delay_ms: 0, worker_lost: true };
        // Whoever tells of the loss counts its own delivery: the lost try is the one before.
        let lost = Subject { engine_attempt: None, ..subject };
        Draft::step(self.numbered(step, lost), retried)
    }

    /// The handler stopped: because it was asked to, or on its own, which counts as a failure (FAIL-8).
    fn gave_up(&self, step: StepIndex, subject: Subject) -> Draft {
        if self.stops_in_flight() {
            Draft { subject: Some(subject), ..self.cancelled(step, false) }
        } else {
            let reason = CancelReason::Handler;
            Draft::step(subject, StepCancelled { reason, forced: false, signal_id: None, manual: None })
        }
    }

    /// An engine may report a failure that no worker ever saw: the attempt started and failed at once (WORKER-17).
    fn started_by_the_engine(&self, step: StepIndex, subject: &Subject) -> Draft {
        let started = StepStarted {
            handler: self.plan.step(step).handler.clone(),
            agent: self.agent_of(step),
            worker: "engine".to_owned(),
            claim_until: None,
            idempotency_token: None,
        };
        Draft::step(subject.clone(), started)
    }

    /// The number of the try: the platform's where it counts on, else one more than before (ATTEMPT-6). A platform
    /// that begins again at 1 must not make two tries look like one (ATTEMPT-11).
    fn numbered(&self, step: StepIndex, subject: Subject) -> Subject {
        let next = self.cell(step).engine_attempt + 1;
        Subject { engine_attempt: Some(subject.engine_attempt.unwrap_or(next).max(next)), ..subject }
    }

    /// The executor of the latest attempt.
    pub(super) fn agent_of(&self, step: StepIndex) -> Option<crate::id::AgentName> {
        let chain = self.plan.agent_chain(step);
        chain.get(self.cell(step).agent as usize).map(|agent| self.plan.agent(*agent).clone())
    }
}

/// A try that failed.
struct Tried {
    error: StepError,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    verdict: Verdict,
}

fn illegal(step: &StepId, reason: &str) -> Error {
    Error::new(Code::IllegalTransition, format!("{step}: {reason}"))
}
