//! Appends that are refused as a whole: nothing of them is stored.

use engine_core::Code;
use engine_core::data::JOURNAL_BYTES;
use engine_core::port::store::{AppendAs, Fence};
use serde_json::Value;

use super::Harness;
use super::drafts::{
    alert, approved, cancelled, completed, completed_with, failed, invalid, rejected, started, timer,
};
use super::handle::{Owned, View, open, request};
use super::race::race;
use super::verdict::{events, freshness, names, places, refused, sound, stored};

/// One invalid event refuses the whole call, wherever it stands in it (EVENT-6).
pub async fn one_invalid_event_refuses_the_whole_call(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let calls = [
        vec![invalid("a", 1)],
        vec![alert("X", 1), started("b", 1), invalid("a", 1)],
        vec![invalid("a", 1), alert("X", 1)],
        vec![started("a", 0)],
        vec![alert("", 1)],
    ];
    for drafts in calls {
        refused(store.offer(&run, drafts).await, Code::SchemaValidationFailed);
        assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    }
    let view = store.view(&run).await;
    let decision = vec![approved(), invalid("a", 1)];
    refused(store.propose(&run, decision, view).await, Code::SchemaValidationFailed);
    assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    assert_eq!(store.record(&run).await.last_event_seq, 1);
    let told = store.tell(&run, vec![alert("X", 1)]).await;
    assert_eq!(places(&events(told)), [2], "a refusal leaves no gap");
}

/// Calls that are refused do not disturb those that run at the same time.
pub async fn invalid_calls_leave_concurrent_ones_alone(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let results = race(16, |number| {
        let (store, run) = (store.clone(), run.clone());
        async move {
            let code = format!("W{number}");
            let mut results = Vec::new();
            for round in 1..=5 {
                let drafts = match number % 2 {
                    0 => vec![alert(&code, round)],
                    _ => vec![alert(&code, round), invalid("a", 1)],
                };
                results.push(store.offer(&run, drafts).await);
            }
            results
        }
    })
    .await;
    for (number, results) in results.into_iter().enumerate() {
        for result in results {
            if number % 2 == 0 {
                assert_eq!(freshness(&stored(result)), [true]);
            } else {
                refused(result, Code::SchemaValidationFailed);
            }
        }
    }
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 1 + 8 * 5, "what is valid is stored, and nothing else");
}

/// A log entry over the limit is refused, and what comes with it; one near it is stored (DATA-23).
pub async fn an_event_over_the_limit_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let huge = completed_with("a", 1, Value::String("x".repeat(JOURNAL_BYTES)));
    refused(store.offer(&run, vec![alert("X", 1), huge.clone()]).await, Code::PayloadTooLarge);
    let view = store.view(&run).await;
    refused(store.propose(&run, vec![approved(), huge], view).await, Code::PayloadTooLarge);
    assert_eq!(store.log(&run).await.len(), 1, "nothing was stored");
    let large = completed_with("a", 1, Value::String("x".repeat(JOURNAL_BYTES - 1_000_000)));
    let told = events(store.tell(&run, vec![large]).await);
    assert!(store.log(&run).await[1] == told[0], "what is just below the limit is read back");
}

/// A decision cannot be passed off as a worker event (CORE-27).
pub async fn a_decision_that_is_appended_as_a_worker_event_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for drafts in [vec![approved()], vec![alert("X", 1), cancelled("a", 1)], vec![timer("t1"), alert("X", 1)]]
    {
        let result = store.offer(&run, drafts).await;
        assert!(result.is_err(), "{result:?}");
        assert_eq!(names(&store.log(&run).await), ["RunQueued"], "nothing was stored");
    }
}

/// After the end of a run only audit events are taken (STORE-10).
pub async fn after_the_end_only_audit_events_are_taken(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.ended_run("request").await;
    for draft in [started("a", 1), completed("a", 1), failed("b", 2)] {
        refused(store.offer(&run, vec![draft]).await, Code::RunTerminal);
    }
    refused(store.offer(&run, vec![alert("X", 1), completed("a", 1)]).await, Code::RunTerminal);
    assert_eq!(store.log(&run).await.len(), 4, "nothing was stored");
    let told = store.tell(&run, vec![alert("X", 1), rejected("s1")]).await;
    assert_eq!(freshness(&told), [true, true]);
    assert_eq!(places(&events(told)), [5, 6]);
}

/// A worker event that was stored before the end is given back after it: its first answer may have been lost.
pub async fn a_repeat_after_the_end_is_given_the_stored_event(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let first = store.tell(&run, vec![started("a", 1), completed("a", 1)]).await;
    store.decide(&run, vec![super::drafts::run_completed()]).await;
    let again = store.tell(&run, vec![completed("a", 1)]).await;
    assert_eq!(freshness(&again), [false]);
    assert_eq!(again[0].event, first[1].event);
    assert_eq!(store.log(&run).await.len(), 6);
}

/// What an earlier holder of the lease appends is refused, as worker and as driver.
pub async fn an_old_fence_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let old = store.lease_for(&run, "one", 15_000).await.expect("a lease");
    stored(store.offer_under(&run, vec![alert("X", 1)], old).await);
    store.clock.advance(15_001);
    let new = store.lease_for(&run, "two", 15_000).await.expect("the lease has expired");
    refused(store.offer_under(&run, vec![alert("X", 2)], old).await, Code::LeaseLost);
    let decision = |fence: Fence| {
        let append_as = AppendAs::Decision { expected: 1, nothing_after: None, folded_through: 2 };
        store.append(request(&run, vec![approved()], append_as, Some(fence)))
    };
    refused(decision(old).await, Code::LeaseLost);
    assert_eq!(store.log(&run).await.len(), 2, "nothing was stored");
    assert_eq!(freshness(&stored(decision(new).await)), [true]);
    assert_eq!(freshness(&store.tell(&run, vec![alert("X", 3)]).await), [true], "a worker needs no lease");
}

/// A run that another tenant has, or nobody, is not found (START-6).
pub async fn a_run_of_another_tenant_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let log = store.log(&run).await;
    for stranger in [run.by("globex"), Owned::unknown()] {
        refused(store.offer(&stranger, vec![alert("X", 1)]).await, Code::NotFound);
        let view = View { decisions: 1, nothing_after: None, folded_through: 1 };
        refused(store.propose(&stranger, vec![approved()], view).await, Code::NotFound);
        refused(store.read(super::handle::reading(&stranger, 0, 10)).await, Code::NotFound);
    }
    assert_eq!(store.log(&run).await, log);
}
