//! Telling handlers that run in this process to stop. Those elsewhere hear of it with their next heartbeat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_core::RunId;
use engine_core::decider::AttemptRef;
use tokio_util::sync::CancellationToken;

/// Attempts that run in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    running: Arc<Mutex<ByRun>>,
}

type ByRun = HashMap<RunId, Vec<(AttemptRef, CancellationToken)>>;

/// An attempt that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stops: Stops,
    run_id: RunId,
    attempt: AttemptRef,
}

impl Stops {
    fn lock(&self) -> MutexGuard<'_, ByRun> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt begins to run; `stop` fires when it must not.
    pub(crate) fn enter(&self, run_id: &RunId, attempt: AttemptRef, stop: CancellationToken) -> Running {
        self.lock().entry(run_id.clone()).or_default().push((attempt.clone(), stop));
        Running { stops: self.clone(), run_id: run_id.clone(), attempt }
    }

    /// Stops an attempt, if it runs here.
    pub(crate) fn stop(&self, run_id: &RunId, attempt: &AttemptRef) {
        for (_, stop) in self.lock().get(run_id).into_iter().flatten().filter(|(of, _)| of == attempt) {
            stop.cancel();
        }
    }

    /// Stops whatever of a run runs here.
    pub(crate) fn stop_all(&self, run_id: &RunId) {
        for (_, stop) in self.lock().get(run_id).into_iter().flatten() {
            stop.cancel();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.stops.lock();
        if let Some(attempts) = running.get_mut(&self.run_id) {
            if let Some(place) = attempts.iter().position(|(of, _)| *of == self.attempt) {
                attempts.remove(place);
            }
            if attempts.is_empty() {
                running.remove(&self.run_id);
            }
        }
    }
}
