//! One worker at a time runs an attempt.

use engine_core::port::store::{ClaimRequest, UnclaimRequest};
use engine_core::{Code, Result};

use super::Harness;
use super::drafts::step;
use super::handle::{Handle, Owned, open};
use super::race::race;
use super::verdict::refused;

async fn claim(store: &Handle, run: &Owned, attempt: (&str, u32), worker: &str) -> Result<()> {
    claim_for(store, run, attempt, worker, 15_000).await
}

async fn claim_for(
    store: &Handle,
    run: &Owned,
    attempt: (&str, u32),
    worker: &str,
    duration_ms: u64,
) -> Result<()> {
    store
        .claim(ClaimRequest {
            run_id: run.run_id.clone(),
            step_id: step(attempt.0),
            attempt: attempt.1,
            worker: worker.into(),
            duration_ms,
        })
        .await
}

async fn unclaim(store: &Handle, run: &Owned, attempt: (&str, u32), worker: &str) {
    let request = UnclaimRequest {
        run_id: run.run_id.clone(),
        step_id: step(attempt.0),
        attempt: attempt.1,
        worker: worker.into(),
    };
    store.unclaim(request).await.expect("harmless");
}

/// While a claim runs no other worker gets the attempt; other attempts, steps and runs are free.
pub async fn a_claim_excludes_others(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    claim(&store, &run, ("a", 1), "one").await.expect("a claim");
    for handle in [store.clone(), store.other(harness).await] {
        refused(claim(&handle, &run, ("a", 1), "two").await, Code::LeaseHeld);
    }
    claim(&store, &run, ("a", 2), "two").await.expect("another attempt");
    claim(&store, &run, ("b", 1), "two").await.expect("another step");
    claim(&store, &another, ("a", 1), "two").await.expect("another run");
}

/// A claim is renewed by its worker and expires by the store's clock.
pub async fn a_claim_is_renewed_and_expires(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    claim(&store, &run, ("a", 1), "one").await.expect("a claim");
    store.clock.advance(10_000);
    claim(&store, &run, ("a", 1), "one").await.expect("renewed");
    store.clock.advance(10_000);
    refused(claim(&store, &run, ("a", 1), "two").await, Code::LeaseHeld);
    store.clock.advance(5_001);
    claim(&store, &run, ("a", 1), "two").await.expect("the claim has expired");
    refused(claim(&store, &run, ("a", 1), "one").await, Code::LeaseHeld);
}

/// A claim that is given back is free at once; nobody gives back another's.
pub async fn a_claim_is_given_back_by_its_worker_only(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    claim(&store, &run, ("a", 1), "one").await.expect("a claim");
    unclaim(&store, &run, ("a", 1), "two").await;
    unclaim(&store, &run, ("a", 2), "one").await;
    unclaim(&store, &Owned::unknown(), ("a", 1), "one").await;
    refused(claim(&store, &run, ("a", 1), "two").await, Code::LeaseHeld);
    unclaim(&store, &run, ("a", 1), "one").await;
    claim(&store, &run, ("a", 1), "two").await.expect("the attempt is free");
}

/// Of sixteen workers that ask at once, through two handles, one gets the attempt.
pub async fn one_of_many_gets_the_claim(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    for _ in 0..3 {
        let results = race(16, |number| {
            let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
            async move { claim(&store, &run, ("a", 1), &format!("worker-{number}")).await }
        })
        .await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "one gets it");
        for result in results.into_iter().filter(Result::is_err) {
            refused(result, Code::LeaseHeld);
        }
        store.clock.advance(15_001);
    }
}

/// There is no claim on an attempt of a run that is not there.
pub async fn an_unknown_run_has_no_claims(harness: &dyn Harness) {
    let store = open(harness).await;
    refused(claim(&store, &Owned::unknown(), ("a", 1), "one").await, Code::NotFound);
}

/// Sweeping takes what has expired and nothing else.
pub async fn sweeping_leaves_claims_that_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    claim(&store, &run, ("a", 1), "one").await.expect("a claim");
    store.clock.advance(10_000);
    claim(&store, &run, ("b", 1), "one").await.expect("a claim");
    store.clock.advance(5_001);
    assert_eq!(store.sweep().await.expect("swept"), 0, "claims are not answers");
    claim(&store, &run, ("a", 1), "two").await.expect("the claim has expired");
    refused(claim(&store, &run, ("b", 1), "two").await, Code::LeaseHeld);
}

/// A claim may be asked for longer than any clock runs.
pub async fn a_very_long_claim_is_a_claim(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    claim_for(&store, &run, ("a", u32::MAX), "one", u64::MAX).await.expect("a claim");
    store.clock.advance(1_000_000_000_000);
    refused(claim(&store, &run, ("a", u32::MAX), "two").await, Code::LeaseHeld);
    unclaim(&store, &run, ("a", u32::MAX), "one").await;
    claim(&store, &run, ("a", u32::MAX), "two").await.expect("the attempt is free");
}
