//! What the writer remembers of short runs: every name and slot that is taken. While a run's last place in the log is
//! still the one that was remembered, nobody else has written to it, and the database need not be asked.

use std::collections::HashMap;

use crate::append::Taken;

/// Longer runs are asked for by name: their cost must not depend on what was remembered.
pub(crate) const SHORT_RUN: u64 = 1024;

/// All that is remembered is forgotten when it becomes more than this.
const MOST_NAMES: usize = 400_000;

/// The names of short runs.
#[derive(Debug, Default)]
pub(crate) struct Names {
    runs: HashMap<i64, (u64, Taken)>,
    names: usize,
}

impl Names {
    /// Every name of a run, if they are those of its log up to `last_seq`. They are given away: whoever takes them
    /// brings them back with [`Names::keep`] once what it wrote is committed.
    pub(crate) fn take(&mut self, run_no: i64, last_seq: u64) -> Option<Taken> {
        let (place, taken) = self.runs.remove(&run_no)?;
        self.names -= taken.len();
        (place == last_seq).then_some(taken)
    }

    /// Remembers every name of a run up to `last_seq`.
    pub(crate) fn keep(&mut self, run_no: i64, last_seq: u64, taken: Taken) {
        if last_seq > SHORT_RUN {
            return;
        }
        if self.names + taken.len() > MOST_NAMES {
            *self = Self::default();
        }
        self.names += taken.len();
        if let Some((_, before)) = self.runs.insert(run_no, (last_seq, taken)) {
            self.names -= before.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append::Holder;

    fn taken(count: usize) -> Taken {
        let holder = Holder { run_seq: 1, event_id: uuid::Uuid::nil() };
        (0..count).map(|number| (number.to_string().into(), holder)).collect()
    }

    #[test]
    fn what_somebody_else_wrote_to_is_not_remembered() {
        let mut names = Names::default();
        names.keep(1, 5, taken(2));
        assert!(names.take(1, 6).is_none());
        names.keep(1, 6, taken(3));
        assert_eq!(names.take(1, 6).unwrap().len(), 3);
        assert!(names.take(1, 6).is_none());
    }

    #[test]
    fn memory_is_bounded_by_run_and_in_all() {
        let mut names = Names::default();
        names.keep(1, SHORT_RUN + 1, taken(1));
        assert!(names.take(1, SHORT_RUN + 1).is_none());
        for run_no in 0..500 {
            names.keep(run_no, 9, taken(1000));
        }
        assert!(names.names <= MOST_NAMES);
        assert_eq!(names.names, names.runs.values().map(|(_, taken)| taken.len()).sum::<usize>());
    }
}
