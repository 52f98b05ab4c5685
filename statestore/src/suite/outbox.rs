//! The outbox: every event is in it, and one relay at a time has a run (BUS-1 to BUS-3).

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::Code;
use engine_core::event::Event;
use engine_core::port::store::{ClaimOutbox, Delivered, OutboxEntry, SaveCheckpoint};
use tokio::sync::Mutex;

use super::Harness;
use super::drafts::{alert, alerts, approved, checkpoint_id, completed, failed, invalid, started, timer};
use super::handle::{Handle, Owned, View, open};
use super::race::race;
use super::verdict::{conflict, places, refused};

fn events(entries: Vec<OutboxEntry>) -> Vec<Event> {
    entries.into_iter().map(|entry| entry.event).collect()
}

async fn acknowledge(store: &Handle, run: &Owned, relay: &str, up_to_seq: u64) {
    let delivered = Delivered { relay: relay.into(), run_id: run.run_id.clone(), up_to_seq };
    store.acknowledge(delivered).await.expect("acknowledged");
}

/// Every event that is in the log is in the outbox, in order, with its tenant.
pub async fn every_event_is_in_the_outbox(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run_of("globex", "request").await;
    store.start(&run).await;
    store.tell(&run, vec![started("a", 1), completed("a", 1)]).await;
    let projection = store.projection(&run).await.record();
    store
        .save_checkpoint(SaveCheckpoint {
            tenant_id: run.tenant_id.clone(),
            run_id: run.run_id.clone(),
            checkpoint_id: checkpoint_id("c1"),
            projection,
            emitted_by: "keeper".into(),
        })
        .await
        .expect("a checkpoint");
    let entries = store.other(harness).await.take("relay", 100).await;
    assert!(entries.iter().all(|entry| entry.tenant_id == run.tenant_id && entry.failures == 0));
    assert_eq!(events(entries), store.log(&run).await);
}

/// What was not stored is not in the outbox: refusals, conflicts and repeats leave no entry.
pub async fn what_was_not_stored_is_not_in_the_outbox(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![completed("a", 1)]).await;
    store.tell(&run, vec![completed("a", 1), failed("a", 1)]).await;
    refused(store.offer(&run, vec![alert("X", 1), invalid("b", 1)]).await, Code::SchemaValidationFailed);
    let stale = View { decisions: 0, nothing_after: None, folded_through: 0 };
    conflict(store.propose(&run, vec![approved(), timer("t1")], stale).await);
    store.create(super::drafts::creation("acme", "request")).await.expect("the same run");
    assert_eq!(places(&events(store.take("relay", 100).await)), [1, 2]);
}

/// What is acknowledged does not come again; what is not acknowledged does, once it is given back.
pub async fn acknowledged_events_are_gone(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 4)).await;
    assert_eq!(places(&events(store.take("relay", 100).await)), [1, 2, 3, 4, 5]);
    acknowledge(&store, &run, "relay", 2).await;
    assert_eq!(places(&events(store.take("relay", 100).await)), [3, 4, 5]);
    acknowledge(&store, &run, "relay", 5).await;
    assert_eq!(store.take("relay", 100).await, []);
    store.tell(&run, vec![alert("Y", 1)]).await;
    assert_eq!(places(&events(store.take("relay", 100).await)), [6]);
}

/// Acknowledging again, or what was never there, changes nothing.
pub async fn acknowledging_again_is_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    store.take("relay", 100).await;
    for up_to_seq in [1, 1, 0] {
        acknowledge(&store, &run, "relay", up_to_seq).await;
    }
    acknowledge(&store, &Owned::unknown(), "relay", 7).await;
    store.tell(&run, vec![alert("X", 1)]).await;
    acknowledge(&store, &another, "relay", 0).await;
    let waiting = events(store.take("relay", 100).await);
    let of = |owned: &Owned| -> Vec<u64> {
        waiting.iter().filter(|event| event.run_id == owned.run_id).map(|event| event.run_seq).collect()
    };
    assert_eq!((of(&run), of(&another)), (vec![2], vec![1]));
}

/// Acknowledging more than there is takes nothing that comes later.
pub async fn acknowledging_too_much_swallows_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.take("relay", 100).await;
    acknowledge(&store, &run, "relay", u64::MAX).await;
    store.tell(&run, alerts("X", 1, 2)).await;
    assert_eq!(places(&events(store.take("relay", 100).await)), [2, 3]);
}

/// A run that has always more does not keep the others from their turn.
pub async fn a_busy_run_lets_the_others_have_their_turn(harness: &dyn Harness) {
    let store = open(harness).await;
    let busy = store.run("busy").await;
    store.tell(&busy, alerts("X", 1, 5)).await;
    store.clock.advance(10);
    let quiet = store.run("quiet").await;
    assert_eq!(places(&events(store.take("relay", 2).await)), [1, 2], "the busy one waits longest");
    store.clock.advance(10);
    acknowledge(&store, &busy, "relay", 2).await;
    let next = events(store.take("relay", 2).await);
    assert_eq!(next[0].run_id, quiet.run_id);
    assert_eq!(next[1].run_id, busy.run_id);
    assert_eq!(places(&next), [1, 3]);
}

/// What waits longest comes first, no more than was asked for, and a part of a run is its beginning.
pub async fn what_waits_longest_comes_first(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut runs = Vec::new();
    for number in 0..3 {
        runs.push(store.run(&format!("request-{number}")).await);
        store.clock.advance(10);
    }
    let first = events(store.take("relay", 2).await);
    let ids: Vec<_> = first.iter().map(|event| event.run_id.clone()).collect();
    assert_eq!(ids, [runs[0].run_id.clone(), runs[1].run_id.clone()]);
    store.tell(&runs[2], alerts("X", 1, 5)).await;
    let rest = events(store.take("another", 3).await);
    assert!(rest.iter().all(|event| event.run_id == runs[2].run_id), "{rest:?}");
    assert_eq!(places(&rest), [1, 2, 3]);
    acknowledge(&store, &runs[2], "another", 3).await;
    assert_eq!(places(&events(store.take("another", 100).await)), [4, 5, 6]);
}

/// While a relay has a run, no other relay gets any event of it, also not one that comes later.
pub async fn a_claimed_run_is_nobody_elses(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 3)).await;
    assert_eq!(places(&events(store.take("one", 2).await)), [1, 2]);
    store.tell(&run, vec![alert("Y", 1)]).await;
    assert_eq!(other.take("two", 100).await, [], "the rest of the run is claimed too");
    let free = store.run("free").await;
    let taken = events(other.take("two", 100).await);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0].run_id, free.run_id, "other runs go on");
    acknowledge(&store, &run, "one", 2).await;
    assert_eq!(places(&events(other.take("two", 100).await)), [3, 4, 5], "acknowledging gives the run back");
}

/// A claim expires by the store's clock, and its events are handed out again.
pub async fn an_expired_claim_is_handed_out_again(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![alert("X", 1)]).await;
    let first = store.take("one", 100).await;
    store.clock.advance(9_999);
    assert_eq!(store.take("two", 100).await, []);
    store.clock.advance(2);
    assert_eq!(events(store.take("two", 100).await), events(first));
}

/// A relay that comes back late does not give away the claim of the one after it.
pub async fn a_late_acknowledgement_leaves_the_next_claim(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 3)).await;
    store.take("one", 100).await;
    store.clock.advance(10_001);
    assert_eq!(places(&events(store.take("two", 100).await)), [1, 2, 3, 4]);
    acknowledge(&store, &run, "one", 1).await;
    assert_eq!(store.take("three", 100).await, [], "the run is still the second relay's");
    acknowledge(&store, &run, "two", 4).await;
    assert_eq!(store.take("three", 100).await, []);
}

/// Sixteen relays at once through two handles: every event is handed to one of them.
pub async fn relays_that_claim_at_once_share_no_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let mut runs = Vec::new();
    for number in 0..10 {
        let run = store.run(&format!("request-{number}")).await;
        store.tell(&run, alerts("X", 1, 2)).await;
        runs.push(run);
    }
    let taken = race(16, |number| {
        let store = [&store, &other][number % 2].clone();
        async move { events(store.take(&format!("relay-{number}"), 6).await) }
    })
    .await;
    for run in &runs {
        let holders = taken.iter().filter(|events| events.iter().any(|event| event.run_id == run.run_id));
        assert!(holders.count() <= 1, "{} was handed to two relays", run.run_id);
    }
    // Whatever the first round left is there for the next.
    store.clock.advance(10_001);
    assert_eq!(store.take("relay", 100).await.len(), 30);
}

/// Relays that take and acknowledge while others append deliver each run in order, each event once.
pub async fn relays_deliver_in_order_while_others_append(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(store.run(&format!("request-{number}")).await);
    }
    let bus = Arc::new(Mutex::new(Vec::<Event>::new()));
    let total = runs.len() * 13;
    race(8, |number| {
        let (store, runs, bus) = ([&store, &other][number % 2].clone(), runs.clone(), bus.clone());
        async move {
            if number < 4 {
                for round in 0..12 {
                    store.tell(&runs[number], vec![alert("X", round)]).await;
                }
                return;
            }
            let relay = format!("relay-{number}");
            while bus.lock().await.len() < total {
                let mut latest = BTreeMap::new();
                for entry in store.take(&relay, 5).await {
                    latest.insert(entry.event.run_id.clone(), entry.event.run_seq);
                    bus.lock().await.push(entry.event);
                }
                for (run_id, up_to_seq) in latest {
                    let delivered = Delivered { relay: relay.clone(), run_id, up_to_seq };
                    store.acknowledge(delivered).await.expect("acknowledged");
                }
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    let delivered = bus.lock().await;
    for run in &runs {
        let own: Vec<Event> = delivered.iter().filter(|event| event.run_id == run.run_id).cloned().collect();
        assert_eq!(own, store.log(run).await, "each event once, in order");
    }
}

/// Nothing and everything can be asked for, for any time.
pub async fn extreme_claims_are_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    assert_eq!(store.take("relay", 0).await, []);
    let request = ClaimOutbox { relay: "relay".into(), limit: usize::MAX, duration_ms: u64::MAX };
    assert_eq!(store.claim_outbox(request).await.expect("entries").len(), 1);
    store.clock.advance(1_000_000_000_000);
    assert_eq!(store.take("another", 100).await, [], "a very long claim is a claim");
    acknowledge(&store, &run, "relay", 1).await;
    store.tell(&run, vec![alert("X", 1)]).await;
    assert_eq!(places(&events(store.take("another", 100).await)), [2]);
}
