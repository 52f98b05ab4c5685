//! Every status along the tables.

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    for event in &run.events {
        if let Err(error) = walk.step(event) {
            let breaks: &[&str] =
                if event.subject.is_some() { &["STEP-1", "STEP-2"] } else { &["RUN-1", "RUN-2"] };
            findings.add(breaks, format!("{} at {}: {}", line(event), event.run_seq, error.message()));
        }
    }
}
