//! The end of a run: everything done, failed, or cancelled.

use super::Run;
use super::pause::steps;
use super::state::{Disposition, Ending};
use crate::error::Code;
use crate::event::Draft;
use crate::event::run::{FailedStep, RootCause, RunCancelled, RunCompleted, RunFailed, RunOutcome};
use crate::machine::{RunStatus, StepStatus};
use crate::plan::compiled::StepIndex;

impl Run {
    /// Everything is done or skipped (RUN-10). A paused run completes too, once it is drained (RUN-8).
    pub(super) fn settle_completion(&self) -> Option<Draft> {
        let may_complete = match self.state.status {
            Some(RunStatus::Running) => true,
            Some(RunStatus::Paused) => self.state.pause.drained,
            _ => false,
        };
        // RUN-9: a review that nobody has acknowledged is something left to do.
        let complete = may_complete
            && self.index.all_finished()
            && self.state.ending.is_none()
            && self.state.review.is_none();
        complete.then(|| {
            Draft::run(RunCompleted { outcome: self.outcome(), output: None, counts: self.state.counts() })
        })
    }

    /// PARTIAL-3.
    fn outcome(&self) -> RunOutcome {
        let spoils = |step: StepIndex| {
            let cell = self.cell(step);
            match cell.status {
                StepStatus::Failed | StepStatus::Cancelled => cell.disposition != Disposition::Resolved,
                StepStatus::Skipped => {
                    matches!(cell.disposition, Disposition::DependencyFailed | Disposition::SkippedByPolicy)
                }
                StepStatus::Pending | StepStatus::Running | StepStatus::Success => false,
            }
        };
        if self.plan.indices().any(spoils) { RunOutcome::Partial } else { RunOutcome::Success }
    }

    /// What is left to do while a run ends: stop attempts, undo steps (ACTION-14), then the end itself (CANCEL-7).
    pub(super) fn settle_ending(&self, ending: &Ending) -> Vec<Draft> {
        let cancellations = self.settle_cancellations();
        if !cancellations.is_empty() {
            return cancellations;
        }
        if !self.index.in_flight.is_empty() || self.state.compensating.is_some() {
            return Vec::new();
        }
        if let Some(compensation) = self.settle_compensation() {
            return vec![compensation];
        }
        vec![match ending {
            Ending::Cancelling(cancelling) => Draft::run(RunCancelled {
                signal_id: Some(cancelling.signal.clone()),
                actor: Some(cancelling.actor.clone()),
                reason: cancelling.reason.clone(),
                counts: self.state.counts(),
                compensation: self.compensation_summary(),
            }),
            Ending::TimedOut => {
                let limit = self.state.settings.limits.run_timeout_ms.unwrap_or_default();
                self.failed_run(Code::RunTimeout, format!("the run took longer than {limit} ms"), None)
            }
            Ending::Failing(failing) => {
                let step = StepIndex::new(failing.step as usize);
                let root_cause = RootCause {
                    step_id: self.plan.step(step).id.clone(),
                    logical_attempt_id: failing.attempt,
                    run_seq: failing.seq,
                    code: failing.step_code.to_string(),
                };
                let mut message = format!("step {} failed: {}", root_cause.step_id, root_cause.code);
                if failing.code == Code::MaxFailures {
                    let failures = steps(self.state.failures as usize);
                    message = format!("{failures} failed, which is more than the run allows; {message}");
                }
                self.failed_run(failing.code, message, Some(root_cause))
            }
        }]
    }

    fn failed_run(&self, code: Code, message: String, root_cause: Option<RootCause>) -> Draft {
        let mut failed: Vec<FailedStep> = self
            .plan
            .indices()
            .filter(|step| self.cell(*step).status == StepStatus::Failed)
            .map(|step| FailedStep {
                step_id: self.plan.step(step).id.clone(),
                logical_attempt_id: self.cell(step).attempt,
                run_seq: self.cell(step).end_seq,
            })
            .collect();
        failed.sort_by_key(|step| step.run_seq);
        Draft::run(RunFailed {
            code: code.as_str().to_owned(),
            message,
            root_cause,
            failed_steps: failed,
            counts: self.state.counts(),
            compensation: self.compensation_summary(),
        })
    }
}
