//! Replaying recorded histories: whether this version of the interpreter would have done the same.

use engine_core::{Code, Error, Result};
use temporalio_client::WorkflowHistory;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

use crate::driver::Interpreter;

/// Replays a history, as Temporal's own tools write it in JSON. No server is needed. Before a new version is rolled out,
/// histories of runs that are under way should pass.
///
/// # Errors
/// What the interpreter does otherwise than the history says, or what is wrong with the history.
pub fn replay(history: &[u8]) -> Result<()> {
    let history = WorkflowHistory::from_json(history).map_err(|cause| failed(&cause))?;
    // The replayer's future stays on its thread, and so must not depend on the caller's.
    let replaying = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|cause| failed(&cause))?;
        runtime.block_on(async {
            let options = WorkflowReplayerOptions::new()
                .register_workflow::<Interpreter>()
                .map_err(|cause| failed(&cause))?
                .build();
            let replayer = WorkflowReplayer::new(options).map_err(|cause| failed(&cause))?;
            replayer.replay_workflow(history).await.map_err(|cause| failed(&cause))
        })
    });
    replaying.join().unwrap_or_else(|_| Err(failed(&"the interpreter panicked")))
}

fn failed(cause: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Internal, format!("the history cannot be replayed: {cause}"))
        .with_hint("let the version that recorded it drive such runs, or patch the interpreter")
}
