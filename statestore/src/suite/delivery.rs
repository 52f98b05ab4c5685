//! Deliveries that fail: waiting, dead letters and replay (BUS-3 to BUS-6).

use engine_core::Timestamp;
use engine_core::port::store::{Delivered, FailedDelivery, NextTry};

use super::Harness;
use super::drafts::{alert, alerts};
use super::handle::{Handle, Owned, open};

async fn fail(store: &Handle, run: &Owned, run_seq: u64, error: &str, next: NextTry) {
    let failed = FailedDelivery {
        relay: "relay".into(),
        run_id: run.run_id.clone(),
        run_seq,
        error: error.into(),
        next,
    };
    store.fail_delivery(failed).await.expect("noted");
}

async fn acknowledge(store: &Handle, run: &Owned, up_to_seq: u64) {
    let delivered = Delivered { relay: "relay".into(), run_id: run.run_id.clone(), up_to_seq };
    store.acknowledge(delivered).await.expect("acknowledged");
}

/// What the relay is given of a run: places, and failures of the first.
async fn waiting(store: &Handle, run: &Owned) -> (Vec<u64>, Option<u32>) {
    let entries = store.take("relay", 100).await;
    let own: Vec<_> = entries.into_iter().filter(|entry| entry.event.run_id == run.run_id).collect();
    (own.iter().map(|entry| entry.event.run_seq).collect(), own.first().map(|entry| entry.failures))
}

/// A failed event blocks its run until its time; what came before it counts as delivered, and other runs go on.
pub async fn a_failed_event_blocks_its_run_until_its_time(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    store.tell(&run, alerts("X", 1, 3)).await;
    store.tell(&another, alerts("X", 1, 1)).await;
    store.take("relay", 100).await;
    fail(&store, &run, 2, "away", NextTry::At(store.now().plus_millis(1000))).await;
    acknowledge(&store, &another, 1).await;
    store.tell(&run, vec![alert("Y", 1)]).await;
    let relay = store.take("relay", 100).await;
    assert!(relay.iter().all(|entry| entry.event.run_id == another.run_id), "{relay:?}");
    assert_eq!(relay.len(), 1, "the other run goes on");
    store.clock.advance(999);
    assert_eq!(waiting(&store, &run).await, (vec![], None), "not before its time");
    store.clock.advance(1);
    assert_eq!(waiting(&store, &run).await, (vec![2, 3, 4, 5], Some(1)));
}

/// Failures are counted for the event that fails and forgotten once it is delivered.
pub async fn failures_are_counted_for_the_first_event(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 2)).await;
    for failures in 0..3 {
        assert_eq!(waiting(&store, &run).await, (vec![1, 2, 3], Some(failures)));
        fail(&store, &run, 1, "away", NextTry::At(store.now())).await;
    }
    assert_eq!(waiting(&store, &run).await, (vec![1, 2, 3], Some(3)));
    acknowledge(&store, &run, 1).await;
    assert_eq!(waiting(&store, &run).await, (vec![2, 3], Some(0)), "another event has not failed");
    fail(&store, &run, 3, "away", NextTry::At(store.now())).await;
    assert_eq!(waiting(&store, &run).await, (vec![3], Some(1)), "the second of them failed");
}

/// The failures of one event are not those of the next: it has all its tries.
pub async fn the_failures_of_one_event_are_not_the_next_ones(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 2)).await;
    for _ in 0..2 {
        store.take("relay", 100).await;
        fail(&store, &run, 1, "away", NextTry::At(store.now())).await;
    }
    assert_eq!(waiting(&store, &run).await, (vec![1, 2, 3], Some(2)));
    // The first was delivered this time, and the second failed.
    fail(&store, &run, 2, "away", NextTry::At(store.now())).await;
    assert_eq!(waiting(&store, &run).await, (vec![2, 3], Some(1)));
    fail(&store, &run, 3, "no", NextTry::Never).await;
    let letters = store.dead_letters(10).await.expect("dead letters");
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].event.run_seq, letters[0].failures), (3, 1));
}

/// A dead letter is kept with what went wrong, and the run's next events go on.
pub async fn a_dead_letter_lets_the_next_events_go_on(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run_of("globex", "request").await;
    store.tell(&run, alerts("X", 1, 3)).await;
    store.take("relay", 100).await;
    fail(&store, &run, 2, "away", NextTry::At(store.now())).await;
    store.take("relay", 100).await;
    store.clock.advance(500);
    fail(&store, &run, 2, "too large for the bus", NextTry::Never).await;
    assert_eq!(waiting(&store, &run).await, (vec![3, 4], Some(0)));
    let letters = store.other(harness).await.dead_letters(100).await.expect("dead letters");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].tenant_id, run.tenant_id);
    assert_eq!(letters[0].event, store.log(&run).await[1]);
    assert_eq!(letters[0].failures, 2);
    assert_eq!(letters[0].error, "too large for the bus");
    assert_eq!(letters[0].given_up_at, store.now());
}

/// Dead letters are told oldest first, at most as many as asked for.
pub async fn dead_letters_are_told_oldest_first(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 3)).await;
    for run_seq in 1..=4 {
        store.take("relay", 100).await;
        fail(&store, &run, run_seq, "no", NextTry::Never).await;
        store.clock.advance(10);
    }
    let told = async |limit| -> Vec<u64> {
        let letters = store.dead_letters(limit).await.expect("dead letters");
        letters.iter().map(|letter| letter.event.run_seq).collect()
    };
    assert_eq!(told(100).await, [1, 2, 3, 4]);
    assert_eq!(told(2).await, [1, 2]);
    assert_eq!(told(usize::MAX).await, [1, 2, 3, 4]);
    assert_eq!(told(0).await, [0_u64; 0]);
    assert_eq!(waiting(&store, &run).await, (vec![], None));
}

/// Replayed letters of a run wait again, in order, and are letters no more (BUS-6).
pub async fn dead_letters_are_replayed(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    store.tell(&run, alerts("X", 1, 2)).await;
    for (run, last) in [(&run, 3), (&another, 1)] {
        for run_seq in 1..=last {
            store.take("relay", 100).await;
            fail(&store, run, run_seq, "no", NextTry::Never).await;
        }
    }
    assert_eq!(store.replay(Some(&Owned::unknown().run_id)).await.expect("replayed"), 0);
    assert_eq!(store.replay(Some(&run.run_id)).await.expect("replayed"), 3);
    let left = store.dead_letters(100).await.expect("dead letters");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].event.run_id, another.run_id);
    assert_eq!(waiting(&store, &run).await.0, [1, 2, 3]);
    acknowledge(&store, &run, 3).await;
    assert_eq!(store.replay(None).await.expect("replayed"), 1);
    assert_eq!(store.replay(None).await.expect("replayed"), 0);
    assert_eq!(waiting(&store, &another).await.0, [1]);
    assert_eq!(store.dead_letters(100).await.expect("dead letters"), []);
}

/// A replayed letter comes before what the run has not delivered yet.
pub async fn a_replayed_letter_comes_before_later_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 2)).await;
    store.take("relay", 100).await;
    fail(&store, &run, 1, "no", NextTry::Never).await;
    assert_eq!(store.replay(None).await.expect("replayed"), 1);
    assert_eq!(waiting(&store, &run).await.0, [1, 2, 3]);
}

/// Letters of a run that a relay has at the moment stay: replaying them would put them behind its back.
pub async fn letters_of_a_claimed_run_stay(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    store.tell(&run, alerts("X", 1, 2)).await;
    for run in [&run, &another] {
        store.take("relay", 100).await;
        fail(&store, run, 1, "no", NextTry::Never).await;
    }
    assert_eq!(
        waiting(&store, &run).await,
        (vec![], None),
        "it has the run since it gave up the other's letter"
    );
    assert_eq!(store.replay(None).await.expect("replayed"), 1, "only that of the run that nobody has");
    let letters = store.dead_letters(100).await.expect("dead letters");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].event.run_id, run.run_id);
    acknowledge(&store, &run, 3).await;
    assert_eq!(store.replay(None).await.expect("replayed"), 1);
}

/// A next try may lie at any time.
pub async fn extreme_times_are_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.take("relay", 100).await;
    fail(&store, &run, 1, "away", NextTry::At(Timestamp::from_millis(i64::MIN))).await;
    assert_eq!(waiting(&store, &run).await, (vec![1], Some(1)), "a time that is over is now");
    fail(&store, &run, 1, "away", NextTry::At(Timestamp::MAX)).await;
    store.clock.advance(1_000_000_000_000);
    assert_eq!(waiting(&store, &run).await, (vec![], None));
}
