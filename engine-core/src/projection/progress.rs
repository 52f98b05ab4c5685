//! How far a run is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::run::StepCounts;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// How many steps stand where.
    pub counts: StepCounts,
    /// Steps that have ended, in percent of all; 100 for a run that has ended.
    pub percent: f64,
    /// Milliseconds since the start.
    pub elapsed_ms: u64,
    /// Milliseconds that are left if the rest goes as fast as what is done, pauses not counted; absent when
    /// nothing is known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_remaining_ms: Option<u64>,
}

impl Progress {
    /// The progress of a run that was active for `active_ms` of the `elapsed_ms` since its start.
    #[must_use]
    pub fn new(counts: StepCounts, elapsed_ms: u64, active_ms: u64, ended: bool) -> Self {
        let done = counts.succeeded + counts.failed + counts.skipped + counts.cancelled;
        let left = counts.total.saturating_sub(done);
        let percent = match (ended, counts.total) {
            (true, _) => 100.0,
            (false, 0) => 0.0,
            (false, total) => f64::from(done) * 100.0 / f64::from(total),
        };
        let estimated_remaining_ms = if ended {
            Some(0)
        } else if done == 0 || active_ms == 0 {
            None
        } else {
            Some(active_ms.saturating_mul(u64::from(left)) / u64::from(done))
        };
        Self { counts, percent, elapsed_ms, estimated_remaining_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(total: u32, succeeded: u32, failed: u32) -> StepCounts {
        StepCounts { total, succeeded, failed, pending: total - succeeded - failed, ..StepCounts::default() }
    }

    #[test]
    fn the_estimate_goes_by_what_is_done() {
        let progress = Progress::new(counts(10, 3, 1), 9000, 8000, false);
        assert!((progress.percent - 40.0).abs() < f64::EPSILON);
        assert_eq!(progress.elapsed_ms, 9000);
        assert_eq!(progress.estimated_remaining_ms, Some(12_000));
    }

    #[test]
    fn nothing_done_gives_no_estimate_and_an_end_gives_none_left() {
        assert_eq!(Progress::new(counts(10, 0, 0), 9000, 9000, false).estimated_remaining_ms, None);
        let ended = Progress::new(counts(10, 3, 1), 9000, 9000, true);
        assert_eq!(ended.estimated_remaining_ms, Some(0));
        assert!((ended.percent - 100.0).abs() < f64::EPSILON);
    }
}
