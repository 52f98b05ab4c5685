//! What makes an append happen once: the idempotency key of every event type, and slots.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

mod event_support;

use engine_core::event::{Body, Event, EventType, IdempotencyKey, Slot, Subject};
use engine_core::hash::sha256_hex;
use engine_core::{PlanVersion, RunId, SignalId, StepId};
use event_support::{body, subject};

fn key(run: &str, subject: Option<&Subject>, body: &Body, version: &str) -> String {
    let (run, version) = (RunId::new(run).unwrap(), PlanVersion::new(version).unwrap());
    IdempotencyKey::of(&run, subject, body, &version).to_string()
}

#[test]
fn the_published_vectors_hold() {
    let orders = Subject::new(StepId::new("model.orders").unwrap(), 1);
    assert_eq!(
        key("run-001", Some(&orders), &body(EventType::StepStarted), "1.2.0"),
        "6c99484df8a52a1dc3f2533b796f7257c11f57149d3fe3277d4c7ab98433d033"
    );
    assert_eq!(
        key("run-001", None, &body(EventType::RunStarted), "1.2.0"),
        "d219f09c191299aed8f136206aac54aba08233611a71d86470eb60174fb086b4"
    );
}

/// What tells two events of one type about one subject apart. The samples are about attempt 2 in its third
/// try, pause 4, review 5, alert 6.
fn discriminator(event_type: EventType) -> &'static str {
    match event_type {
        EventType::RunQueued
        | EventType::RunApproved
        | EventType::RunStarted
        | EventType::RunCompleted
        | EventType::RunFailed
        | EventType::RunCancelled => "1",
        EventType::RunPaused | EventType::RunDrained | EventType::RunResumed => "4",
        EventType::StepStarted
        | EventType::StepWaiting
        | EventType::StepCompleted
        | EventType::StepFailed
        | EventType::StepSkipped
        | EventType::StepCancelled
        | EventType::StepRetryRequested
        | EventType::CompensationStarted
        | EventType::CompensationCompleted => "2",
        EventType::StepRetried | EventType::CompensationFailed => "2.3",
        EventType::HumanReviewRequested => "2.5",
        EventType::SignalAccepted | EventType::SignalRejected => "signal-7",
        EventType::TimerFired => "run-timeout",
        EventType::CheckpointCreated => "checkpoint-8",
        EventType::AlertRaised => "PAUSE_DRAIN_TIMEOUT.6",
        other => panic!("say what tells two {other} events apart"),
    }
}

#[test]
fn the_key_of_every_type_is_the_hash_of_its_fields() {
    for event_type in EventType::ALL {
        let subject = subject(*event_type);
        let step = if event_type.is_about_a_step() { "load" } else { "RUN" };
        let fields = format!("run-9|{step}|{}|{event_type}|1.0+b", discriminator(*event_type));
        assert_eq!(
            key("run-9", subject.as_ref(), &body(*event_type), "1.0+b"),
            sha256_hex(fields.as_bytes()),
            "{fields}"
        );
    }
}

#[test]
fn a_try_without_a_platform_counter_is_the_first() {
    let second = Subject::new(StepId::new("load").unwrap(), 2);
    let retried = body(EventType::StepRetried);
    assert_eq!(
        key("r", Some(&second), &retried, "1"),
        key("r", Some(&second.clone().with_engine_attempt(1)), &retried, "1")
    );
}

#[test]
fn the_platform_counter_changes_no_key_but_that_of_a_failed_try() {
    let once = Subject::new(StepId::new("load").unwrap(), 2);
    let again = once.clone().with_engine_attempt(9);
    for event_type in EventType::ALL.iter().filter(|event_type| event_type.is_about_a_step()) {
        let same =
            key("r", Some(&once), &body(*event_type), "1") == key("r", Some(&again), &body(*event_type), "1");
        let counts = matches!(event_type, EventType::StepRetried | EventType::CompensationFailed);
        assert_eq!(same, !counts, "{event_type}");
    }
}

#[test]
fn no_two_types_share_a_key() {
    let mut keys: Vec<String> = EventType::ALL
        .iter()
        .map(|event_type| key("r", subject(*event_type).as_ref(), &body(*event_type), "1"))
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), EventType::ALL.len());
}

#[test]
fn sealing_gives_the_event_its_key() {
    for event_type in EventType::ALL {
        let event: Event = event_support::event(*event_type);
        assert_eq!(
            event.idempotency_key,
            IdempotencyKey::of(&event.run_id, event.subject.as_ref(), &event.body, &event.plan_version)
        );
    }
}

#[test]
fn a_key_is_64_lower_case_hexadecimal_digits() {
    let text = key("r", None, &body(EventType::RunStarted), "1");
    assert_eq!(text.parse::<IdempotencyKey>().unwrap().to_string(), text);
    for bad in ["", &text[1..], &text.to_uppercase(), &format!("{}g", &text[1..]), &"é".repeat(32)] {
        assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad:?}");
    }
}

#[test]
fn an_end_and_the_decision_about_a_signal_take_a_slot() {
    let attempt = Slot::AttemptEnd(StepId::new("load").unwrap(), 2);
    let signal = Slot::SignalDecision(SignalId::new("signal-7").unwrap());
    for event_type in EventType::ALL {
        let expected = match event_type {
            EventType::RunCompleted | EventType::RunFailed | EventType::RunCancelled => Some(Slot::RunEnd),
            EventType::StepCompleted
            | EventType::StepFailed
            | EventType::StepSkipped
            | EventType::StepCancelled => Some(attempt.clone()),
            EventType::SignalAccepted | EventType::SignalRejected => Some(signal.clone()),
            _ => None,
        };
        assert_eq!(Slot::of(subject(*event_type).as_ref(), &body(*event_type)), expected, "{event_type}");
    }
}

#[test]
fn slots_of_different_ends_are_written_differently() {
    let step = |name: &str, attempt| Slot::AttemptEnd(StepId::new(name).unwrap(), attempt);
    let slots = [
        Slot::RunEnd,
        step("a", 1),
        step("a", 2),
        step("b", 1),
        Slot::SignalDecision(SignalId::new("a").unwrap()),
    ];
    let texts: std::collections::BTreeSet<String> = slots.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), slots.len());
}
