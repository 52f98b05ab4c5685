//! Getting back in step with a log (SNAP-10 to SNAP-13), with the reader that programs use.

use std::sync::Arc;

use engine_core::Code;
use engine_core::data::JOURNAL_BYTES;
use engine_core::event::{Event, Seal};
use engine_core::projection::{Advance, Freshness, Projection, Projector, Resync, ResyncRequest};

use super::drafts::{alerts, completed, plan, run_started, started};
use super::handle::{Handle, Owned, open};
use super::verdict::{places, refused};
use super::{Harness, drafts};

/// A run with eight events in its log.
async fn some_run(store: &Handle) -> Owned {
    let run = store.run("request").await;
    store.start(&run).await;
    store.tell(&run, vec![started("a", 1), completed("a", 1), started("b", 1)]).await;
    store.tell(&run, alerts("X", 1, 2)).await;
    run
}

/// What a reader has seen of the first events of a log.
fn projected(log: &[Event]) -> Projection {
    let mut projection = Projection::new(plan());
    for event in log {
        projection.apply(event);
    }
    projection
}

async fn keep(store: &Handle, run: &Owned, up_to: usize) {
    let snapshot = projected(&store.log(run).await[..up_to]).record();
    store.keep_snapshot(&run.tenant_id, &run.run_id, &snapshot).await.expect("kept");
}

/// FULL gives the whole log and no snapshot, even when there is one.
pub async fn a_full_resync_gives_the_whole_log(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    keep(&store, &run, 4).await;
    let reply = store.resync(&run.tenant_id, &run.run_id, ResyncRequest::Full).await.expect("a reply");
    assert_eq!(reply.snapshot, None);
    assert_eq!(reply.events, store.log(&run).await);
}

/// FROM_SNAPSHOT without a snapshot is answered as FULL (SNAP-12).
pub async fn without_a_snapshot_a_resync_is_full(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    for snapshot_seq in [0, 5, u64::MAX] {
        let request = ResyncRequest::FromSnapshot { snapshot_seq };
        let reply = store.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
        assert_eq!(reply.snapshot, None);
        assert_eq!(reply.events, store.log(&run).await);
    }
}

/// FROM_SNAPSHOT gives the latest snapshot that is not newer than what was asked for, and all events after it.
pub async fn a_resync_begins_at_the_latest_snapshot_that_is_old_enough(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    let log = store.log(&run).await;
    keep(&store, &run, 3).await;
    keep(&store, &run, 6).await;
    let other = store.other(harness).await;
    for (snapshot_seq, begins_at) in [(3, 3), (5, 3), (6, 6), (7, 6), (u64::MAX, 6)] {
        let request = ResyncRequest::FromSnapshot { snapshot_seq };
        let reply = other.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
        assert_eq!(reply.snapshot, Some(projected(&log[..begins_at]).record()), "up to {snapshot_seq}");
        assert_eq!(reply.events, log[begins_at..]);
    }
    let request = ResyncRequest::FromSnapshot { snapshot_seq: 2 };
    let reply = store.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
    assert_eq!(reply.snapshot, None, "a newer snapshot is not used");
    assert_eq!(reply.events, log);
}

/// Keeping a snapshot again, or more of them than are kept, leaves resync right.
pub async fn many_snapshots_leave_resync_right(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    let log = store.log(&run).await;
    for up_to in [8, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8] {
        keep(&store, &run, up_to).await;
    }
    for snapshot_seq in 0..=9 {
        let request = ResyncRequest::FromSnapshot { snapshot_seq };
        let reply = store.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
        let begins_at = reply.snapshot.as_ref().map_or(0, |snapshot| snapshot.last_event_seq());
        assert!(begins_at <= snapshot_seq, "a snapshot of {begins_at} for {snapshot_seq}");
        let begins_at = usize::try_from(begins_at).expect("small");
        if let Some(snapshot) = reply.snapshot {
            assert_eq!(snapshot, projected(&log[..begins_at]).record());
        }
        assert_eq!(reply.events, log[begins_at..]);
    }
    let newest = ResyncRequest::FromSnapshot { snapshot_seq: 8 };
    let reply = store.resync(&run.tenant_id, &run.run_id, newest).await.expect("a reply");
    assert_eq!(reply.events.len(), 0, "the newest snapshot is kept");
}

/// A reader that met a gap is back in step after one resync, with and without a snapshot (SNAP-13).
pub async fn a_reader_gets_back_in_step(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    let log = store.log(&run).await;
    let whole = projected(&log).record();
    for kept in [false, true] {
        if kept {
            keep(&store, &run, 2).await;
        }
        let mut reader = Projector::new(plan());
        assert_eq!(reader.advance(&log[..3]), Advance::Applied(Vec::new()));
        let Advance::Gap(request, _) = reader.advance(&log[5..6]) else { panic!("a gap was not noticed") };
        let reply = store.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
        assert_eq!(reader.resync(reply).expect("a snapshot of this plan"), Resync::Done);
        assert_eq!(reader.freshness(), Freshness::Fresh);
        assert_eq!(reader.projection().record(), whole, "the same as from the whole log (SNAP-7)");
    }
}

/// A resync gives every event, however long the log is.
pub async fn a_long_log_is_given_whole(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for page in 0..5 {
        store.tell(&run, alerts("X", page * 500, 500)).await;
    }
    let reply = store.resync(&run.tenant_id, &run.run_id, ResyncRequest::Full).await.expect("a reply");
    assert_eq!(places(&reply.events), (1..=2501).collect::<Vec<u64>>());
}

/// A snapshot over the limit is refused, and the one before stays.
pub async fn a_snapshot_over_the_limit_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    keep(&store, &run, 4).await;
    let log = store.log(&run).await;
    let huge = huge_projection(&log).record();
    let result = store.keep_snapshot(&run.tenant_id, &run.run_id, &huge).await;
    refused(result, Code::PayloadTooLarge);
    let request = ResyncRequest::FromSnapshot { snapshot_seq: u64::MAX };
    let reply = store.resync(&run.tenant_id, &run.run_id, request).await.expect("a reply");
    assert_eq!(reply.events, log[4..]);
}

/// The projection of a log whose engine has a name that is too long for any store.
pub(super) fn huge_projection(log: &[Event]) -> Projection {
    let first = &log[0];
    let draft = run_started(&"x".repeat(JOURNAL_BYTES), first.emitted_at);
    let by: Arc<str> = "suite".into();
    let event = draft.seal(Seal {
        event_id: first.event_id,
        run_id: &first.run_id,
        run_seq: 3,
        emitted_at: first.emitted_at,
        emitted_by: &by,
        correlation_id: &first.correlation_id,
        plan_version: &first.plan_version,
    });
    let mut projection = projected(&log[..2]);
    projection.apply(&event);
    projection
}

/// Snapshots and resync of a run that another tenant has, or nobody, are not found (START-6).
pub async fn resync_of_another_tenant_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = some_run(&store).await;
    let snapshot = projected(&store.log(&run).await).record();
    for stranger in [run.by("globex"), Owned::unknown()] {
        let (tenant_id, run_id) = (&stranger.tenant_id, &stranger.run_id);
        for request in [ResyncRequest::Full, ResyncRequest::FromSnapshot { snapshot_seq: 3 }] {
            refused(store.resync(tenant_id, run_id, request).await, Code::NotFound);
        }
        refused(store.keep_snapshot(tenant_id, run_id, &snapshot).await, Code::NotFound);
    }
    let reply = store
        .resync(&drafts::tenant("acme"), &run.run_id, ResyncRequest::FromSnapshot { snapshot_seq: 9 })
        .await
        .expect("a reply");
    assert_eq!(reply.snapshot, None, "a stranger's snapshot is not kept");
}
