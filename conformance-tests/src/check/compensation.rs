//! What undoing leaves in a log.

use std::collections::HashSet;

use engine_core::StepId;
use engine_core::event::Body;
use engine_core::failure::FailureClass;
use engine_core::machine::StepStatus;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    let mut undoing: Option<StepId> = None;
    let mut begun: HashSet<StepId> = HashSet::new();
    let mut last_place = u64::MAX;
    let mut tries = 0;
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        let subject = event.subject.as_ref();
        match (&event.body, subject) {
            (Body::CompensationStarted(_), Some(subject)) => {
                findings.unless(undoing.is_none(), &["COMP-5"], || {
                    format!("{} while {undoing:?} is being undone", about())
                });
                findings.unless(walk.running().next().is_none(), &["COMP-6"], || {
                    format!("{} while attempts run", about())
                });
                findings.unless(begun.insert(subject.step.clone()), &["COMP-3"], || {
                    format!("{} a second time", about())
                });
                let attempts = walk.steps.get(&subject.step);
                let success = attempts.and_then(|attempts| {
                    attempts.iter().rev().find(|attempt| attempt.status == StepStatus::Success)
                });
                let place = success.and_then(|success| success.ended);
                findings.unless(place.is_some_and(|place| place < last_place), &["COMP-3", "COMP-4"], || {
                    format!("{} undoes the success at {place:?} after that at {last_place}", about())
                });
                last_place = place.unwrap_or(last_place);
                undoing = Some(subject.step.clone());
                tries = 0;
            }
            (Body::CompensationCompleted(_), Some(subject)) => {
                findings.unless(undoing.as_ref() == Some(&subject.step), &["COMP-13"], || {
                    format!("{} without its CompensationStarted", about())
                });
                undoing = None;
            }
            (Body::CompensationFailed(failed), Some(subject)) => {
                tries += 1;
                findings.unless(undoing.as_ref() == Some(&subject.step), &["COMP-13"], || {
                    format!("{} without its CompensationStarted", about())
                });
                // RETRY-3: what is permanent is final at once.
                let retryable =
                    !matches!(failed.error.class, FailureClass::Permanent | FailureClass::Cancelled);
                findings.unless(
                    tries <= 2 && failed.will_retry == (tries < 2 && retryable),
                    &["COMP-9", "COMP-13"],
                    || format!("{} is failed try {tries} and says willRetry {}", about(), failed.will_retry),
                );
                if !failed.will_retry {
                    undoing = None;
                }
            }
            (Body::RunCompleted(_), _) => {
                findings.unless(begun.is_empty(), &["PARTIAL-4"], || {
                    format!("{} after steps were undone", about())
                });
            }
            (Body::RunFailed(_) | Body::RunCancelled(_), _) => {
                findings.unless(undoing.is_none(), &["COMP-1", "CANCEL-7"], || {
                    format!("{} while {undoing:?} is being undone", about())
                });
            }
            (Body::StepStarted(_) | Body::StepRetryRequested(_), _) => {
                findings.unless(begun.is_empty(), &["COMP-6"], || format!("{} after undoing began", about()));
            }
            _ => {}
        }
        let _ = walk.step(event);
    }
}
