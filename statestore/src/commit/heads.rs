//! Where runs stand, remembered from one transaction to the next. Each database knows its own way to find out whether
//! what is remembered is still true.

use std::collections::HashMap;

use engine_core::RunId;

use super::group::Writes;
use crate::append::Head;

/// All that is remembered is forgotten when there are more.
const MOST_RUNS: usize = 20_000;

/// Where runs stand.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: HashMap<RunId, Head>,
}

impl Heads {
    pub(crate) fn get(&self, run_id: &RunId) -> Option<&Head> {
        self.known.get(run_id)
    }

    pub(crate) fn keep(&mut self, head: Head) {
        if self.known.len() >= MOST_RUNS {
            self.known.clear();
        }
        if !head.ended {
            self.known.insert(head.run_id.clone(), head);
        }
    }

    /// Moves on to where runs stand once `writes` are committed.
    pub(crate) fn advance(&mut self, writes: &Writes<'_>) {
        for (run_id, row) in writes.runs.iter().zip(&writes.heads) {
            if row.ended {
                self.known.remove(run_id);
            } else if let Some(head) = self.known.get_mut(run_id) {
                (head.last_seq, head.decisions) = (row.last_seq, row.decisions);
            }
        }
    }

    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }
}
