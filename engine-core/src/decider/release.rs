//! Releases: which attempts may run. `evolve` computes them after each event and remembers them; they are never
//! worked out anew from a later state and never taken back, so re-issuing one is harmless (CORE-11, CORE-12, CORE-13).

use super::Run;
use super::actions::Dispatched;
use crate::machine::RunStatus;
use crate::time::Timestamp;

impl Run {
    /// Whether anything new may be released now (PAUSE-2, ACTION-8, CANCEL-1).
    ///
    /// A failure that waits for a person holds releases from its StepFailed on (ACTION-6): the pause that follows would come
    /// too late for what was released in between.
    fn releases_go_on(&self) -> bool {
        self.state.status == Some(RunStatus::Running)
            && self.state.ending.is_none()
            && self.state.review.is_none()
            && self.index.held.is_empty()
    }

    /// Fills free slots with ready steps by (priority, order, step id) (SLOT-5).
    pub(super) fn fill_slots(&mut self, now: Timestamp) {
        if !self.releases_go_on() {
            return;
        }
        while let Some(step) = self.index.next_release(&self.plan, &self.state) {
            self.change(step, now, |cell| cell.released = true);
            self.fresh.push(step);
        }
    }

    /// Attempts that were released since this was last asked, in the order of release. A driver that has acted on
    /// [`Run::actions`] once needs only these afterwards.
    pub fn take_released(&mut self) -> Vec<Dispatched> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh
            .into_iter()
            .filter(|step| self.cell(*step).is_in_flight() && !self.stops_in_flight())
            .map(|step| self.dispatched(step))
            .collect()
    }
}
