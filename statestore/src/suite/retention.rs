//! Forgetting runs that have ended.

use engine_core::event::run::{Origin, OriginType, ReusedStep};
use engine_core::machine::StepStatus;
use engine_core::port::store::{
    ClaimRequest, FailedDelivery, ForgetRequest, ListRequest, NextTry, SaveCheckpoint, StepProgress,
};
use engine_core::projection::ResyncRequest;
use engine_core::{Code, RunId, Timestamp};

use super::Harness;
use super::drafts::{alert, checkpoint_id, creation, run_completed, signal, step, tenant};
use super::handle::{Handle, Owned, open, reading};
use super::verdict::refused;

async fn forget(store: &Handle, ended_before: Timestamp, limit: usize) -> Vec<RunId> {
    let mut forgotten = store.forget(ForgetRequest { ended_before, limit }).await.expect("forgotten");
    forgotten.sort();
    forgotten
}

/// Forgets everything that can be, call after call.
async fn forget_all(store: &Handle) -> Vec<RunId> {
    let mut forgotten = Vec::new();
    for _ in 0..20 {
        let more = forget(store, store.now(), 100).await;
        if more.is_empty() {
            forgotten.sort();
            return forgotten;
        }
        forgotten.extend(more);
    }
    panic!("there is always more to forget: {forgotten:?}");
}

fn sorted(runs: &[&Owned]) -> Vec<RunId> {
    let mut ids: Vec<RunId> = runs.iter().map(|run| run.run_id.clone()).collect();
    ids.sort();
    ids
}

/// A run made from another, in which one step is taken over.
async fn made_from(store: &Handle, source: &Owned, origin_type: OriginType, reuses: bool) -> Owned {
    let mut request = creation("acme", &format!("{origin_type} of {}", source.run_id));
    let reused = ReusedStep {
        step_id: step("a"),
        status: StepStatus::Success,
        logical_attempt_id: 1,
        run_seq: 2,
        skip_reason: None,
        output: None,
    };
    request.queued.origin = Some(Origin {
        origin_type,
        source_run_id: source.run_id.clone(),
        step: None,
        reused: if reuses { vec![reused] } else { Vec::new() },
    });
    store.run_from(request).await
}

async fn end(store: &Handle, run: &Owned) {
    store.start(run).await;
    store.decide(run, vec![run_completed()]).await;
}

/// Only runs that ended before the time go, and exactly those.
pub async fn only_runs_that_ended_before_the_time_go(harness: &dyn Harness) {
    let store = open(harness).await;
    let running = store.run("running").await;
    store.start(&running).await;
    let old = store.ended_run("old").await;
    store.clock.advance(1000);
    let between = store.now();
    let young = store.ended_run("young").await;
    store.clock.advance(1000);
    store.empty_outbox().await;
    assert_eq!(forget(&store, between, 0).await, []);
    assert_eq!(forget(&store, between, 100).await, sorted(&[&old]), "not one that ended at that very time");
    assert_eq!(forget(&store, between, 100).await, []);
    refused(store.find(&old.tenant_id, &old.run_id).await, Code::NotFound);
    assert!(store.record(&young).await.status.is_terminal());
    assert_eq!(forget(&store, Timestamp::MAX, usize::MAX).await, sorted(&[&young]));
    assert_eq!(store.log(&running).await.len(), 3, "a run that has not ended stays");
}

/// Runs go in batches of the size that was asked for.
pub async fn runs_go_in_batches(harness: &dyn Harness) {
    let store = open(harness).await;
    for number in 0..5 {
        store.ended_run(&format!("request-{number}")).await;
    }
    store.clock.advance(1000);
    store.empty_outbox().await;
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(forget(&store, store.now(), 2).await.len());
    }
    assert_eq!(sizes, [2, 2, 1, 0]);
}

/// Everything that belongs to a run goes with it, and nothing of another.
pub async fn everything_of_a_run_goes_with_it(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let stays = store.run("stays").await;
    let run = store.run("goes").await;
    for run in [&run, &stays] {
        fill(&store, run).await;
    }
    // Filling claimed what waits in the outbox.
    store.clock.advance(10_001);
    store.empty_outbox().await;
    end(&store, &run).await;
    store.empty_outbox().await;
    store.clock.advance(1000);
    assert_eq!(forget(&store, store.now(), 100).await, sorted(&[&run]));
    for handle in [&store, &other] {
        let (tenant_id, run_id) = (&run.tenant_id, &run.run_id);
        refused(handle.find(tenant_id, run_id).await, Code::NotFound);
        refused(handle.read(reading(&run, 0, 10)).await, Code::NotFound);
        refused(handle.resync(tenant_id, run_id, ResyncRequest::Full).await, Code::NotFound);
        refused(handle.checkpoints(tenant_id, run_id).await, Code::NotFound);
        refused(handle.progress(tenant_id, run_id).await, Code::NotFound);
        refused(handle.offer(&run, vec![alert("X", 2)]).await, Code::NotFound);
        refused(handle.lease_for(&run, "one", 1).await, Code::NotFound);
        assert_eq!(handle.undecided(run_id).await.expect("signals"), []);
        assert_eq!(handle.neglected(Timestamp::MAX, 10).await.expect("runs").len(), 1);
    }
    let letters = store.dead_letters(10).await.expect("dead letters");
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].event.run_id, stays.run_id);
    let request = ListRequest {
        tenant_id: tenant("acme"),
        statuses: Vec::new(),
        plan_id: None,
        from: None,
        until: None,
        after: None,
        limit: 10,
    };
    let listed = store.list(request).await.expect("a page");
    assert_eq!(listed.runs, [store.record(&stays).await]);
    assert_eq!(store.checkpoints(&stays.tenant_id, &stays.run_id).await.expect("checkpoints").len(), 1);
    assert_eq!(store.undecided(&stays.run_id).await.expect("signals").len(), 1);
    let again = store.create(creation("acme", "goes")).await.expect("a run");
    assert!(again.fresh, "the identity is free again");
    assert_ne!(again.run_id, run.run_id);
}

/// Gives a run something of everything that a store keeps.
async fn fill(store: &Handle, run: &Owned) {
    store.tell(run, vec![alert("X", 1)]).await;
    let projection = store.projection(run).await.record();
    store.keep_snapshot(&run.tenant_id, &run.run_id, &projection).await.expect("kept");
    let save = SaveCheckpoint {
        tenant_id: run.tenant_id.clone(),
        run_id: run.run_id.clone(),
        checkpoint_id: checkpoint_id("c1"),
        projection,
        emitted_by: "keeper".into(),
    };
    store.save_checkpoint(save).await.expect("saved");
    store.submit(&run.tenant_id, &run.run_id, signal("s1")).await.expect("submitted");
    let progress = StepProgress { step_id: step("a"), attempt: 1, done: 0.5, at: store.now() };
    store.note_progress(&run.run_id, progress).await.expect("noted");
    store.lease_for(run, "holder", 1).await.expect("a lease");
    let claim = ClaimRequest {
        run_id: run.run_id.clone(),
        step_id: step("a"),
        attempt: 1,
        worker: "worker".into(),
        duration_ms: 1,
    };
    store.claim(claim).await.expect("a claim");
    store.take("relay", 100).await;
    let failed = FailedDelivery {
        relay: "relay".into(),
        run_id: run.run_id.clone(),
        run_seq: 1,
        error: "no".into(),
        next: NextTry::Never,
    };
    store.fail_delivery(failed).await.expect("given up");
}

/// A run whose events wait in the outbox stays until the bus has them.
pub async fn a_run_with_events_in_the_outbox_stays(harness: &dyn Harness) {
    let store = open(harness).await;
    let delivered = store.ended_run("delivered").await;
    store.empty_outbox().await;
    let waiting = store.ended_run("waiting").await;
    store.clock.advance(1000);
    assert_eq!(forget(&store, store.now(), 100).await, sorted(&[&delivered]));
    store.take("relay", 2).await;
    assert_eq!(forget(&store, store.now(), 100).await, [], "claimed events wait too");
    let failed = FailedDelivery {
        relay: "relay".into(),
        run_id: waiting.run_id.clone(),
        run_seq: 4,
        error: "away".into(),
        next: NextTry::At(store.now().plus_millis(60_000)),
    };
    store.fail_delivery(failed).await.expect("noted");
    assert_eq!(forget(&store, store.now(), 100).await, [], "and those that failed");
    store.clock.advance(60_000);
    store.empty_outbox().await;
    assert_eq!(forget(&store, store.now(), 100).await, sorted(&[&waiting]));
}

/// The source of a link, and of a rerun that reuses steps, stays while that run exists (ORIGIN-13).
pub async fn a_source_stays_while_another_takes_outputs_from_it(harness: &dyn Harness) {
    let store = open(harness).await;
    for (origin_type, reuses) in [(OriginType::Link, true), (OriginType::Rerun, true)] {
        let source = store.ended_run(&format!("source of a {origin_type}")).await;
        let dependent = made_from(&store, &source, origin_type.clone(), reuses).await;
        store.empty_outbox().await;
        store.clock.advance(1000);
        assert_eq!(forget_all(&store).await, [], "while the {origin_type} runs");
        assert_eq!(store.log(&source).await.len(), 4);
        end(&store, &dependent).await;
        store.empty_outbox().await;
        let dependent_ended = store.now();
        assert_eq!(forget(&store, dependent_ended, 100).await, [], "while the {origin_type} is kept");
        store.clock.advance(1000);
        assert_eq!(forget_all(&store).await, sorted(&[&source, &dependent]), "both go in the end");
    }
}

/// Sources go after what depends on them, over a chain of runs.
pub async fn a_chain_of_sources_goes_from_its_end(harness: &dyn Harness) {
    let store = open(harness).await;
    let first = store.ended_run("first").await;
    let second = made_from(&store, &first, OriginType::Rerun, true).await;
    end(&store, &second).await;
    let third = made_from(&store, &second, OriginType::Link, true).await;
    store.empty_outbox().await;
    store.clock.advance(1000);
    assert_eq!(forget_all(&store).await, [], "the last of them has not ended");
    end(&store, &third).await;
    store.empty_outbox().await;
    store.clock.advance(1000);
    assert_eq!(forget_all(&store).await, sorted(&[&first, &second, &third]));
}

/// A copy and a rerun from the start take nothing from the source: it goes (ORIGIN-9).
pub async fn a_source_that_nobody_takes_outputs_from_goes(harness: &dyn Harness) {
    let store = open(harness).await;
    for origin_type in [OriginType::Copy, OriginType::Rerun] {
        let source = store.ended_run(&format!("source of a {origin_type}")).await;
        let dependent = made_from(&store, &source, origin_type.clone(), false).await;
        store.empty_outbox().await;
        store.clock.advance(1000);
        assert_eq!(forget_all(&store).await, sorted(&[&source]), "the source of a {origin_type}");
        assert_eq!(store.log(&dependent).await.len(), 1);
    }
}

/// An archive that has ended has its own copies: its source goes, and the archive stays (ORIGIN-14).
pub async fn the_source_of_an_archive_goes(harness: &dyn Harness) {
    let store = open(harness).await;
    let source = store.ended_run("source").await;
    let archive = made_from(&store, &source, OriginType::Archive, true).await;
    store.clock.advance(1000);
    end(&store, &archive).await;
    store.empty_outbox().await;
    assert_eq!(forget_all(&store).await, sorted(&[&source]), "the archive ended just now");
    assert_eq!(store.log(&archive).await.len(), 4);
}
