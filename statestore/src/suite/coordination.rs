//! How far somebody has acted, and which runs nobody cares for (CORE-35 to CORE-37).

use std::slice::from_ref;

use engine_core::port::store::RunRecord;
use engine_core::{Code, RunId, Timestamp};

use super::Harness;
use super::drafts::{alert, alerts};
use super::handle::{Handle, open};
use super::verdict::refused;

fn ids(runs: Vec<RunRecord>) -> Vec<RunId> {
    runs.into_iter().map(|run| run.run_id).collect()
}

async fn neglected(store: &Handle, since: Timestamp) -> Vec<RunId> {
    ids(store.neglected(since, 100).await.expect("runs"))
}

async fn unattended(store: &Handle) -> Vec<RunId> {
    ids(store.unattended(100).await.expect("runs"))
}

/// What was acted on is remembered and never goes backwards.
pub async fn what_was_acted_on_never_goes_backwards(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 5)).await;
    for (told, remembered) in [(2, 2), (5, 5), (3, 5), (0, 5), (6, 6)] {
        store.acted(&run.run_id, told).await.expect("remembered");
        assert_eq!(store.other(harness).await.record(&run).await.acted_seq, remembered);
    }
}

/// More than the log has can be told, and the run goes on.
pub async fn acting_beyond_the_log_is_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for seq in [i64::MAX as u64, u64::MAX] {
        store.acted(&run.run_id, seq).await.expect("remembered");
        assert!(store.record(&run).await.acted_seq >= 1);
    }
    store.tell(&run, vec![alert("X", 1)]).await;
    assert_eq!(store.record(&run).await.last_event_seq, 2);
}

/// A run whose log has been ahead of what was acted on for long enough is neglected; one that is acted on is not.
pub async fn a_run_that_nobody_acts_on_is_neglected(harness: &dyn Harness) {
    let store = open(harness).await;
    let made = store.now();
    let run = store.run("request").await;
    store.clock.advance(10_000);
    assert_eq!(neglected(&store, made).await, [] as [RunId; 0], "not before it was made");
    assert_eq!(neglected(&store, made.plus_millis(1)).await, from_ref(&run.run_id));
    store.acted(&run.run_id, 1).await.expect("remembered");
    store.clock.advance(10_000);
    assert_eq!(neglected(&store, store.now()).await, [] as [RunId; 0], "everything was acted on");
}

/// A run that was acted on is neglected again only from the moment when its log went on.
pub async fn neglect_counts_from_when_the_log_went_on(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.acted(&run.run_id, 1).await.expect("remembered");
    store.clock.advance(60_000);
    let went_on = store.now();
    store.tell(&run, vec![alert("X", 1)]).await;
    assert_eq!(neglected(&store, went_on).await, [] as [RunId; 0]);
    store.clock.advance(1000);
    store.tell(&run, vec![alert("X", 2)]).await;
    assert_eq!(
        neglected(&store, went_on.plus_millis(1)).await,
        from_ref(&run.run_id),
        "a later event does not make it young again"
    );
    store.acted(&run.run_id, 3).await.expect("remembered");
    assert_eq!(neglected(&store, store.now().plus_millis(60_000)).await, [] as [RunId; 0]);
}

/// The end of a run must be acted on too.
pub async fn an_end_that_nobody_acted_on_is_neglected(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.ended_run("request").await;
    store.acted(&run.run_id, 3).await.expect("remembered");
    store.clock.advance(1000);
    assert_eq!(neglected(&store, store.now()).await, from_ref(&run.run_id));
    store.acted(&run.run_id, 4).await.expect("remembered");
    assert_eq!(neglected(&store, store.now()).await, [] as [RunId; 0]);
}

/// Neglected runs are told as they are found, at most as many as asked for, of every tenant.
pub async fn neglected_runs_are_told_up_to_a_limit(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(store.run_of(&format!("tenant-{number}"), "request").await);
    }
    store.clock.advance(1000);
    let some = store.neglected(store.now(), 3).await.expect("runs");
    assert_eq!(some.len(), 3);
    for record in some {
        let run = runs.iter().find(|run| run.run_id == record.run_id).expect("one of the runs");
        assert_eq!(record, store.record(run).await);
    }
    assert_eq!(store.neglected(store.now(), usize::MAX).await.expect("runs").len(), 5);
    assert_eq!(store.neglected(store.now(), 0).await.expect("runs"), []);
    assert_eq!(store.neglected(Timestamp::MAX, 100).await.expect("runs").len(), 5);
}

/// Runs that have not ended and whose lease nobody holds are unattended, the oldest first.
pub async fn runs_without_a_lease_are_unattended(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(store.run_of(&format!("tenant-{number}"), "request").await);
        store.clock.advance(10);
    }
    store.ended_run("ended").await;
    let of = |numbers: &[usize]| -> Vec<RunId> {
        numbers.iter().map(|number| runs[*number].run_id.clone()).collect()
    };
    assert_eq!(unattended(&store).await, of(&[0, 1, 2, 3]));
    let fence = store.lease_for(&runs[1], "one", 15_000).await.expect("a lease");
    store.lease_for(&runs[2], "one", 20_000).await.expect("a lease");
    assert_eq!(unattended(&store.other(harness).await).await, of(&[0, 3]), "leased runs are attended");
    store.release(&runs[1].run_id, fence).await.expect("released");
    assert_eq!(unattended(&store).await, of(&[0, 1, 3]), "a released one is not");
    store.clock.advance(20_001);
    assert_eq!(unattended(&store).await, of(&[0, 1, 2, 3]), "nor is an expired one");
    assert_eq!(ids(store.unattended(2).await.expect("runs")), of(&[0, 1]));
    assert_eq!(ids(store.unattended(usize::MAX).await.expect("runs")), of(&[0, 1, 2, 3]));
    assert_eq!(store.unattended(0).await.expect("runs"), []);
    store.acted(&runs[0].run_id, u64::MAX).await.expect("remembered");
    assert_eq!(unattended(&store).await, of(&[1, 2, 3]), "nobody need act on one that was acted on");
}

/// An engine that hears of a run by its id alone finds it, whoever owns it.
pub async fn a_run_is_identified_by_its_id_alone(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run_of("tenant-7", "request").await;
    assert_eq!(store.identify(&run.run_id).await.expect("a run"), store.record(&run).await);
    refused(store.identify(&RunId::new("nobody").expect("an id")).await, Code::NotFound);
}
