//! The log held against the diary: which handlers were entered, and when.

use std::collections::{BTreeMap, BTreeSet};

use engine_core::event::{Body, Event};
use serde_json::json;

use super::diary::{CallName, Moment};
use super::lawful::Lawful;
use super::plans::CAREFUL;
use super::script::TRY;

/// Holds a run's log against what its handlers wrote.
pub(crate) fn check(log: &Lawful<'_>, lines: &[(Moment, CallName)]) {
    let late: Vec<&CallName> = of(lines, Moment::Late).collect();
    assert!(late.is_empty(), "entered after the end was committed: {late:?}; {log}");
    each_try_once(log, lines);
    let entered: BTreeSet<(&str, u32, u32)> = of(lines, Moment::Enter)
        .filter(|call| !call.undoes)
        .map(|call| (call.step.as_str(), call.attempt, call.number))
        .collect();
    for event in log.events {
        outcomes_have_a_call(log, event, &entered);
    }
    every_call_has_its_event(log, &entered);
}

fn of(lines: &[(Moment, CallName)], wanted: Moment) -> impl Iterator<Item = &CallName> {
    lines.iter().filter(move |(moment, _)| *moment == wanted).map(|(_, call)| call)
}

/// Before a handler is entered again, the log has it that the try before is over. Only undoing begins again without a
/// word, in another process.
fn each_try_once(log: &Lawful<'_>, lines: &[(Moment, CallName)]) {
    let mut calls = BTreeSet::new();
    for call in of(lines, Moment::Enter) {
        let generation = if call.undoes { call.generation } else { 0 };
        let same = CallName { generation, ..call.clone() };
        assert!(calls.insert(same), "{call} was entered twice; {log}");
        if call.step.starts_with(CAREFUL) {
            assert_eq!((call.attempt, call.number), (1, 1), "{call} must not be repeated; {log}");
        }
    }
}

/// What the log says that a handler produced, a handler produced.
fn outcomes_have_a_call(log: &Lawful<'_>, event: &Event, entered: &BTreeSet<(&str, u32, u32)>) {
    let Some(subject) = &event.subject else { return };
    let output = match &event.body {
        Body::StepCompleted(completed) if completed.manual.is_none() => Some(&completed.output),
        Body::StepWaiting(waiting) => waiting.output.as_ref(),
        _ => None,
    };
    let Some(output) = output else { return };
    let found = entered.iter().any(|(step, attempt, number)| {
        *step == subject.step.as_str()
            && *attempt == subject.attempt
            && output.metadata.get(TRY) == Some(&json!(number))
    });
    assert!(found, "nobody was called for {}; {log}", event.run_seq);
}

/// An attempt whose handler was entered was started, and has an event for each try but the last.
fn every_call_has_its_event(log: &Lawful<'_>, entered: &BTreeSet<(&str, u32, u32)>) {
    let mut retried: BTreeMap<(&str, u32), Option<u32>> = BTreeMap::new();
    for event in log.events {
        let Some(subject) = &event.subject else { continue };
        let known = retried.entry((subject.step.as_str(), subject.attempt)).or_default();
        match &event.body {
            Body::StepStarted(_) => *known = Some(0),
            Body::StepRetried(_) => *known = known.map(|tries| tries + 1),
            _ => {}
        }
    }
    for (step, attempt, number) in entered {
        let known = retried.get(&(*step, *attempt)).copied().flatten();
        let covered = known.is_some_and(|tries| *number <= tries + 1);
        assert!(covered, "nobody knows of try {number} of {step} {attempt}; {log}");
    }
}
