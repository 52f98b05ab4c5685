//! Appending what workers tell: places, keys, duplicates and slots (STORE-1 to STORE-9, STORE-14).

use std::collections::BTreeSet;

use engine_core::event::{Draft, Event, EventType, SCHEMA_VERSION};
use engine_core::machine::RunStatus;

use super::drafts::{
    accepted, alert, alerts, completed, failed, rejected, retried, review, started, waiting,
};
use super::handle::{APPENDER, Handle, open};
use super::verdict::{events, freshness, names, places, sound};
use super::{Harness, drafts, samples};

/// The first event has place 1, every later one the next, over several calls (STORE-2).
pub async fn places_count_from_one_without_gaps(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let first = store.tell(&run, vec![started("a", 1), started("b", 1)]).await;
    let second = store.tell(&run, vec![completed("a", 1)]).await;
    let third = store.tell(&run, alerts("X", 1, 3)).await;
    assert_eq!(places(&events(first)), [2, 3]);
    assert_eq!(places(&events(second)), [4]);
    assert_eq!(places(&events(third)), [5, 6, 7]);
    sound(&store.log(&run).await);
}

/// Places are counted for each run by itself.
pub async fn places_of_one_run_do_not_depend_on_another(harness: &dyn Harness) {
    let store = open(harness).await;
    let (left, right) = (store.run("left").await, store.run("right").await);
    store.tell(&left, alerts("X", 1, 5)).await;
    let told = store.tell(&right, vec![alert("X", 1)]).await;
    assert_eq!(places(&events(told)), [2]);
    assert_eq!(store.log(&left).await.len(), 6);
}

/// The envelope is the store's: its clock, who appends, the run's correlation and plan version (EVENT-1, EVENT-3).
pub async fn the_store_fills_in_the_envelope(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.clock.advance(777);
    let occurred_at = store.now();
    store.clock.advance(111);
    let told = events(store.tell(&run, vec![started("a", 1).at(occurred_at), alert("X", 1)]).await);
    for event in &told {
        assert_eq!(event.run_id, run.run_id);
        assert_eq!(event.emitted_at, store.now());
        assert_eq!(&*event.emitted_by, APPENDER);
        assert_eq!(&*event.correlation_id, "correlation");
        assert_eq!(event.plan_version.as_str(), "1.2.0");
        assert_eq!(&*event.schema_version, SCHEMA_VERSION);
    }
    assert_eq!(told[0].occurred_at, Some(occurred_at));
    assert_eq!(told[1].occurred_at, None);
    let queued = &store.log(&run).await[0];
    assert_eq!(&*queued.emitted_by, "starter");
    assert_eq!(&*queued.correlation_id, "correlation");
}

/// Every type, also one that nobody knows, is read back as it was appended, through another handle too.
pub async fn every_type_is_read_back_as_it_was_appended(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let mut seen = BTreeSet::new();
    for end in samples::ENDS {
        let run = store.run(end.as_str()).await;
        let mut expected: Vec<Draft> = samples::decisions();
        let mut appended = events(store.decide(&run, samples::decisions()).await);
        for draft in samples::reports() {
            // One by one: the end of an attempt closes it to what other samples tell.
            expected.push(draft.clone());
            appended.extend(events(store.tell(&run, vec![draft]).await));
        }
        expected.push(samples::one(end));
        appended.extend(events(store.decide(&run, vec![samples::one(end)]).await));
        let log = store.log(&run).await;
        assert_eq!(log[1..], appended, "what was read is what append returned");
        for (event, draft) in log[1..].iter().zip(&expected) {
            assert_eq!(event.body, draft.body, "the payload of {}", draft.body.type_name());
            assert_eq!(event.subject, draft.subject, "the subject of {}", draft.body.type_name());
            assert_eq!(event.occurred_at, draft.occurred_at, "the time of {}", draft.body.type_name());
        }
        sound(&log);
        assert_eq!(other.log(&run).await, log, "another handle reads the same");
        seen.extend(log.iter().map(|event| event.body.type_name().to_owned()));
        assert_eq!(store.record(&run).await.last_event_seq, log.len() as u64);
        assert!(store.record(&run).await.status.is_terminal());
    }
    let every: BTreeSet<String> =
        EventType::ALL.iter().map(ToString::to_string).chain(["StepTeleported".into()]).collect();
    assert_eq!(seen, every, "a type is missing among the samples");
}

/// An append that comes again changes nothing and is given the stored events (STORE-6).
pub async fn appending_again_returns_the_stored_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let drafts = vec![started("a", 1), retried("a", 1, 1), completed("a", 1), alert("X", 1)];
    let first = store.tell(&run, drafts.clone()).await;
    assert_eq!(freshness(&first), [true; 4]);
    let log = store.log(&run).await;
    store.clock.advance(5000);
    let again = store.other(harness).await.tell(&run, drafts[2..].to_vec()).await;
    assert_eq!(freshness(&again), [false; 2]);
    assert_eq!(events(again), events(first)[2..], "the same ids, places and times");
    assert_eq!(store.log(&run).await, log, "nothing was added");
}

/// What counts is the key: a repeat with other content is given the stored content.
pub async fn a_repeat_with_other_content_is_given_the_stored_content(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let first = store.tell(&run, vec![drafts::completed_with("a", 1, "first".into())]).await;
    let again = store.tell(&run, vec![drafts::completed_with("a", 1, "second".into())]).await;
    assert_eq!(freshness(&again), [false]);
    assert_eq!(events(again), events(first));
}

/// Two drafts with one key in one call are one event.
pub async fn a_repeat_within_one_call_is_one_event(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let told = store.tell(&run, vec![alert("X", 1), alert("X", 1), alert("X", 2)]).await;
    assert_eq!(freshness(&told), [true, false, true]);
    assert_eq!(places(&events(told)), [2, 2, 3]);
    sound(&store.log(&run).await);
}

/// An attempt ends once, whatever the type of the second end (STORE-5).
pub async fn an_attempt_ends_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let ended = store.tell(&run, vec![completed("a", 1)]).await;
    let late = store.tell(&run, vec![failed("a", 1)]).await;
    assert_eq!(freshness(&late), [false]);
    assert_eq!(events(late), events(ended), "the end that is stored");
    let both = store.tell(&run, vec![failed("b", 1), completed("b", 1)]).await;
    assert_eq!(freshness(&both), [true, false]);
    assert_eq!(names(&events(both)), ["StepFailed", "StepFailed"]);
    assert_eq!(names(&store.log(&run).await), ["RunQueued", "StepCompleted", "StepFailed"]);
}

/// The end of one attempt is not in the way of the next attempt or of another step.
pub async fn another_attempt_has_an_end_of_its_own(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let told =
        store.tell(&run, vec![failed("a", 1), failed("a", 2), completed("a", 11), completed("b", 1)]).await;
    assert_eq!(freshness(&told), [true; 4]);
    sound(&store.log(&run).await);
}

/// A signal is decided once: a refusal does not follow an acceptance (STORE-5).
pub async fn a_signal_is_decided_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let decided = store.decide(&run, vec![accepted("s1")]).await;
    let refusal = store.tell(&run, vec![rejected("s1"), rejected("s2")]).await;
    assert_eq!(freshness(&refusal), [false, true]);
    assert_eq!(refusal[0].event, decided[0].event);
    assert_eq!(store.log(&run).await.len(), 3);
}

/// A start, a retry, a wait and a review that come after the end of their attempt are given that end (STORE-14).
pub async fn what_comes_after_the_end_of_an_attempt_is_given_the_end(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let end = store.tell(&run, vec![completed("a", 1)]).await;
    let too_late = [started("a", 1), retried("a", 1, 1), waiting("a", 1), review("a", 1, 1)];
    for draft in too_late.clone() {
        let told = store.tell(&run, vec![draft]).await;
        assert_eq!(freshness(&told), [false]);
        assert_eq!(told[0].event, end[0].event);
    }
    let told =
        store.tell(&run, [vec![failed("b", 1)], vec![started("b", 1), started("b", 2)]].concat()).await;
    assert_eq!(freshness(&told), [true, false, true], "an end in the same call closes the attempt too");
    assert_eq!(told[1].event, told[0].event);
    assert_eq!(names(&store.log(&run).await), ["RunQueued", "StepCompleted", "StepFailed", "StepStarted"]);
}

/// A start that comes again after the end of its attempt is given what is stored: itself or the end.
pub async fn a_repeated_start_after_the_end_of_its_attempt_stores_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let told = events(store.tell(&run, vec![started("a", 1), completed("a", 1)]).await);
    let again = store.tell(&run, vec![started("a", 1)]).await;
    assert_eq!(freshness(&again), [false]);
    assert!(told.contains(&again[0].event), "{:?} is neither of the two", again[0].event);
    assert_eq!(store.log(&run).await.len(), 3);
}

/// In a call of worker events each stands alone (STORE-9).
pub async fn taken_and_fresh_events_in_one_call_stand_alone(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let before = events(store.tell(&run, vec![started("a", 1), completed("a", 1)]).await);
    let mixed = vec![
        alert("X", 1),
        failed("a", 1),
        started("b", 1),
        completed("a", 1),
        waiting("a", 1),
        completed("b", 1),
    ];
    let told = store.tell(&run, mixed).await;
    assert_eq!(freshness(&told), [true, false, true, false, false, true]);
    let told = events(told);
    for taken in [1, 3, 4] {
        assert_eq!(told[taken], before[1]);
    }
    assert_eq!(places(&told), [4, 3, 5, 3, 3, 6]);
    sound(&store.log(&run).await);
}

/// A call without events stores nothing.
pub async fn a_call_without_events_stores_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    assert!(store.tell(&run, Vec::new()).await.is_empty());
    assert_eq!(store.log(&run).await.len(), 1);
}

/// A call may carry a thousand events.
pub async fn a_call_may_carry_many_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let told = store.tell(&run, alerts("X", 1, 1000)).await;
    assert!(told.iter().all(|stored| stored.fresh));
    let log: Vec<Event> = store.log(&run).await;
    assert_eq!(log[1..], events(told));
    sound(&log);
    assert_eq!(store.record(&run).await.status, RunStatus::Pending);
}

/// What was acknowledged is there when the store is opened anew (STORE-11).
pub async fn what_was_acknowledged_is_there_after_reopening(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    store.tell(&run, alerts("X", 1, 20)).await;
    let (log, record) = (store.log(&run).await, store.record(&run).await);
    let clock = store.clock.clone();
    drop(store);
    // Data that cannot be shared ends with its store.
    let Some(again) = Handle::reopened(harness, clock).await else { return };
    assert_eq!(again.log(&run).await, log);
    assert_eq!(again.record(&run).await, record);
    let told = again.tell(&run, vec![alert("X", 20), alert("X", 21)]).await;
    assert_eq!(freshness(&told), [false, true]);
    sound(&again.log(&run).await);
}
