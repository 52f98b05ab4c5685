//! Checkpoints: saved with their event, listed, loaded, pruned, and refused when damaged (CHECKPOINT-2, CHECKPOINT-3,
//! CHECKPOINT-6).

use engine_core::event::Body;
use engine_core::port::store::{CheckpointRecord, SaveCheckpoint};
use engine_core::projection::ProjectionRecord;
use engine_core::{CheckpointId, Code, Result};

use super::Harness;
use super::drafts::{alerts, checkpoint_id, completed, started};
use super::handle::{Handle, Owned, open};
use super::race::race;
use super::resync::huge_projection;
use super::verdict::{names, refused, sound};

async fn save(
    store: &Handle,
    run: &Owned,
    id: &str,
    projection: ProjectionRecord,
) -> Result<CheckpointRecord> {
    store
        .save_checkpoint(SaveCheckpoint {
            tenant_id: run.tenant_id.clone(),
            run_id: run.run_id.clone(),
            checkpoint_id: checkpoint_id(id),
            projection,
            emitted_by: "keeper".into(),
        })
        .await
}

/// Saves the run as it is now.
async fn save_now(store: &Handle, run: &Owned, id: &str) -> CheckpointRecord {
    let projection = store.projection(run).await.record();
    save(store, run, id, projection).await.expect("a checkpoint")
}

async fn listed(store: &Handle, run: &Owned) -> Vec<CheckpointRecord> {
    store.checkpoints(&run.tenant_id, &run.run_id).await.expect("checkpoints")
}

/// A run with `count` checkpoints `c1` and on, the log growing between them.
async fn run_with(store: &Handle, count: u32) -> (Owned, Vec<CheckpointRecord>) {
    let run = store.run("request").await;
    store.start(&run).await;
    let mut records = Vec::new();
    for number in 1..=count {
        store.tell(&run, vec![started("a", number), completed("a", number)]).await;
        store.clock.advance(1000);
        records.push(save_now(store, &run, &format!("c{number}")).await);
    }
    (run, records)
}

/// A checkpoint says what it holds, and CheckpointCreated says the same in the log.
pub async fn a_checkpoint_is_recorded_in_the_log(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, vec![started("a", 1)]).await;
    store.clock.advance(1000);
    let record = save_now(&store, &run, "c1").await;
    assert_eq!(record.checkpoint_id, checkpoint_id("c1"));
    assert_eq!(record.up_to_seq, 2);
    assert_eq!(record.created_at, store.now());
    assert!(record.size_bytes > 0, "its size");
    assert_eq!(record.sha256.len(), 64, "its digest");
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(names(&log), ["RunQueued", "StepStarted", "CheckpointCreated"]);
    let Body::CheckpointCreated(created) = &log[2].body else { panic!("{:?}", log[2]) };
    assert_eq!(created.checkpoint_id, record.checkpoint_id);
    assert_eq!(created.up_to_seq, record.up_to_seq);
    assert_eq!((created.size_bytes, &created.sha256), (record.size_bytes, &record.sha256));
    assert_eq!(&*log[2].emitted_by, "keeper");
    assert_eq!(log[2].emitted_at, store.now());
    assert_eq!(store.record(&run).await.last_event_seq, 3);
}

/// Size and digest are those of the content: the same content has the same, other content another digest.
pub async fn size_and_digest_are_of_the_content(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let projection = store.projection(&run).await.record();
    let one = save(&store, &run, "c1", projection.clone()).await.expect("a checkpoint");
    let same = save(&store, &run, "c2", projection).await.expect("a checkpoint");
    store.tell(&run, vec![started("a", 1), completed("a", 1)]).await;
    let more = save_now(&store, &run, "c3").await;
    assert_eq!((one.size_bytes, &one.sha256), (same.size_bytes, &same.sha256));
    assert_ne!(more.sha256, one.sha256);
    assert!(more.size_bytes > one.size_bytes, "an attempt more: {} and {}", more.size_bytes, one.size_bytes);
}

/// A checkpoint is loaded as it was saved, through another handle too.
pub async fn a_checkpoint_is_loaded_as_it_was_saved(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, _) = run_with(&store, 1).await;
    let projection = store.projection(&run).await.record();
    let record = save(&store, &run, "now", projection.clone()).await.expect("a checkpoint");
    for handle in [store.clone(), store.other(harness).await] {
        let loaded = handle
            .checkpoint(&run.tenant_id, &run.run_id, &checkpoint_id("now"))
            .await
            .expect("the checkpoint");
        assert_eq!(loaded.record, record);
        assert_eq!(loaded.projection, projection);
    }
}

/// The newest comes first, and each run has its own.
pub async fn checkpoints_are_listed_newest_first(harness: &dyn Harness) {
    let store = open(harness).await;
    let another = store.run("another").await;
    assert_eq!(listed(&store, &another).await, []);
    save_now(&store, &another, "c1").await;
    let (run, mut records) = run_with(&store, 4).await;
    records.reverse();
    assert_eq!(listed(&store, &run).await, records);
    assert_eq!(listed(&store, &another).await.len(), 1);
}

/// The same id again returns what is there and adds no event.
pub async fn the_same_id_again_changes_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, records) = run_with(&store, 1).await;
    store.tell(&run, alerts("X", 1, 3)).await;
    let log = store.log(&run).await;
    store.clock.advance(5000);
    assert_eq!(save_now(&store, &run, "c1").await, records[0]);
    assert_eq!(listed(&store, &run).await, records);
    assert_eq!(store.log(&run).await, log);
}

/// Sixteen that save one id at once have one checkpoint and one event.
pub async fn one_id_saved_by_many_is_one_checkpoint(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    let projection = store.projection(&run).await.record();
    let records = race(16, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        let projection = projection.clone();
        async move { save(&store, &run, "c1", projection).await.expect("a checkpoint") }
    })
    .await;
    assert!(records.iter().all(|record| *record == records[0]), "{records:?}");
    assert_eq!(names(&store.log(&run).await), ["RunQueued", "CheckpointCreated"]);
}

/// A run that has ended can still be kept.
pub async fn an_ended_run_can_be_saved(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.ended_run("request").await;
    assert_eq!(save_now(&store, &run, "c1").await.up_to_seq, 4);
    assert_eq!(store.log(&run).await.len(), 5);
}

/// Pruning keeps the newest, says which went, and leaves the log.
pub async fn pruning_keeps_the_newest(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, records) = run_with(&store, 5).await;
    let log = store.log(&run).await;
    let prune = async |keep| {
        let mut pruned: Vec<CheckpointId> =
            store.prune_checkpoints(&run.tenant_id, &run.run_id, keep).await.expect("pruned");
        pruned.sort();
        pruned
    };
    assert_eq!(prune(usize::MAX).await, []);
    assert_eq!(prune(5).await, []);
    assert_eq!(prune(2).await, [checkpoint_id("c1"), checkpoint_id("c2"), checkpoint_id("c3")]);
    assert_eq!(listed(&store, &run).await, [records[4].clone(), records[3].clone()]);
    let gone = store.checkpoint(&run.tenant_id, &run.run_id, &checkpoint_id("c3")).await;
    refused(gone, Code::NotFound);
    assert_eq!(prune(0).await, [checkpoint_id("c4"), checkpoint_id("c5")]);
    assert_eq!(listed(&store, &run).await, []);
    assert_eq!(store.log(&run).await, log, "the log is never changed (EVENT-10)");
}

/// A damaged checkpoint is refused by name, and the newest sound one before it is offered.
pub async fn a_damaged_checkpoint_is_refused_and_the_one_before_offered(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, _) = run_with(&store, 4).await;
    let load = async |id: &str| store.checkpoint(&run.tenant_id, &run.run_id, &checkpoint_id(id)).await;
    harness.damage_checkpoint(&run.run_id, &checkpoint_id("c3")).await;
    let error = refused(load("c3").await, Code::CheckpointCorrupt);
    assert!(error.message().contains("c3"), "{error} names it");
    assert!(error.hint().is_some_and(|hint| hint.contains("c2")), "{error} offers the one before");
    for sound in ["c1", "c2", "c4"] {
        assert_eq!(load(sound).await.expect("sound").record.checkpoint_id, checkpoint_id(sound));
    }
    harness.damage_checkpoint(&run.run_id, &checkpoint_id("c2")).await;
    let error = refused(load("c3").await, Code::CheckpointCorrupt);
    assert!(error.hint().is_some_and(|hint| hint.contains("c1")), "{error} passes over a damaged one");
    harness.damage_checkpoint(&run.run_id, &checkpoint_id("c1")).await;
    let error = refused(load("c1").await, Code::CheckpointCorrupt);
    assert!(error.message().contains("c1"), "{error} names it, and there is none before it");
    assert_eq!(load("c4").await.expect("sound").record.checkpoint_id, checkpoint_id("c4"));
}

/// A checkpoint over the limit is refused, with its event.
pub async fn a_checkpoint_over_the_limit_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    let log = store.log(&run).await;
    let result = save(&store, &run, "c1", huge_projection(&log).record()).await;
    refused(result, Code::PayloadTooLarge);
    assert_eq!(listed(&store, &run).await, []);
    assert_eq!(store.log(&run).await, log);
}

/// Checkpoints of a run that another tenant has, or nobody, and ids that nobody saved, are not found (START-6).
pub async fn checkpoints_of_another_tenant_are_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, records) = run_with(&store, 1).await;
    let projection = store.projection(&run).await.record();
    for stranger in [run.by("globex"), Owned::unknown()] {
        let (tenant_id, run_id) = (&stranger.tenant_id, &stranger.run_id);
        refused(store.checkpoints(tenant_id, run_id).await, Code::NotFound);
        refused(store.checkpoint(tenant_id, run_id, &checkpoint_id("c1")).await, Code::NotFound);
        refused(store.prune_checkpoints(tenant_id, run_id, 0).await, Code::NotFound);
        refused(save(&store, &stranger, "c2", projection.clone()).await, Code::NotFound);
    }
    refused(store.checkpoint(&run.tenant_id, &run.run_id, &checkpoint_id("c9")).await, Code::NotFound);
    assert_eq!(listed(&store, &run).await, records);
}
