//! The cases, a file a topic. Each cites the requirements that it proves: it fails when one of them is broken.
//!
//! | file | profile | about |
//! |---|---|---|
//! | `core` | core | what a log means, what follows from it, who writes what |
//! | `start` | core | identity, what is frozen, what is refused before anything is stored |
//! | `tenant` | core | tenants, and who may do what |
//! | `graph` | core | order, joins, conditions |
//! | `failure` | core | classes, tries, what a failed run says |
//! | `log` | core | envelopes, and that an ended run stays as it is |
//! | `pause` | control | pause, drain, resume |
//! | `cancel` | control | cancel, grace |
//! | `retry_step` | control | RETRY_STEP: diamond, fork, cascade |
//! | `skip_step` | control | SKIP_STEP |
//! | `signal` | control | what every signal goes through |
//! | `approve` | manual | approval by people |
//! | `complete_step` | manual | COMPLETE_STEP: waits, tokens, duties |
//! | `review` | manual | requests for review |
//! | `compensation` | saga | undoing what succeeded |
//! | `action` | control | what follows a final failure |
//! | `fallback` | control | steps that stand in for one that failed |
//! | `errors` | core | classes of errors, which are tried again |
//! | `attempts` | durability | numbers of attempts and tries, lost workers |
//! | `plan` | core | what a plan says, and what is refused of it |
//! | `state` | core | what a run and its steps show, and how a run ends |
//! | `origin` | core | runs made from runs, and checkpoints |
//! | `schedule` | schedule | agents, delays, timers, the run timeout |
//! | `dispatch` | schedule | steps that the driver's worker runs itself |
//! | `data` | data | what steps see, are given and leave |
//! | `secret` | data | secrets: who is given them, and that they are written nowhere |
//! | `store` | store | what the store promises, through its port |
//! | `events` | store | order, times and shapes of events, and that what is stored counts |
//! | `retention` | store | what is forgotten, and what is kept because others need it |
//! | `durability` | durability | kills and restarts, other processes |
//! | `budget` | durability | writes that take too long |
//! | `driver` | durability | one driver at a time, on the latest view |

mod action;
mod approve;
mod attempts;
mod budget;
mod cancel;
mod compensation;
mod complete_step;
mod core;
mod data;
mod dispatch;
mod driver;
mod durability;
mod errors;
mod events;
mod failure;
mod fallback;
mod graph;
mod log;
mod origin;
mod pause;
mod plan;
mod retention;
mod retry_step;
mod review;
mod schedule;
mod secret;
mod signal;
mod skip_step;
mod start;
mod state;
mod store;
mod tenant;

use crate::case::Case;

/// Every case, in the order of the files.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        core::CASES,
        start::CASES,
        tenant::CASES,
        graph::CASES,
        failure::CASES,
        log::CASES,
        pause::CASES,
        cancel::CASES,
        retry_step::CASES,
        skip_step::CASES,
        signal::CASES,
        approve::CASES,
        complete_step::CASES,
        review::CASES,
        compensation::CASES,
        action::CASES,
        fallback::CASES,
        errors::CASES,
        attempts::CASES,
        plan::CASES,
        state::CASES,
        origin::CASES,
        schedule::CASES,
        dispatch::CASES,
        data::CASES,
        secret::CASES,
        store::CASES,
        events::CASES,
        retention::CASES,
        durability::CASES,
        budget::CASES,
        driver::CASES,
    ]
    .concat()
}

/// The case with a name.
#[must_use]
pub fn find(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::case::Profile;
    use crate::requirement;

    #[test]
    fn names_are_unique_and_every_cited_requirement_is_there() {
        let mut names = BTreeSet::new();
        for case in all() {
            assert!(names.insert(case.name), "{} stands twice", case.name);
            assert!(!case.requirements.is_empty(), "{} proves nothing", case.name);
            for id in case.requirements {
                assert!(requirement::find(id).is_some(), "{} cites {id}, which is no requirement", case.name);
            }
        }
    }

    #[test]
    fn no_case_of_the_core_needs_an_optional_ability() {
        let needy: Vec<_> = all()
            .into_iter()
            .filter(|case| case.profile == Profile::Core && !case.needs.is_empty())
            .collect();
        assert!(needy.is_empty(), "{needy:?}");
    }
}
