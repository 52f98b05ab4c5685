//! Cases that a variant leaves out: it would change what they mean. Each with the reason; what is not listed runs.

use super::Variant;
use crate::case::Case;
use crate::harness::{Fault, Need};

/// A case that a variant leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Excluded {
    /// The variant.
    pub variant: Variant,
    /// The case.
    pub case: &'static str,
    /// Why.
    pub because: &'static str,
}

/// Every one of them.
pub const EXCLUDED: &[Excluded] = &[
    restart("attempts.a_handler_is_told_both_numbers_and_one_token", "tries that were lost have numbers too"),
    restart("attempts.whoever_runs_a_step_holds_it", "who was killed holds nothing until it is back"),
    restart("cancel.an_ending_run_takes_nothing_but_cancel", DEAF),
    restart("cancel.an_outcome_within_the_grace_stands", DEAF),
    restart("compensation.a_cancelled_run_undoes_only_where_the_plan_says_so", CANCELLED_CALL),
    restart("driver.a_driver_that_was_overtaken_decides_again", PLACES),
    restart("driver.who_has_the_lease_decides", "the engine whose lease it asks for may just be dead"),
    restart("failure.a_try_that_takes_too_long_is_a_timeout", "a try that was lost begins its time anew"),
    restart("graph.branches_run_at_once_up_to_the_limit", ORDER),
    restart("log.every_event_has_its_envelope", PLACES),
    restart("log.the_snapshot_tells_what_the_log_tells", PLACES),
    restart("pause.what_an_orphan_brings_is_refused", "an orphan that is dead brings nothing"),
    restart("retry_step.in_a_diamond_one_branch_and_the_join_are_done_again", PLACES),
    restart("schedule.a_run_timeout_cancels_undoes_and_fails", CANCELLED_CALL),
    restart("schedule.a_run_timeout_does_not_wait_for_the_deaf", DEAF),
    restart("skip_step.a_step_that_has_not_begun_is_left_out", ORDER),
    restart("state.a_run_goes_only_along_its_edges", "it counts calls at a gate, and some of them are lost"),
    restart("store.a_gap_makes_a_reader_stale_until_it_is_filled", PLACES),
    restart("store.every_event_waits_for_the_bus_in_order", PLACES),
];

const DEAF: &str = "its handler does not hear that it shall stop, but dies with its worker";
const CANCELLED_CALL: &str =
    "it counts a call that was asked to stop, and that may be lost before that is written";
const ORDER: &str = "it tells siblings apart by the order of their calls, and a restart calls them anew";
const PLACES: &str = "it counts places in the log, and losses take some";

const fn restart(case: &'static str, because: &'static str) -> Excluded {
    Excluded { variant: Variant::WorkerRestart, case, because }
}

/// Why a variant leaves a case out; nothing when it runs.
#[must_use]
pub fn reason(variant: Variant, case: &Case) -> Option<&'static str> {
    let kills = case.needs.contains(&Need::Can(Fault::Kill));
    if variant == Variant::WorkerRestart && kills {
        return Some("it kills by itself, and counts what that does");
    }
    let listed = EXCLUDED.iter().find(|excluded| excluded.variant == variant && excluded.case == case.name);
    listed.map(|excluded| excluded.because)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cases;

    #[test]
    fn what_is_left_out_is_there_stands_once_and_has_a_reason() {
        let mut seen = BTreeSet::new();
        for excluded in EXCLUDED {
            let case = cases::find(excluded.case);
            assert!(case.is_some(), "there is no case {}: take it out", excluded.case);
            assert!(seen.insert((excluded.variant, excluded.case)), "{excluded:?} stands twice");
            assert!(!excluded.because.is_empty(), "{excluded:?} has no reason");
        }
    }
}
