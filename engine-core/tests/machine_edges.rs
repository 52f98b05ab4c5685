//! Every legal and every illegal edge of the two state machines.
//!
//! The edges stand here a second time, by hand from the contract: a change of the tables must be meant.

use std::collections::BTreeSet;
use std::fmt::Display;

use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus, run, step};
use engine_core::{Code, Result};

const RUN_EDGES: &[(&str, &str, &str)] = &[
    ("", "RunQueued", "PENDING"),
    ("PENDING", "RunApproved", "APPROVED"),
    ("PENDING", "RunCancelled", "CANCELLED"),
    ("PENDING", "RunFailed", "FAILED"),
    ("APPROVED", "RunStarted", "RUNNING"),
    ("APPROVED", "RunCancelled", "CANCELLED"),
    ("APPROVED", "RunFailed", "FAILED"),
    ("RUNNING", "RunPaused", "PAUSED"),
    ("RUNNING", "RunCompleted", "COMPLETED"),
    ("RUNNING", "RunFailed", "FAILED"),
    ("RUNNING", "RunCancelled", "CANCELLED"),
    ("PAUSED", "RunDrained", "PAUSED"),
    ("PAUSED", "RunResumed", "RUNNING"),
    ("PAUSED", "RunCompleted", "COMPLETED"),
    ("PAUSED", "RunCancelled", "CANCELLED"),
];

const STEP_EDGES: &[(&str, &str, &str)] = &[
    ("", "StepRetryRequested", "PENDING"),
    ("PENDING", "StepStarted", "RUNNING"),
    ("PENDING", "StepSkipped", "SKIPPED"),
    ("PENDING", "StepCancelled", "CANCELLED"),
    ("RUNNING", "StepRetried", "RUNNING"),
    ("RUNNING", "StepWaiting", "RUNNING"),
    ("RUNNING", "StepCompleted", "SUCCESS"),
    ("RUNNING", "StepFailed", "FAILED"),
    ("RUNNING", "StepCancelled", "CANCELLED"),
];

/// Walks the full product of states (before there is anything included) and event types.
fn check_every_pair<S: Copy + Display>(
    statuses: &[S],
    nothing: &str,
    edges: &[(&str, &str, &str)],
    next: impl Fn(Option<S>, EventType) -> Result<S>,
) {
    let mut legal = BTreeSet::new();
    for from in std::iter::once(None).chain(statuses.iter().copied().map(Some)) {
        let from_name = from.map_or_else(String::new, |status| status.to_string());
        for on in EventType::ALL {
            let place = format!("{from_name:?} on {on}");
            let expected = edges.iter().find(|edge| edge.0 == from_name && edge.1 == on.as_str());
            match (expected, next(from, *on)) {
                (Some(edge), Ok(to)) => {
                    assert_eq!(to.to_string(), edge.2, "{place}");
                    legal.insert(*edge);
                }
                (Some(edge), Err(error)) => panic!("{place} must lead to {}: {error}", edge.2),
                (None, Ok(to)) => panic!("{place} must be refused and leads to {to}"),
                (None, Err(error)) => {
                    assert_eq!(error.code(), Code::IllegalTransition, "{place}");
                    let from_words = if from_name.is_empty() { nothing } else { &from_name };
                    let target = edges.iter().find(|edge| edge.1 == on.as_str());
                    let target_words = target.map_or("any status", |edge| edge.2);
                    for word in [on.as_str(), from_words, target_words] {
                        assert!(error.message().contains(word), "{place}: {word:?} is not in {error}");
                    }
                }
            }
        }
    }
    assert_eq!(legal, edges.iter().copied().collect(), "every edge of the contract was walked");
}

#[test]
fn the_run_machine_has_exactly_the_edges_of_the_contract() {
    check_every_pair(RunStatus::ALL, "a run that does not exist", RUN_EDGES, run::next);
}

#[test]
fn the_step_machine_has_exactly_the_edges_of_the_contract() {
    check_every_pair(StepStatus::ALL, "an attempt that does not exist", STEP_EDGES, step::next);
}

#[test]
fn the_tables_hold_no_edge_twice() {
    assert_eq!(run::EDGES.len(), RUN_EDGES.len());
    assert_eq!(step::EDGES.len(), STEP_EDGES.len());
}

#[test]
fn terminal_statuses_have_no_way_out_and_all_others_have_one() {
    for status in RunStatus::ALL {
        let terminal = ["COMPLETED", "FAILED", "CANCELLED"].contains(&status.as_str());
        assert_eq!(status.is_terminal(), terminal, "{status}");
        assert_eq!(run::EDGES.iter().any(|edge| edge.from == Some(*status)), !terminal, "{status}");
    }
    for status in StepStatus::ALL {
        let terminal = ["SUCCESS", "FAILED", "SKIPPED", "CANCELLED"].contains(&status.as_str());
        assert_eq!(status.is_terminal(), terminal, "{status}");
        assert_eq!(step::EDGES.iter().any(|edge| edge.from == Some(*status)), !terminal, "{status}");
    }
}

#[test]
fn a_paused_run_cannot_fail() {
    assert!(
        EventType::ALL
            .iter()
            .all(|on| { run::next(Some(RunStatus::Paused), *on).map_or(true, |to| to != RunStatus::Failed) })
    );
}

#[test]
fn a_step_that_was_never_started_cannot_succeed_or_fail() {
    for on in EventType::ALL {
        if let Ok(to) = step::next(Some(StepStatus::Pending), *on) {
            assert!(!matches!(to, StepStatus::Success | StepStatus::Failed), "{on}");
        }
    }
}

#[test]
fn an_event_leads_to_the_same_status_wherever_it_is_legal() {
    // Readers take the status from the event alone, without the state before it.
    for edge in run::EDGES {
        assert!(run::EDGES.iter().all(|other| other.on != edge.on || other.to == edge.to), "{}", edge.on);
    }
    for edge in step::EDGES {
        assert!(step::EDGES.iter().all(|other| other.on != edge.on || other.to == edge.to), "{}", edge.on);
    }
}

#[test]
fn the_drawing_shows_every_edge() {
    for (markdown, edges) in [(run::markdown(), RUN_EDGES), (step::markdown(), STEP_EDGES)] {
        for (from, on, to) in edges {
            let row = format!("| {} | {on} | {to} |", if from.is_empty() { "–" } else { from });
            let arrow = format!("{} --> {to}: {on}", if from.is_empty() { "[*]" } else { from });
            assert!(markdown.contains(&row), "{row}");
            assert!(markdown.contains(&arrow), "{arrow}");
        }
    }
}
