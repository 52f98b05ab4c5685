//! What holds of every history: checkers that judge a record, whatever case or engine made it, or the log of any run.
//!
//! Those of logs take nothing from the decider's word: statuses are walked along the machines' tables, keys and counts are
//! worked out anew. Those of the decider fold the same log in many ways.
//!
//! - [`order`]: places in the log, what comes first, dependencies before dependents;
//! - [`envelope`]: every event against its schema, and what all events of a run share; [`keys`]: worked out anew;
//! - [`machines`]: every status along the tables; [`attempts`]: numbers of attempts and tries; [`slots`]: one end each;
//! - [`pause`], [`cancel`], [`compensation`], [`ending`]: what these leave in a log;
//! - [`limits`]: slots by intervals; [`visits`]: handlers called when they may be;
//! - [`projection`]: the snapshot against the log; [`kinds`]: the contract's table of events, and who writes what;
//! - [`secrets`]: none of them stands anywhere;
//! - [`fold`], [`release`], [`refusal`]: what holds of the decider for every log, whichever way it is folded;
//! - [`walk`]: where everything stands after each event.

pub mod attempts;
pub mod cancel;
pub mod compensation;
pub mod ending;
pub mod envelope;
pub mod fold;
pub mod keys;
pub mod kinds;
pub mod limits;
pub mod machines;
pub mod order;
pub mod pause;
pub mod projection;
pub mod refusal;
pub mod release;
pub mod secrets;
pub mod slots;
pub mod visits;
pub mod walk;

use std::fmt;
use std::sync::Arc;

use engine_core::event::Event;
use engine_core::plan::CompiledPlan;
use engine_core::{RunId, TenantId};

use crate::history::{History, RunHistory, Visit};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who found it.
    pub checker: &'static str,
    /// The requirements that it breaks.
    pub breaks: &'static [&'static str],
    /// What is wrong, with its place in the log.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({})", self.checker, self.what, self.breaks.join(", "))
    }
}

/// One rule over one run.
#[derive(Clone, Copy)]
pub struct Checker {
    /// Its name.
    pub name: &'static str,
    /// What it finds wrong.
    pub check: fn(&RunHistory, &[Visit], &mut Findings),
}

impl fmt::Debug for Checker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// What a checker has found.
#[derive(Debug)]
pub struct Findings {
    checker: &'static str,
    found: Vec<Violation>,
}

impl Findings {
    /// Something is wrong.
    pub fn add(&mut self, breaks: &'static [&'static str], what: impl Into<String>) {
        self.found.push(Violation { checker: self.checker, breaks, what: what.into() });
    }

    /// Something is wrong unless it holds.
    pub fn unless(&mut self, holds: bool, breaks: &'static [&'static str], what: impl FnOnce() -> String) {
        if !holds {
            self.add(breaks, what());
        }
    }
}

/// Every checker.
pub const CHECKERS: &[Checker] = &[
    Checker { name: "order", check: order::check },
    Checker { name: "envelope", check: envelope::check },
    Checker { name: "keys", check: keys::check },
    Checker { name: "machines", check: machines::check },
    Checker { name: "attempts", check: attempts::check },
    Checker { name: "slots", check: slots::check },
    Checker { name: "pause", check: pause::check },
    Checker { name: "cancel", check: cancel::check },
    Checker { name: "compensation", check: compensation::check },
    Checker { name: "ending", check: ending::check },
    Checker { name: "limits", check: limits::check },
    Checker { name: "visits", check: visits::check },
    Checker { name: "projection", check: projection::check },
    Checker { name: "kinds", check: kinds::check },
    Checker { name: "fold", check: fold::check },
    Checker { name: "release", check: release::check },
    Checker { name: "refusal", check: refusal::check },
    Checker { name: "secrets", check: secrets::check },
];

/// Everything that is wrong with a history.
#[must_use]
pub fn all(history: &History) -> Vec<Violation> {
    let mut findings = Findings { checker: "secrets", found: Vec::new() };
    secrets::check_answers(&history.items, &mut findings);
    let mut found = findings.found;
    for run in &history.runs {
        let counts =
            |(number, visit): &(usize, &Visit)| visit.run_id == run.run_id && !history.lost.contains(number);
        let visits: Vec<Visit> =
            history.visits.iter().enumerate().filter(counts).map(|(_, visit)| visit.clone()).collect();
        for checker in CHECKERS {
            let mut findings = Findings { checker: checker.name, found: Vec::new() };
            (checker.check)(run, &visits, &mut findings);
            found.append(&mut findings.found);
        }
    }
    found
}

/// Everything that is wrong with the log of one run, of any engine.
#[must_use]
pub fn log(
    tenant_id: TenantId,
    run_id: RunId,
    plan: Arc<CompiledPlan>,
    events: Vec<Event>,
) -> Vec<Violation> {
    let run = RunHistory { tenant_id, run_id, plan, events, snapshot: None };
    all(&History { runs: vec![run], ..History::default() })
}
