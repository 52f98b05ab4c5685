//! What follows from the state alone.

use super::Run;
use crate::event::Draft;
use crate::machine::RunStatus;

impl Run {
    /// The next events that follow from the state alone (CORE-15). Append them, fold what the store returns, and ask again
    /// until there are none.
    #[must_use]
    pub fn settle(&self) -> Vec<Draft> {
        match (self.state.status, &self.state.ending) {
            (None | Some(RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled), _) => Vec::new(),
            (Some(_), Some(ending)) => self.settle_ending(ending),
            (Some(RunStatus::Pending | RunStatus::Approved), None) => self.settle_approval(),
            (Some(RunStatus::Running | RunStatus::Paused), None) => self.settle_live(),
        }
    }

    fn settle_live(&self) -> Vec<Draft> {
        let rules: [fn(&Self) -> Vec<Draft>; 5] = [
            Self::settle_failures,
            Self::settle_skips,
            Self::settle_orphans,
            Self::settle_pause,
            Self::settle_drain,
        ];
        let first = rules.iter().map(|rule| rule(self)).find(|drafts| !drafts.is_empty());
        first.unwrap_or_else(|| self.settle_completion().into_iter().collect())
    }
}
