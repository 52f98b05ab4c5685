//! What is known about a run without its log follows the log.

use engine_core::event::EventType;
use engine_core::machine::RunStatus;

use super::drafts::{alert, approved, paused, plan, resumed, run_completed, run_started, started};
use super::handle::open;
use super::{Harness, samples};

/// A new run is PENDING and has nothing that comes later.
pub async fn a_new_run_is_pending(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let record = store.record(&run).await;
    assert_eq!(record.tenant_id, run.tenant_id);
    assert_eq!(record.run_id, run.run_id);
    assert_eq!(record.plan_id, plan().document().id);
    assert_eq!(record.plan_version, plan().document().version);
    assert_eq!(record.plan_hash, plan().hash());
    assert_eq!(record.status, RunStatus::Pending);
    assert_eq!((record.last_event_seq, record.acted_seq), (1, 0));
    assert_eq!(record.engine_run_ref, None);
    assert_eq!(record.created_at, store.now());
    assert_eq!(record.ended_at, None);
}

/// Status, last place, the engine's reference and the end follow the events.
pub async fn the_record_follows_the_events(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let created_at = store.now();
    store.clock.advance(1000);
    store.decide(&run, vec![approved()]).await;
    assert_eq!(store.record(&run).await.status, RunStatus::Approved);
    store.decide(&run, vec![run_started("mock://42", store.now())]).await;
    assert_eq!(store.record(&run).await.status, RunStatus::Running);
    assert_eq!(store.record(&run).await.engine_run_ref.as_deref(), Some("mock://42"));
    store.decide(&run, vec![paused(1)]).await;
    assert_eq!(store.record(&run).await.status, RunStatus::Paused);
    store.tell(&run, vec![started("a", 1), alert("X", 1)]).await;
    assert_eq!(store.record(&run).await.status, RunStatus::Paused, "workers change no status of a run");
    store.decide(&run, vec![resumed(1), paused(2), resumed(2)]).await;
    let running = store.other(harness).await.record(&run).await;
    assert_eq!((running.status, running.last_event_seq), (RunStatus::Running, 9));
    assert_eq!(running.ended_at, None);
    store.clock.advance(1000);
    store.decide(&run, vec![run_completed()]).await;
    let ended_at = store.now();
    store.clock.advance(1000);
    store.tell(&run, vec![alert("X", 2)]).await;
    let ended = store.record(&run).await;
    assert_eq!((ended.status, ended.last_event_seq), (RunStatus::Completed, 11));
    assert_eq!(ended.engine_run_ref.as_deref(), Some("mock://42"));
    assert_eq!((ended.created_at, ended.ended_at), (created_at, Some(ended_at)));
}

/// Every end has its status.
pub async fn every_end_has_its_status(harness: &dyn Harness) {
    let store = open(harness).await;
    for (end, status) in [
        (EventType::RunCompleted, RunStatus::Completed),
        (EventType::RunFailed, RunStatus::Failed),
        (EventType::RunCancelled, RunStatus::Cancelled),
    ] {
        let run = store.run(end.as_str()).await;
        store.start(&run).await;
        let mut draft = samples::one(end);
        draft.occurred_at = None;
        store.decide(&run, vec![draft]).await;
        let record = store.record(&run).await;
        assert_eq!(record.status, status);
        assert_eq!(record.ended_at, Some(store.now()));
    }
}
