//! One holder at a time decides for a run.

use engine_core::Code;
use engine_core::port::store::{CreateRequest, Fence, NewLease};

use super::Harness;
use super::drafts::{alert, creation};
use super::handle::{Owned, open};
use super::race::race;
use super::verdict::{freshness, refused, stored};

/// While a lease runs nobody else gets it, whichever handle asks.
pub async fn a_lease_excludes_others(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, free) = (store.run("request").await, store.run("free").await);
    store.lease_for(&run, "one", 15_000).await.expect("a lease");
    for handle in [store.clone(), store.other(harness).await] {
        refused(handle.lease_for(&run, "two", 15_000).await, Code::LeaseHeld);
    }
    store.clock.advance(14_999);
    refused(store.lease_for(&run, "two", 15_000).await, Code::LeaseHeld);
    store.lease_for(&free, "two", 15_000).await.expect("another run's lease is free");
}

/// Renewing keeps the fence and lets the lease run on from now.
pub async fn renewing_keeps_the_fence(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let fence = store.lease_for(&run, "one", 15_000).await.expect("a lease");
    store.clock.advance(10_000);
    assert_eq!(store.lease_for(&run, "one", 15_000).await.expect("renewed"), fence);
    store.clock.advance(10_000);
    refused(store.lease_for(&run, "two", 15_000).await, Code::LeaseHeld);
    assert_eq!(freshness(&stored(store.offer_under(&run, vec![alert("X", 1)], fence).await)), [true]);
}

/// One call renews all leases of a holder and nobody else's; what another has taken meanwhile stays taken.
pub async fn all_leases_of_a_holder_are_renewed_at_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(store.run(&format!("request-{number}")).await);
    }
    store.lease_for(&runs[0], "one", 15_000).await.expect("a lease");
    store.lease_for(&runs[1], "one", 5_000).await.expect("a lease");
    store.lease_for(&runs[2], "two", 15_000).await.expect("a lease");
    store.clock.advance(10_000);
    let lost = store.lease_for(&runs[1], "two", 15_000).await.expect("it has run out");
    assert_eq!(store.renew("one", 15_000).await.expect("renewed"), 1);
    assert_eq!(store.renew("nobody", 15_000).await.expect("renewed"), 0);
    store.clock.advance(10_000);
    refused(store.lease_for(&runs[0], "three", 15_000).await, Code::LeaseHeld);
    store.lease_for(&runs[2], "three", 15_000).await.expect("another holder's lease was not renewed");
    assert_eq!(store.lease_for(&runs[1], "two", 15_000).await.expect("its holder has it"), lost);
}

/// A lease expires by the store's clock; whoever takes it next has a higher fence.
pub async fn an_expired_lease_goes_to_the_next_with_a_higher_fence(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let mut fences = Vec::new();
    for holder in ["one", "two", "one", "three"] {
        fences.push(store.lease_for(&run, holder, 15_000).await.expect("the lease is free"));
        store.clock.advance(15_001);
    }
    assert!(fences.is_sorted_by(|old, new| old < new), "{fences:?} grow");
    store.lease_for(&run, "four", 15_000).await.expect("the lease is free");
    for fence in fences {
        refused(store.offer_under(&run, vec![alert("X", 1)], fence).await, Code::LeaseLost);
    }
}

/// A lease that is given back is free at once, and the next fence is higher all the same.
pub async fn a_released_lease_is_free_at_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let first = store.lease_for(&run, "one", 15_000).await.expect("a lease");
    store.release(&run.run_id, first).await.expect("released");
    let second = store.lease_for(&run, "two", 15_000).await.expect("the lease is free");
    assert!(second > first, "{second:?} after {first:?}");
    refused(store.offer_under(&run, vec![alert("X", 1)], first).await, Code::LeaseLost);
}

/// Giving an old lease back, or one that never was, changes nothing.
pub async fn releasing_with_an_old_fence_changes_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let old = store.lease_for(&run, "one", 15_000).await.expect("a lease");
    store.clock.advance(15_001);
    let current = store.lease_for(&run, "two", 15_000).await.expect("the lease has expired");
    store.release(&run.run_id, old).await.expect("harmless");
    store.release(&run.run_id, Fence(u64::MAX)).await.expect("harmless");
    store.release(&Owned::unknown().run_id, current).await.expect("harmless");
    refused(store.lease_for(&run, "three", 15_000).await, Code::LeaseHeld);
    assert_eq!(store.lease_for(&run, "two", 15_000).await.expect("renewed"), current);
}

/// Of sixteen who ask at once, through two handles, one gets the lease (START-4).
pub async fn one_of_many_gets_the_lease(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    let mut latest = Fence(0);
    for round in 0..3 {
        let results = race(16, |number| {
            let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
            async move { store.lease_for(&run, &format!("holder-{round}-{number}"), 15_000).await }
        })
        .await;
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|result| result.is_ok());
        assert_eq!(won.len(), 1, "one gets it in round {round}");
        for result in lost {
            refused(result, Code::LeaseHeld);
        }
        let fence = won.into_iter().flatten().next().expect("the winner's fence");
        assert!(fence > latest, "{fence:?} after {latest:?}");
        latest = fence;
        store.clock.advance(15_001);
    }
}

/// There is no lease of a run that is not there.
pub async fn an_unknown_run_has_no_lease(harness: &dyn Harness) {
    let store = open(harness).await;
    refused(store.lease_for(&Owned::unknown(), "one", 15_000).await, Code::NotFound);
}

/// A lease may be asked for longer than any clock runs.
pub async fn a_very_long_lease_is_a_lease(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let fence = store.lease_for(&run, "one", u64::MAX).await.expect("a lease");
    store.clock.advance(1_000_000_000_000);
    refused(store.lease_for(&run, "two", 1).await, Code::LeaseHeld);
    store.release(&run.run_id, fence).await.expect("released");
    store.lease_for(&run, "two", 1).await.expect("the lease is free");
}

/// A run that is made with its lease is its holder's from the first moment on, and its first event comes back as stored.
pub async fn a_run_may_be_made_with_its_lease(harness: &dyn Harness) {
    let store = open(harness).await;
    let lease = NewLease { holder: "one".into(), duration_ms: 15_000 };
    let request = CreateRequest { lease: Some(lease), ..creation("acme", "request") };
    let made = store.create(request.clone()).await.expect("a run");
    let run = Owned { tenant_id: request.queued.context.tenant_id.clone(), run_id: made.run_id.clone() };
    let read = store.log(&run).await;
    assert_eq!(made.queued.as_deref(), read.first(), "as it is stored");
    refused(store.lease_for(&run, "two", 15_000).await, Code::LeaseHeld);
    assert_eq!(store.lease_for(&run, "one", 15_000).await.expect("it has it"), Fence(1));
    assert_eq!(freshness(&stored(store.offer_under(&run, vec![alert("X", 1)], Fence(1)).await)), [true]);
    let again = store.create(request).await.expect("the same run");
    assert!(!again.fresh && again.run_id == made.run_id && again.queued.is_none());
    store.clock.advance(15_001);
    assert_eq!(store.lease_for(&run, "two", 15_000).await.expect("it has run out"), Fence(2));
    refused(store.offer_under(&run, vec![alert("X", 2)], Fence(1)).await, Code::LeaseLost);
}
