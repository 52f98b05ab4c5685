//! What cases expect, with messages that show what was there instead.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use engine_core::event::{Event, IdempotencyKey, Slot};
use engine_core::port::store::{Appended, StoredEvent};
use engine_core::{Code, Error, Result};

/// The longest that a case waits for something that must happen. A store that needs longer has lost it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s for {what}", PATIENCE.as_secs()),
    }
}

/// The refusal of a call, which must be under this code.
#[track_caller]
pub(crate) fn refused<T: Debug>(result: Result<T>, code: Code) -> Error {
    match result {
        Err(error) if error.code() == code => error,
        Err(error) => panic!("refused with {error} instead of {code}"),
        Ok(value) => panic!("{value:?} instead of {code}"),
    }
}

/// What an append stored or found, one for each draft.
#[track_caller]
pub(crate) fn stored(result: Result<Appended>) -> Vec<StoredEvent> {
    match result {
        Ok(Appended::Stored(stored)) => stored,
        other => panic!("expected stored events, not {other:?}"),
    }
}

/// What an append that met a conflict was told.
#[track_caller]
pub(crate) fn conflict(result: Result<Appended>) -> Vec<Event> {
    match result {
        Ok(Appended::Conflict(events)) => events,
        other => panic!("expected a conflict, not {other:?}"),
    }
}

/// Just the events.
pub(crate) fn events(stored: Vec<StoredEvent>) -> Vec<Event> {
    stored.into_iter().map(|stored| stored.event).collect()
}

/// Which of them the call stored.
pub(crate) fn freshness(stored: &[StoredEvent]) -> Vec<bool> {
    stored.iter().map(|stored| stored.fresh).collect()
}

/// The places of events in their log.
pub(crate) fn places(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.run_seq).collect()
}

/// The types of events.
pub(crate) fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.body.type_name()).collect()
}

/// A whole log is in order from 1 without gaps (STORE-2), and no key, slot or event id is in it twice (STORE-4,
/// STORE-5).
#[track_caller]
pub(crate) fn sound(log: &[Event]) {
    let expected: Vec<u64> = (1..=log.len() as u64).collect();
    assert_eq!(places(log), expected, "runSeq counts from 1 without gaps");
    let keys: BTreeSet<IdempotencyKey> = log.iter().map(|event| event.idempotency_key).collect();
    assert_eq!(keys.len(), log.len(), "no idempotency key is there twice");
    let ids: BTreeSet<_> = log.iter().map(|event| event.event_id).collect();
    assert_eq!(ids.len(), log.len(), "no event id is there twice");
    let mut slots = BTreeSet::new();
    for event in log {
        let key = IdempotencyKey::of(&event.run_id, event.subject.as_ref(), &event.body, &event.plan_version);
        assert_eq!(event.idempotency_key, key, "the key of {}", event.body.type_name());
        if let Some(slot) = Slot::of(event.subject.as_ref(), &event.body) {
            assert!(slots.insert(slot.clone()), "the slot {slot} is taken twice");
        }
    }
}
