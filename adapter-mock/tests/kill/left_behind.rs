//! What a process that was killed between a decision and the inbox leaves there.

use std::sync::Arc;

use engine_core::event::Draft;
use engine_core::event::signal::SignalRejected;
use engine_core::port::StateStore;
use engine_core::port::store::{AppendAs, AppendRequest};
use engine_core::signal::{Command, Signal, SignalType};
use engine_core::{RunId, SignalId};
use statestore::MemoryStore;

use super::errand::engine;
use super::patience::runtime;
use super::runs::{start, tenant};

pub(crate) fn decided_signals_are_taken_out() {
    let folder = tempfile::TempDir::new().expect("a directory");
    let diary = folder.path().join("diary");
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new(statestore::Options::default()));
    runtime().block_on(async {
        let before = engine(&store, &diary, 1).await;
        let run_id = start(&*store, &before, "waiting", 1).await;
        before.shutdown().await;
        decide_and_die(&*store, &run_id).await;
        let awaited = store.awaited(10).await.expect("an answer");
        assert_eq!(awaited, [run_id], "the signal is still in the inbox");
        let after = engine(&store, &diary, 2).await;
        assert_eq!(store.awaited(10).await.expect("an answer"), [], "nobody took the signal out");
        after.shutdown().await;
    });
}

/// What a driver does about a signal up to the moment in which it is killed.
async fn decide_and_die(store: &dyn StateStore, run_id: &RunId) {
    let signal_id = SignalId::new("resume").expect("a signal's id");
    let signal = Signal {
        signal_id: signal_id.clone(),
        actor: "operator".into(),
        reason: None,
        command: Command::Resume,
    };
    store.submit(&tenant(), run_id, signal).await.expect("the store takes the signal");
    let rejected = SignalRejected {
        signal_id,
        signal_type: SignalType::Resume,
        actor: "operator".into(),
        code: "RUN_NOT_PAUSED".into(),
        message: "the run is not paused".into(),
    };
    let request = AppendRequest {
        tenant_id: tenant(),
        run_id: run_id.clone(),
        drafts: vec![Draft::run(rejected)],
        emitted_by: "generation-1".into(),
        append_as: AppendAs::Worker,
        fence: None,
    };
    store.append(request).await.expect("the decision is stored");
}
