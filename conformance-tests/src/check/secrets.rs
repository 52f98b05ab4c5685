//! No secret stands in anything that is told or stored.

use serde::Serialize;

use super::Findings;
use crate::history::{Item, RunHistory, Visit, line};
use crate::script::secrets::MARK;

pub(super) fn check(run: &RunHistory, visits: &[Visit], findings: &mut Findings) {
    for event in &run.events {
        findings.unless(hides(event), &["SECRET-3"], || {
            format!("{} at {} has a secret in it", line(event), event.run_seq)
        });
    }
    findings.unless(hides(&run.snapshot), &["SECRET-3"], || "the snapshot has a secret in it".to_owned());
    findings.unless(hides(run.plan.document()), &["SECRET-1", "SECRET-3"], || {
        "the plan has a secret in it".to_owned()
    });
    // What one step is given was stored by another.
    for visit in visits {
        findings.unless(hides(&visit.input), &["SECRET-3"], || {
            format!("the input of {visit} has a secret in it")
        });
    }
}

/// The same of what callers were answered.
pub(super) fn check_answers(items: &[Item], findings: &mut Findings) {
    for item in items {
        if let Item::Called { call, answer } = item {
            findings.unless(!answer.contains(MARK), &["SECRET-3"], || {
                format!("the answer to {call} has a secret in it")
            });
        }
    }
}

/// The mark looks the same however a text is written.
fn hides(told: &impl Serialize) -> bool {
    serde_json::to_string(told).is_ok_and(|text| !text.contains(MARK))
}
