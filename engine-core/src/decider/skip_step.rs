//! SKIP_STEP: the run goes on without a step that has not begun or has failed.

use super::Run;
use super::signals::{Decided, Refusal};
use crate::error::Code;
use crate::event::Draft;
use crate::event::step::{SkipReason, StepSkipped};
use crate::id::StepId;
use crate::machine::StepStatus;
use crate::signal::Signal;

impl Run {
    /// SKIPSTEP-1, SKIPSTEP-2, SKIPSTEP-3, SKIPSTEP-4.
    pub(super) fn skip_step(&self, signal: &Signal, step_id: &StepId) -> Decided {
        let step = self.signalled_step(step_id)?;
        let cell = self.cell(step);
        let attempt = match cell.status {
            StepStatus::Pending if !cell.released => cell.attempt,
            StepStatus::Failed | StepStatus::Cancelled => cell.attempt + 1,
            StepStatus::Pending | StepStatus::Running => {
                let message = format!("{step_id} is in flight; cancel the run or wait for the step to end");
                return Err(Refusal::new(Code::StepInFlight, message));
            }
            StepStatus::Success | StepStatus::Skipped => {
                let message = format!("{step_id} has ended: {}", cell.status);
                return Err(Refusal::new(Code::StepTerminal, message));
            }
        };
        Ok(vec![Draft::step(
            self.subject_at(step, attempt),
            StepSkipped {
                reason: SkipReason::Operator,
                signal_id: Some(signal.signal_id.clone()),
                caused_by_step: None,
            },
        )])
    }
}
