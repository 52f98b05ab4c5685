//! Places in the log, what comes first, dependencies before dependents.

use engine_core::event::{Body, EventType, Kind};

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    for (event, place) in run.events.iter().zip(1..) {
        findings.unless(event.run_seq == place, &["STORE-1", "STORE-2"], || {
            format!("{} has runSeq {} at place {place}", line(event), event.run_seq)
        });
    }
    let first = run.events.first().and_then(|event| event.body.event_type());
    findings.unless(first == Some(EventType::RunQueued), &["CORE-21"], || {
        format!("the log begins with {first:?}")
    });
    let mut walk = Walk::new(&run.plan);
    let (mut approved, mut begun, mut ended) = (false, false, false);
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        findings.unless(!ended || event.body.kind() == Kind::Audit, &["STORE-10", "RUN-2"], || {
            format!("{} after the end of the run", about())
        });
        match &event.body {
            Body::RunApproved(_) => approved = true,
            Body::RunStarted(_) => {
                findings.unless(approved, &["START-10"], || format!("{} without RunApproved", about()));
                begun = true;
            }
            Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_) => ended = true,
            Body::StepStarted(_) => {
                findings.unless(begun, &["GRAPH-12"], || format!("{} before RunStarted", about()));
                let Some(subject) = &event.subject else { continue };
                let Some(index) = run.plan.find(subject.step.as_str()) else {
                    findings.add(&["EVENT-2"], format!("{}: the plan has no such step", about()));
                    continue;
                };
                for link in run.plan.dependencies(index) {
                    let needed = &run.plan.step(link.step).id;
                    let attempts = walk.steps.get(needed);
                    let ended = attempts
                        .is_some_and(|attempts| attempts.iter().any(|attempt| attempt.status.is_terminal()));
                    findings.unless(ended, &["GRAPH-12"], || {
                        format!("{}, and {needed}, which it depends on, has not ended", about())
                    });
                }
            }
            _ => {}
        }
        let _ = walk.step(event);
    }
}
