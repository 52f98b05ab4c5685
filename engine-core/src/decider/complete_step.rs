//! COMPLETE_STEP: a person ends a step that waits for them.

use super::Run;
use super::signals::{Decided, Refusal};
use crate::error::Code;
use crate::event::Draft;
use crate::event::step::{CancelReason, StepCancelled, StepCompleted, StepError, StepFailed, StepOutput};
use crate::failure::FailureClass;
use crate::id::StepId;
use crate::signal::{ManualCompletion, ManualOutcome, Signal};

impl Run {
    /// COMPLETE-7: whether a completion is one that is in the log already.
    pub(super) fn completed_before(&self, step_id: &StepId, completion: &ManualCompletion) -> bool {
        let Ok(step) = self.step_index(step_id) else { return false };
        let cell = self.cell(step);
        let token = Some(completion.completion_token.as_str());
        let open = cell.is_waiting() && cell.token.as_deref() == token;
        !open && cell.completed_token.as_deref() == token
    }

    /// COMPLETE-5, COMPLETE-6, COMPLETE-8 to COMPLETE-11.
    pub(super) fn complete_step(
        &self,
        signal: &Signal,
        step_id: &StepId,
        completion: &ManualCompletion,
        output: Option<&StepOutput>,
    ) -> Decided {
        let step = self.signalled_step(step_id)?;
        let cell = self.cell(step);
        let token = Some(completion.completion_token.as_str());
        let open = cell.is_waiting() && cell.token.as_deref() == token;
        if !cell.is_waiting() {
            let message = format!("{step_id} is {} and does not wait for a person", cell.status);
            return Err(Refusal::new(Code::StepNotWaiting, message));
        }
        if !open {
            let message = format!("the token is not the one that {step_id} handed out when it began to wait");
            return Err(Refusal::new(Code::TokenMismatch, message));
        }
        let plan_wide = self.plan.document().separation_of_duties;
        if self.plan.step(step).separation_of_duties.unwrap_or(plan_wide) {
            self.refuse_own_trigger(&completion.actor_user_id)?;
            self.refuse_own_trigger(&signal.actor)?;
        }
        let manual = Some(completion.clone());
        let subject = self.subject(step);
        Ok(vec![match &completion.outcome {
            ManualOutcome::Succeeded => Draft::step(
                subject,
                StepCompleted { output: output.cloned().unwrap_or_default(), artifacts: Vec::new(), manual },
            ),
            // An unknown outcome never gets here: the signal's check refuses it.
            ManualOutcome::Failed | ManualOutcome::Other(_) => {
                let notes = completion.notes.clone().unwrap_or_else(|| "failed by a person".to_owned());
                let error = StepError::new(FailureClass::Permanent, "ManualFailure", notes);
                Draft::step(subject, StepFailed { error, tries: cell.tries + 1, losses: cell.losses, manual })
            }
            ManualOutcome::Cancelled => Draft::step(
                subject,
                StepCancelled {
                    reason: CancelReason::Manual,
                    forced: false,
                    signal_id: Some(signal.signal_id.clone()),
                    manual,
                },
            ),
        }])
    }
}
