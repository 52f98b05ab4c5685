//! Handlers are called when they may be: after StepStarted, before the end of their attempt, and never twice for one try.

use std::collections::HashSet;

use engine_core::event::{Body, Event};

use super::Findings;
use crate::history::{RunHistory, Visit};

pub(super) fn check(run: &RunHistory, visits: &[Visit], findings: &mut Findings) {
    let mut seen = HashSet::new();
    for visit in visits {
        let first = seen.insert((visit.step_id.clone(), visit.attempt, visit.try_number, visit.undoes()));
        findings.unless(first, &["ATTEMPT-11", "WORKER-2"], || format!("{visit} was called twice"));
        let Some(place) = visit.place else { continue };
        if visit.undoes() {
            let began = place_of(run, visit, |body| matches!(body, Body::CompensationStarted(_)));
            findings.unless(began.is_some_and(|began| began <= place), &["COMP-13"], || {
                format!("{visit} was called at {place}, and CompensationStarted stands at {began:?}")
            });
            continue;
        }
        let started = place_of(run, visit, |body| matches!(body, Body::StepStarted(_)));
        let in_time = started.is_some_and(|started| started <= place || failed_open(run, visit, started));
        findings.unless(in_time, &["WORKER-5", "BUDGET-4"], || {
            format!("{visit} was called at {place}, and its StepStarted stands at {started:?}")
        });
        let ended = place_of(run, visit, ends);
        findings.unless(
            ended.is_none_or(|ended| ended > place),
            &["WORKER-3", "WORKER-4", "RESUME-3"],
            || format!("{visit} was called at {place}, after its end at {ended:?}"),
        );
    }
    for event in &run.events {
        let (Body::StepCompleted(completed), Some(subject)) = (&event.body, &event.subject) else { continue };
        let called = visits.iter().any(|visit| {
            visit.step_id == subject.step && visit.attempt == subject.attempt && !visit.undoes()
        });
        findings.unless(called || visits.is_empty() || completed.manual.is_some(), &["WORKER-1"], || {
            format!("{}#{} is completed, and nobody called its handler", subject.step, subject.attempt)
        });
    }
}

fn ends(body: &Body) -> bool {
    matches!(
        body,
        Body::StepCompleted(_) | Body::StepFailed(_) | Body::StepSkipped(_) | Body::StepCancelled(_)
    )
}

/// Whether a StepStarted was written late, as it may be: it says since when it is true, and the next event of its attempt
/// stands right behind it.
fn failed_open(run: &RunHistory, visit: &Visit, started: u64) -> bool {
    let at = |place: u64| run.events.iter().find(|event| event.run_seq == place);
    let says_since_when = at(started).is_some_and(|event| event.occurred_at.is_some());
    let of_the_attempt = |event: &Event| {
        event
            .subject
            .as_ref()
            .is_some_and(|subject| subject.step == visit.step_id && subject.attempt == visit.attempt)
    };
    says_since_when && at(started + 1).is_some_and(of_the_attempt)
}

fn place_of(run: &RunHistory, visit: &Visit, met: impl Fn(&Body) -> bool) -> Option<u64> {
    let about = |event: &&Event| {
        event.subject.as_ref().is_some_and(|subject| {
            subject.step == visit.step_id && (visit.undoes() || subject.attempt == visit.attempt)
        })
    };
    run.events.iter().filter(about).find(|event| met(&event.body)).map(|event| event.run_seq)
}
