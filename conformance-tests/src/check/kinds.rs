//! The kind of every event, as the contract's table has it, and who wrote it.

use std::collections::HashMap;

use engine_core::StepId;
use engine_core::event::step::SkipReason;
use engine_core::event::{Body, Event, Kind};
use engine_core::failure::FailureClass;

use super::Findings;
use crate::history::{Left, RunHistory, Visit, line};
use crate::requirement;

pub(super) fn check(run: &RunHistory, visits: &[Visit], findings: &mut Findings) {
    let mut worked_by: HashMap<(StepId, u32), String> = HashMap::new();
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        let Some((kind, of_a_step)) = row(event) else {
            findings.add(&["CORE-25", "EVENT-4"], format!("{}: the contract has no such event", about()));
            continue;
        };
        findings.unless(event.body.kind() == kind, &["CORE-25", "COND-4"], || {
            format!("{} is taken for {:?}, and is {kind:?}", about(), event.body.kind())
        });
        findings.unless(event.subject.is_some() == of_a_step, &["EVENT-2"], || {
            format!("{}: whether it names a step", about())
        });
        let Some(subject) = &event.subject else { continue };
        let attempt = (subject.step.clone(), subject.attempt);
        match &event.body {
            Body::StepStarted(started) => {
                findings.unless(
                    by_engine(&started.worker) || *event.emitted_by == *started.worker,
                    &["CORE-26"],
                    || {
                        format!(
                            "{} was written by {}, and {} runs it",
                            about(),
                            event.emitted_by,
                            started.worker
                        )
                    },
                );
                worked_by.insert(attempt, started.worker.clone());
            }
            // Whoever tells of a lost worker goes on in its place.
            Body::StepRetried(retried) if retried.worker_lost => {
                worked_by.insert(attempt, event.emitted_by.to_string());
            }
            body if kind == Kind::Worker && !completed_by_a_person(body) => {
                let Some(worker) = worked_by.get(&attempt) else { continue };
                findings.unless(by_engine(worker) || *worker == *event.emitted_by, &["CORE-26"], || {
                    format!("{} was written by {}, and {worker} runs it", about(), event.emitted_by)
                });
                let last = visits.iter().rfind(|visit| {
                    visit.step_id == subject.step && visit.attempt == subject.attempt && !visit.undoes()
                });
                if let Some(last) = last {
                    told_by_the_handler(body, last, &about(), findings);
                }
            }
            _ => {}
        }
    }
}

/// CORE-31: nobody but the worker says how an attempt ended that it runs.
fn told_by_the_handler(body: &Body, last: &Visit, about: &str, findings: &mut Findings) {
    let as_told = match (body, &last.left) {
        (Body::StepCompleted(_), left) => *left == Some(Left::Done),
        // What a handler does after its time, or when its worker is gone, nobody hears.
        (Body::StepFailed(failed), _) if failed.error.class == FailureClass::Timeout => true,
        (Body::StepFailed(failed), _) if failed.error.code == "WORKER_LOST" => true,
        (Body::StepFailed(failed), Some(Left::Failed(code))) => failed.error.code == *code,
        (Body::StepFailed(failed), Some(Left::CutOff)) => failed.error.code == "HANDLER_PANIC",
        (Body::StepFailed(_), None) => false,
        // A handler that did well may leave what its schema does not allow.
        _ => true,
    };
    findings.unless(as_told, &["CORE-31"], || format!("{about}, and its handler left {:?}", last.left));
}

fn by_engine(worker: &str) -> bool {
    worker == "engine"
}

fn completed_by_a_person(body: &Body) -> bool {
    match body {
        Body::StepCompleted(completed) => completed.manual.is_some(),
        Body::StepFailed(failed) => failed.manual.is_some(),
        _ => false,
    }
}

/// The kind of an event in the contract's table, and whether it is about a step.
fn row(event: &Event) -> Option<(Kind, bool)> {
    let by_condition =
        matches!(&event.body, Body::StepSkipped(skipped) if skipped.reason == SkipReason::ConditionFalse);
    requirement::rows("### Event types").find_map(|cells| {
        let mut words = cells.first()?.split([' ', ',']);
        let fits = words.next() == Some(event.body.type_name())
            && (!cells[0].contains("condition_false") || by_condition);
        let kind = match *cells.get(1)? {
            "worker" => Kind::Worker,
            "decision" => Kind::Decision,
            "audit" => Kind::Audit,
            _ => return None,
        };
        fits.then_some((kind, *cells.get(2)? == "step"))
    })
}
