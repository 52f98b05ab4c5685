//! Appending decisions: all or nothing, and only on a view that is not stale (STORE-8, STORE-13, CORE-28).

use engine_core::Code;

use super::Harness;
use super::drafts::{
    accepted, alert, alerts, approved, cancelled, completed, failed, paused, resumed, run_completed, started,
    timer,
};
use super::handle::{View, open};
use super::verdict::{conflict, events, freshness, names, places, refused, sound, stored};

/// What a driver that knows the log decides is stored as a whole.
pub async fn decisions_on_the_latest_view_are_stored(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let view = View { decisions: 1, nothing_after: Some(1), folded_through: 1 };
    let told = stored(store.propose(&run, vec![approved(), timer("t1")], view).await);
    assert_eq!(freshness(&told), [true, true]);
    assert_eq!(places(&events(told)), [2, 3]);
    sound(&store.log(&run).await);
}

/// Worker events that a signal causes are part of the decision (CORE-31).
pub async fn a_decision_may_carry_worker_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let view = View { decisions: 1, nothing_after: Some(1), folded_through: 1 };
    let drafts = vec![accepted("s1"), completed("a", 1)];
    assert_eq!(freshness(&stored(store.propose(&run, drafts, view).await)), [true, true]);
    // The second is a worker event: it does not count as a decision.
    let view = View { decisions: 2, nothing_after: None, folded_through: 3 };
    assert_eq!(freshness(&stored(store.propose(&run, vec![timer("t1")], view).await)), [true]);
}

/// Worker and audit events that came meanwhile are no conflict for what may be decided without them.
pub async fn worker_events_meanwhile_are_no_conflict(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![started("a", 1), alert("X", 1)]).await;
    let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
    let told = stored(store.propose(&run, vec![approved()], view).await);
    assert_eq!(places(&events(told)), [4]);
}

/// Another number of decisions than the log has is a conflict, told with every event that the driver did not fold.
pub async fn another_number_of_decisions_is_a_conflict(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![started("a", 1)]).await;
    store.decide(&run, vec![approved()]).await;
    store.tell(&run, vec![completed("a", 1)]).await;
    let log = store.log(&run).await;
    for (decisions, folded_through) in [(1, 1), (1, 2), (0, 0), (3, 4), (u64::MAX, 3)] {
        let view = View { decisions, nothing_after: None, folded_through };
        let unknown = conflict(store.propose(&run, vec![timer("t1"), timer("t2")], view).await);
        let expected = &log[usize::try_from(folded_through).expect("small")..];
        assert_eq!(unknown, expected, "everything after {folded_through}");
    }
    let beyond = View { decisions: 9, nothing_after: None, folded_through: u64::MAX };
    assert_eq!(
        conflict(store.propose(&run, vec![timer("t1")], beyond).await),
        [],
        "it folded more than there is"
    );
    assert_eq!(store.log(&run).await, log, "nothing was stored");
}

/// The effects of a signal are not decided on a stale view, even when only a worker wrote meanwhile (STORE-13).
pub async fn effects_of_a_signal_need_the_latest_view(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![started("a", 1)]).await;
    let stale = View { decisions: 1, nothing_after: Some(1), folded_through: 1 };
    let unknown = conflict(store.propose(&run, vec![accepted("s1"), cancelled("b", 1)], stale).await);
    assert_eq!(names(&unknown), ["StepStarted"]);
    let log = store.log(&run).await;
    assert_eq!(log.len(), 2, "nothing was stored");
    let latest = View { decisions: 1, nothing_after: Some(2), folded_through: 2 };
    stored(store.propose(&run, vec![accepted("s1"), cancelled("b", 1)], latest).await);
    assert_eq!(store.log(&run).await.len(), 4);
}

/// A key that is taken keeps the whole decision out.
pub async fn a_taken_key_keeps_the_whole_decision_out(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.decide(&run, vec![timer("t1")]).await;
    let log = store.log(&run).await;
    let view = View { decisions: 2, nothing_after: None, folded_through: 1 };
    let unknown = conflict(store.propose(&run, vec![approved(), timer("t1")], view).await);
    assert_eq!(unknown, log[1..]);
    assert_eq!(store.log(&run).await, log, "nothing was stored");
}

/// A slot that is taken keeps the whole decision out, and the end that took it is told.
pub async fn a_taken_slot_keeps_the_whole_decision_out(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![completed("a", 1)]).await;
    let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
    let unknown = conflict(store.propose(&run, vec![timer("t1"), cancelled("a", 1)], view).await);
    assert_eq!(names(&unknown), ["StepCompleted"]);
    assert_eq!(store.log(&run).await.len(), 2, "nothing was stored");
}

/// A driver that folds what it was told and decides again is taken (CORE-29).
pub async fn deciding_again_after_a_conflict_is_taken(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.decide(&run, vec![approved(), timer("t1")]).await;
    let stale = View { decisions: 1, nothing_after: None, folded_through: 1 };
    let unknown = conflict(store.propose(&run, vec![timer("t2")], stale).await);
    let told = unknown.len() as u64;
    assert_eq!(told, 2);
    let again = View { decisions: 1 + told, nothing_after: Some(1 + told), folded_through: 1 + told };
    assert_eq!(freshness(&stored(store.propose(&run, vec![timer("t2")], again).await)), [true]);
}

/// A decision that came to the store twice, because the first answer was lost, is told with its own events.
pub async fn a_decision_that_comes_again_is_told_with_its_own_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
    let first = events(stored(store.propose(&run, vec![approved(), timer("t1")], view).await));
    let again = conflict(store.propose(&run, vec![approved(), timer("t1")], view).await);
    assert_eq!(again, first);
    assert_eq!(store.log(&run).await.len(), 3);
}

/// A decision that holds one key or slot twice is stored neither in whole nor in part.
pub async fn a_decision_that_contradicts_itself_stores_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for drafts in [vec![timer("t1"), timer("t1")], vec![approved(), cancelled("a", 1), failed("a", 1)]] {
        let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
        let result = store.propose(&run, drafts, view).await;
        assert!(
            !matches!(result, Ok(engine_core::port::store::Appended::Stored(_))),
            "two events in one place: {result:?}"
        );
        assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    }
}

/// The events of a conflict are all of them, however many.
pub async fn a_conflict_tells_every_event_that_was_not_folded(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 600)).await;
    store.tell(&run, alerts("Y", 1, 600)).await;
    store.decide(&run, vec![approved()]).await;
    let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
    let unknown = conflict(store.propose(&run, vec![timer("t1")], view).await);
    assert_eq!(unknown, store.log(&run).await[1..]);
    assert_eq!(unknown.len(), 1201);
}

/// A driver that knows that the run has ended is refused; one that does not know is told (STORE-10).
pub async fn after_the_end_a_driver_is_refused_or_told(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.ended_run("request").await;
    let knows = store.view(&run).await;
    refused(store.propose(&run, vec![timer("t1")], knows).await, Code::RunTerminal);
    let signal = View { nothing_after: Some(knows.folded_through), ..knows };
    refused(store.propose(&run, vec![accepted("s1")], signal).await, Code::RunTerminal);
    let stale = View {
        decisions: knows.decisions - 1,
        nothing_after: None,
        folded_through: knows.folded_through - 1,
    };
    let unknown = conflict(store.propose(&run, vec![timer("t1")], stale).await);
    assert_eq!(names(&unknown), ["RunCompleted"]);
    assert_eq!(store.log(&run).await.len(), 4, "nothing was stored");
}

/// A run ends once: a second end, decided by a driver that did not see the first, is a conflict (STORE-5).
pub async fn a_run_ends_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let view = store.view(&run).await;
    stored(store.propose(&run, vec![run_completed()], view).await);
    let second = super::samples::one(engine_core::event::EventType::RunCancelled);
    let unknown = conflict(store.propose(&run, vec![second], view).await);
    assert_eq!(names(&unknown), ["RunCompleted"]);
    sound(&store.log(&run).await);
}

/// Within one decision, too, only audit events follow the end of the run.
pub async fn within_one_decision_only_audit_follows_the_end(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let view = store.view(&run).await;
    refused(store.propose(&run, vec![run_completed(), timer("t1")], view).await, Code::RunTerminal);
    refused(store.propose(&run, vec![run_completed(), completed("a", 1)], view).await, Code::RunTerminal);
    assert_eq!(store.log(&run).await.len(), 3, "nothing was stored");
    let told = stored(store.propose(&run, vec![run_completed(), alert("X", 1)], view).await);
    assert_eq!(freshness(&told), [true, true]);
}

/// A pause has its number: the next one is another event.
pub async fn every_pause_is_an_event_of_its_own(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let told = store.decide(&run, vec![paused(1), resumed(1), paused(2), resumed(2)]).await;
    assert_eq!(freshness(&told), [true; 4]);
    sound(&store.log(&run).await);
}
