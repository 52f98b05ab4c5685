//! CANCEL, and how attempts in flight are stopped: asked first, cut off when the grace period is over. The run
//! timeout and `failFast: cancel` stop them the same way.

use super::Run;
use super::signals::{Decided, Refusal};
use super::state::{Cancelling, Ending};
use crate::error::Code;
use crate::event::Draft;
use crate::event::step::{CancelReason, StepCancelled};
use crate::machine::StepStatus;
use crate::plan::compiled::StepIndex;
use crate::signal::Signal;
use crate::time::Timestamp;

impl Run {
    /// Accepted until compensation starts (CANCEL-11). Concurrent cancels are one (CANCEL-12).
    pub(super) fn cancel(&self, signal: &Signal) -> Decided {
        if self.state.compensation_begun {
            return Err(Refusal::new(Code::RunEnding, "compensation has started and runs to its end"));
        }
        if matches!(self.state.ending, Some(Ending::Cancelling(_))) {
            return Ok(Vec::new());
        }
        // CANCEL-2: what nobody works on is cancelled at once; what is in flight is asked to stop.
        let idle = self.plan.indices().filter(|step| {
            let cell = self.cell(*step);
            (cell.status == StepStatus::Pending && !cell.released) || cell.is_waiting()
        });
        Ok(idle
            .map(|step| {
                Draft::step(
                    self.subject(step),
                    StepCancelled {
                        reason: CancelReason::RunCancelled,
                        forced: false,
                        signal_id: Some(signal.signal_id.clone()),
                        manual: None,
                    },
                )
            })
            .collect())
    }

    pub(super) fn begin_cancelling(&mut self, cancelling: Cancelling, now: Timestamp) {
        let already = matches!(self.state.ending, Some(Ending::Cancelling(_)));
        if already || self.state.compensation_begun || self.state.status.is_none() {
            return;
        }
        self.state.ending = Some(Ending::Cancelling(cancelling));
        self.ask_to_stop(now);
    }

    /// The run took too long (RUN-32). A failure that ends it already stays the reason.
    pub(super) fn time_out(&mut self, now: Timestamp) {
        if self.state.compensation_begun {
            return;
        }
        if self.state.ending.is_none() {
            self.state.ending = Some(Ending::TimedOut);
        }
        self.ask_to_stop(now);
    }

    /// From now on attempts in flight are asked to stop; the first time counts for the grace period.
    pub(super) fn ask_to_stop(&mut self, now: Timestamp) {
        self.state.cancellation.since.get_or_insert(now);
    }

    /// Whether attempts in flight are asked to stop.
    pub(super) fn stops_in_flight(&self) -> bool {
        self.state.cancellation.since.is_some()
    }

    pub(super) fn cancel_reason(&self) -> CancelReason {
        match self.state.ending {
            Some(Ending::Cancelling(_)) => CancelReason::RunCancelled,
            Some(Ending::TimedOut) => CancelReason::RunTimeout,
            Some(Ending::Failing(_)) | None => CancelReason::RunFailing,
        }
    }

    /// While a run ends: attempts that wait for a person are withdrawn (ACTION-12), and those that did not stop in
    /// time are cut off (CANCEL-4).
    pub(super) fn settle_cancellations(&self) -> Vec<Draft> {
        let cut_off: &mut dyn Iterator<Item = StepIndex> = if self.state.cancellation.grace_over {
            &mut self.index.in_flight.iter().copied()
        } else {
            &mut std::iter::empty()
        };
        let forced = cut_off.map(|step| self.cancelled(step, true));
        let withdrawn = self.index.waiting.iter().map(|step| self.cancelled(*step, false));
        withdrawn.chain(forced).collect()
    }

    pub(super) fn cancelled(&self, step: StepIndex, forced: bool) -> Draft {
        let signal_id = match &self.state.ending {
            Some(Ending::Cancelling(cancelling)) => Some(cancelling.signal.clone()),
            _ => None,
        };
        let body = StepCancelled { reason: self.cancel_reason(), forced, signal_id, manual: None };
        Draft::step(self.subject(step), body)
    }
}
