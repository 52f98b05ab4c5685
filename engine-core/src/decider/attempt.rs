//! What a worker, or an engine on its own, reports about an attempt.

use super::Run;
use super::state::Disposition;
use super::stimulus::Report;
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
    pub(super) fn report(
        &self,
        step_id: &StepId,
        attempt: u32,
        engine_attempt: Option<u32>,
        report: Report,
    ) -> Result<Vec<Draft>> {
        let step = self.step_index(step_id)?;
        self.check_current(step, attempt)?;
        let status = self.cell(step).status;
        let mut subject = self.subject(step);
        subject.engine_attempt = engine_attempt;
        let legal = |on| step::next(Some(status), on).map(|_| ());
        match report {
            Report::Started(started) => {
                legal(EventType::StepStarted)?;
                self.check_may_start(step)?;
                Ok(vec![Draft::step(subject, started)])
            }
            Report::ConditionFalse => {
                legal(EventType::StepSkipped)?;
                self.check_may_start(step)?;
                let reason = SkipReason::ConditionFalse;
                Ok(vec![Draft::step(subject, StepSkipped { reason, signal_id: None, caused_by_step: None })])
            }
            Report::Waiting(waiting) => {
                legal(EventType::StepWaiting)?;
                self.check_not_waiting(step)?;
                if self.plan.step(step).completion != Completion::Manual {
                    return Err(illegal(step_id, "its completion is auto, so it cannot wait for a person"));
                }
                Ok(vec![Draft::step(subject, waiting)])
            }
            Report::Completed(completed) => {
                legal(EventType::StepCompleted)?;
                if self.plan.step(step).completion == Completion::Manual {
                    return Err(illegal(
                        step_id,
                        "its completion is manual: it waits, and COMPLETE_STEP ends it",
                    ));
                }
                Ok(vec![Draft::step(subject, completed)])
            }
            Report::Failed { error, started_at, ended_at } => {
                self.check_not_waiting(step)?;
                self.check_released(step)?;
                Ok(self.failed(step, subject, error, started_at, ended_at))
            }
            Report::WorkerLost { message } => {
                legal(EventType::StepRetried)?;
                self.check_not_waiting(step)?;
                Ok(self.worker_lost(step, subject, message))
            }
            Report::Cancelled => {
                legal(EventType::StepCancelled)?;
                self.check_not_waiting(step)?;
                self.check_released(step)?;
                Ok(vec![self.gave_up(step, subject)])
            }
            Report::ReviewRequested { reason, context } => {
                if status != StepStatus::Running {
                    return Err(illegal(step_id, "only a running attempt can ask for review"));
                }
                let number = self.cell(step).reviews + 1;
                Ok(vec![Draft::step(subject, HumanReviewRequested { number, reason, context })])
            }
        }
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
        let latest = attempt == cell.attempt;
        if latest && cell.disposition == Disposition::Orphaned {
            return Err(Error::new(
                Code::OrphanedTask,
                format!("attempt {attempt} of {id} was given up when a pause stopped waiting for it"),
            ));
        }
        if !latest || cell.status.is_terminal() {
            return Err(Error::new(Code::StepTerminal, format!("attempt {attempt} of {id} has ended")));
        }
        Ok(())
    }

    fn check_released(&self, step: StepIndex) -> Result<()> {
        if self.cell(step).released {
            Ok(())
        } else {
            Err(illegal(
                &self.plan.step(step).id,
                "its attempt was not released: PENDING to RUNNING must wait",
            ))
        }
    }

    /// PAUSE-3: only what was released may start; and nothing starts that would be stopped at once.
    fn check_may_start(&self, step: StepIndex) -> Result<()> {
        self.check_released(step)?;
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

    fn failed(
        &self,
        step: StepIndex,
        subject: Subject,
        error: StepError,
        started_at: Option<Timestamp>,
        ended_at: Option<Timestamp>,
    ) -> Vec<Draft> {
        if error.class == FailureClass::Cancelled {
            return vec![self.gave_up(step, subject)];
        }
        let cell = self.cell(step);
        let tries = cell.tries + 1;
        match self.plan.step(step).retry.verdict(&error, tries) {
            // What is asked to stop is not tried again.
            Verdict::TryAgain { .. } if self.stops_in_flight() => {
                vec![Draft { subject: Some(subject), ..self.cancelled(step, false) }]
            }
            Verdict::TryAgain { delay_ms } => {
                let mut drafts = self.started_by_the_engine(step, &subject);
                let retried = StepRetried { error, started_at, ended_at, delay_ms, worker_lost: false };
                drafts.push(Draft::step(self.numbered(step, subject), retried));
                drafts
            }
            Verdict::Final => {
                let mut drafts = self.started_by_the_engine(step, &subject);
                let failed = StepFailed { error, tries, losses: cell.losses, manual: None };
                drafts.push(Draft::step(subject, failed));
                drafts
            }
        }
    }

    /// A lost worker is no failed try, up to a point (WORKER-9, WORKER-12, WORKER-13).
    fn worker_lost(&self, step: StepIndex, subject: Subject, message: String) -> Vec<Draft> {
        let cell = self.cell(step);
        let definition = self.plan.step(step);
        let losses = cell.losses + 1;
        let code = Code::WorkerLost.as_str();
        if self.stops_in_flight() {
            return vec![Draft { subject: Some(subject), ..self.cancelled(step, true) }];
        }
        let too_many = definition.on_worker_lost == OnWorkerLost::Fail || losses > definition.max_losses;
        vec![if too_many {
            let error = StepError::new(FailureClass::Permanent, code, message);
            Draft::step(subject, StepFailed { error, tries: cell.tries, losses, manual: None })
        } else {
            let error = StepError::new(FailureClass::Transient, code, message);
            let retried =
                StepRetried { error, started_at: None, ended_at: None, delay_ms: 0, worker_lost: true };
            Draft::step(self.numbered(step, subject), retried)
        }]
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
    fn started_by_the_engine(&self, step: StepIndex, subject: &Subject) -> Vec<Draft> {
        if self.cell(step).status != StepStatus::Pending {
            return Vec::new();
        }
        let agent = self.agent_of(step);
        let started = StepStarted {
            handler: self.plan.step(step).handler.clone(),
            agent,
            worker: "engine".to_owned(),
            claim_until: None,
            idempotency_token: None,
        };
        vec![Draft::step(subject.clone(), started)]
    }

    /// The number of the try: the platform's, else one more than those before (ATTEMPT-6).
    fn numbered(&self, step: StepIndex, mut subject: Subject) -> Subject {
        let cell = self.cell(step);
        subject.engine_attempt.get_or_insert(cell.engine_attempt.max(cell.tries + cell.losses) + 1);
        subject
    }

    /// The executor of the latest attempt.
    pub(super) fn agent_of(&self, step: StepIndex) -> Option<crate::id::AgentName> {
        let chain = self.plan.agent_chain(step);
        chain.get(self.cell(step).agent as usize).map(|agent| self.plan.agent(*agent).clone())
    }
}

fn illegal(step: &StepId, reason: &str) -> Error {
    Error::new(Code::IllegalTransition, format!("{step}: {reason}"))
}
