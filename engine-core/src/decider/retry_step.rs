//! RETRY_STEP: an ended step is done again, and with cascade everything that depends on it.

use super::Run;
use super::signals::{Decided, Refusal};
use crate::error::Code;
use crate::event::Draft;
use crate::event::step::{RetryReason, StepRetryRequested};
use crate::id::StepId;
use crate::plan::compiled::StepIndex;
use crate::signal::Signal;

impl Run {
    /// RETRYSTEP-1, RETRYSTEP-4, RETRYSTEP-5.
    pub(super) fn retry_step(&self, signal: &Signal, step_id: &StepId, cascade: bool) -> Decided {
        let step = self.signalled_step(step_id)?;
        let status = self.cell(step).status;
        if !status.is_terminal() {
            return Err(Refusal::new(
                Code::StepNotTerminal,
                format!("{step_id} is {status}; only an ended step can be retried"),
            ));
        }
        let mut batch = vec![step];
        if cascade {
            for dependent in self.plan.transitive_dependents(step) {
                self.refuse_busy(dependent)?;
                if self.cell(dependent).status.is_terminal() {
                    batch.push(dependent);
                }
            }
        }
        for served in batch.clone() {
            if let Some(fallback) = self.plan.fallback(served) {
                self.refuse_busy(fallback)?;
                if self.cell(fallback).status.is_terminal() {
                    batch.push(fallback);
                }
            }
        }
        let request = |retried: StepIndex| {
            let own = retried == step;
            Draft::step(
                self.subject_at(retried, self.cell(retried).attempt + 1),
                StepRetryRequested {
                    reason: if own { RetryReason::Signal } else { RetryReason::Cascade },
                    agent: None,
                    signal_id: Some(signal.signal_id.clone()),
                    caused_by_step: (!own).then(|| step_id.clone()),
                },
            )
        };
        Ok(batch.into_iter().map(request).collect())
    }

    /// A dependent that works on the old outcome must end first, also one that waits for a person (RETRYSTEP-3,
    /// FALLBACK-7).
    fn refuse_busy(&self, step: StepIndex) -> Result<(), Refusal> {
        let cell = self.cell(step);
        if cell.released && !cell.status.is_terminal() {
            return Err(Refusal::new(
                Code::DependentInFlight,
                format!("{} works on this step's outcome and has not ended", self.plan.step(step).id),
            ));
        }
        Ok(())
    }

    pub(super) fn signalled_step(&self, step_id: &StepId) -> Result<StepIndex, Refusal> {
        self.step_index(step_id).map_err(|error| Refusal::new(error.code(), error.message()))
    }
}
