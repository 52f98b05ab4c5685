//! How far steps are.

use engine_core::Code;
use engine_core::port::store::StepProgress;

use super::Harness;
use super::drafts::step;
use super::handle::{Handle, Owned, open};
use super::verdict::refused;

async fn note(store: &Handle, run: &Owned, id: &str, attempt: u32, done: f64) {
    let progress = StepProgress { step_id: step(id), attempt, done, at: store.now() };
    store.note_progress(&run.run_id, progress).await.expect("noted");
}

/// What is noted of a run, by step.
async fn noted(store: &Handle, run: &Owned) -> Vec<(String, u32, f64)> {
    let mut noted: Vec<_> = store
        .progress(&run.tenant_id, &run.run_id)
        .await
        .expect("progress")
        .into_iter()
        .map(|progress| (progress.step_id.to_string(), progress.attempt, progress.done))
        .collect();
    noted.sort_by(|one, next| one.0.cmp(&next.0));
    noted
}

/// Only the newest progress of a step counts, and only steps that told something are there.
pub async fn the_newest_progress_of_each_step_counts(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    assert_eq!(noted(&store, &run).await, []);
    note(&store, &run, "a", 1, 0.25).await;
    note(&store, &run, "b", 1, 0.0).await;
    note(&store, &run, "a", 1, 0.5).await;
    let expected = [("a".into(), 1, 0.5), ("b".into(), 1, 0.0)];
    assert_eq!(noted(&store.other(harness).await, &run).await, expected);
    assert_eq!(noted(&store, &another).await, [], "each run has its own");
    note(&store, &run, "b", 1, 1.0).await;
    assert_eq!(noted(&store, &run).await[1], ("b".into(), 1, 1.0));
}

/// Within an attempt progress does not go back, and the time is that of what counts.
pub async fn progress_does_not_go_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    note(&store, &run, "a", 1, 0.5).await;
    let at = store.now();
    store.clock.advance(1000);
    note(&store, &run, "a", 1, 0.25).await;
    let noted = store.progress(&run.tenant_id, &run.run_id).await.expect("progress");
    assert_eq!(noted, [StepProgress { step_id: step("a"), attempt: 1, done: 0.5, at }]);
}

/// A new attempt begins anew, and an earlier one says nothing any more.
pub async fn a_new_attempt_begins_anew(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    note(&store, &run, "a", 1, 0.75).await;
    note(&store, &run, "a", 2, 0.25).await;
    assert_eq!(noted(&store, &run).await, [("a".into(), 2, 0.25)]);
    note(&store, &run, "a", 1, 1.0).await;
    assert_eq!(noted(&store, &run).await, [("a".into(), 2, 0.25)]);
}

/// What is no number between 0 and 1 does not displace what is known.
pub async fn nonsense_does_not_displace_what_is_known(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    note(&store, &run, "a", 1, 0.5).await;
    for done in [f64::NAN, f64::NEG_INFINITY, -1.0, -0.0] {
        let progress = StepProgress { step_id: step("a"), attempt: 1, done, at: store.now() };
        // Refusing it and passing over it are both right.
        let _ = store.note_progress(&run.run_id, progress).await;
        assert_eq!(noted(&store, &run).await, [("a".into(), 1, 0.5)], "after {done}");
    }
}

/// Progress of a run that another tenant has, or nobody, is not found (START-6).
pub async fn progress_of_another_tenant_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    note(&store, &run, "a", 1, 0.5).await;
    for stranger in [run.by("globex"), Owned::unknown()] {
        refused(store.progress(&stranger.tenant_id, &stranger.run_id).await, Code::NotFound);
    }
}
