//! Compensation: undoing what succeeded, in reverse order of completion, one at a time, whatever fails.

use std::collections::BTreeMap;

use super::Run;
use super::state::{CompensationState, Ending};
use crate::error::{Code, Error, Result};
use crate::event::Draft;
use crate::event::compensation::{CompensationCompleted, CompensationFailed, CompensationStarted};
use crate::event::run::CompensationSummary;
use crate::event::step::StepError;
use crate::failure::{Verdict, compensation_retry};
use crate::id::StepId;
use crate::plan::compiled::StepIndex;
use crate::time::Timestamp;

impl Run {
    /// Whether this end of the run is one that undoes steps (COMP-1, COMP-2).
    fn compensates(&self) -> bool {
        match self.state.ending {
            Some(Ending::Failing(_) | Ending::TimedOut) => true,
            Some(Ending::Cancelling(_)) => self.state.settings.policies.compensate_on_cancel,
            None => false,
        }
    }

    /// The next compensation: the latest success that has not been undone (COMP-3, COMP-4, COMP-5).
    pub(super) fn settle_compensation(&self) -> Option<Draft> {
        if !self.compensates() || self.state.compensating.is_some() {
            return None;
        }
        let (_, step) = *self.index.compensable.last()?;
        let compensation = self.plan.step(step).compensation.as_ref()?;
        let success = self.cell(step).success?;
        let body = CompensationStarted {
            handler: compensation.handler.clone(),
            idempotency_key: self.compensation_key(step),
        };
        Some(Draft::step(self.subject_at(step, success.attempt), body))
    }

    /// The key that stays the same over all tries (COMP-11).
    pub(super) fn compensation_key(&self, step: StepIndex) -> String {
        let run = self.state.run_id.as_ref().map_or("", |run| run.as_str());
        format!("{run}:{}:compensate", self.plan.step(step).id)
    }

    pub(super) fn compensation_outcome(
        &self,
        step_id: &StepId,
        outcome: Result<BTreeMap<String, String>, StepError>,
    ) -> Result<Vec<Draft>> {
        let step = self.step_index(step_id)?;
        let running = self.state.compensating.filter(|_| self.is_compensating(step));
        let Some(compensating) = running else {
            return Err(Error::new(
                Code::IllegalTransition,
                format!("{step_id} is not being compensated now"),
            ));
        };
        let subject = self.subject_at(step, compensating.attempt);
        Ok(vec![match outcome {
            Ok(notes) => Draft::step(subject, CompensationCompleted { notes }),
            Err(error) => {
                let tries = compensating.tries + 1;
                let (will_retry, delay_ms) = match compensation_retry().verdict(&error, tries) {
                    Verdict::TryAgain { delay_ms } => (true, Some(delay_ms)),
                    Verdict::Final => (false, None),
                };
                Draft::step(
                    subject.with_engine_attempt(tries),
                    CompensationFailed { error, will_retry, delay_ms },
                )
            }
        }])
    }

    pub(super) fn is_compensating(&self, step: StepIndex) -> bool {
        self.state.compensating.is_some_and(|compensating| compensating.step as usize == step.position())
    }

    pub(super) fn compensated(&mut self, step: StepIndex, outcome: CompensationState, now: Timestamp) {
        self.state.compensating = None;
        self.change(step, now, |cell| cell.compensation = outcome);
    }

    /// COMP-14, COMP-15.
    pub(super) fn compensation_summary(&self) -> CompensationSummary {
        let mut summary = CompensationSummary::default();
        if !self.compensates() {
            return summary;
        }
        for step in self.plan.indices() {
            let cell = self.cell(step);
            let definition = self.plan.step(step);
            let list = match cell.compensation {
                CompensationState::Done => &mut summary.compensated,
                CompensationState::Failed => &mut summary.failed,
                CompensationState::None => {
                    let stays = cell.success.is_some()
                        && definition.compensation.is_none()
                        && definition.has_side_effects();
                    if !stays {
                        continue;
                    }
                    &mut summary.non_compensable
                }
            };
            list.push(definition.id.clone());
        }
        summary
    }
}
