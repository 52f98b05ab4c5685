//! Gates, and the record of who entered and left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use engine_core::Timestamp;
use engine_core::port::{StateStore, StepContext};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::history::{Item, Left, Recorder, Visit};

/// Where steps meet their script: gates they wait at, and the record of their entries and exits.
#[derive(Debug)]
pub struct Stage {
    recorder: Arc<Recorder>,
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Until when those at a gate let time pass. In virtual time a step at a gate works, and time stands still for it.
    passing: watch::Sender<Option<Timestamp>>,
    /// How often everything was killed; a step that lives through it is gone.
    kills: watch::Sender<u32>,
    /// Tells an entry where in its run's log it stands.
    store: OnceLock<Arc<dyn StateStore>>,
    /// What a script said that no script says.
    slips: Mutex<Vec<String>>,
}

impl Stage {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        Self {
            recorder,
            gates: Mutex::default(),
            passing: watch::Sender::new(None),
            kills: watch::Sender::new(0),
            store: OnceLock::new(),
            slips: Mutex::default(),
        }
    }

    pub(crate) fn look_into(&self, store: Arc<dyn StateStore>) {
        let _ = self.store.set(store);
    }

    /// A call of a handler begins.
    pub(super) async fn enter(
        self: &Arc<Self>,
        context: &StepContext,
        handler: &str,
        input: &Value,
    ) -> Entered {
        let place = match self.store.get() {
            Some(store) => store.identify(&context.run_id).await.map(|record| record.last_event_seq).ok(),
            None => None,
        };
        let visit = Visit {
            run_id: context.run_id.clone(),
            step_id: context.step_id.clone(),
            attempt: context.logical_attempt_id,
            try_number: context.engine_attempt_id,
            handler: handler.to_owned(),
            agent: context.agent.clone(),
            token: context.idempotency_token.to_string(),
            input: input.clone(),
            place,
            left: None,
        };
        let number = self.recorder.enter(visit);
        Entered { stage: Arc::clone(self), number, left: false }
    }

    /// How often a step of a run was called so far.
    pub(super) fn calls(&self, number: usize) -> u32 {
        self.recorder.calls_up_to(number)
    }

    pub(super) fn slip(&self, what: String) {
        lock(&self.slips).push(what);
    }

    /// What scripts said that no script says.
    pub(crate) fn slips(&self) -> Vec<String> {
        lock(&self.slips).clone()
    }

    pub(super) fn gate(&self, name: &str) -> Arc<Semaphore> {
        let mut gates = lock(&self.gates);
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    pub(super) fn passing(&self) -> watch::Receiver<Option<Timestamp>> {
        self.passing.subscribe()
    }

    pub(super) fn kills(&self) -> watch::Receiver<u32> {
        self.kills.subscribe()
    }

    /// Lets `count` steps through a gate, now or when they come.
    pub(crate) fn open(&self, gate: &str, count: usize) {
        self.recorder.note(Item::Opened { gate: gate.to_owned(), count });
        self.gate(gate).add_permits(count);
    }

    /// Lets time pass until `until` for steps that wait at a gate.
    pub(crate) fn let_pass(&self, until: Timestamp) {
        self.passing.send_replace(Some(until));
    }

    /// How often everything was killed so far. A harness that can kill compares: what was opened before the latest kill
    /// is dead. A script's `die` kills too.
    #[must_use]
    pub fn kills_so_far(&self) -> u32 {
        *self.kills.borrow()
    }

    /// Ends every call that waits, as if its process were gone.
    pub fn kill(&self) {
        self.recorder.note(Item::Killed);
        self.kills.send_modify(|kills| *kills += 1);
    }
}

/// A call of a handler that has not ended.
#[derive(Debug)]
pub(super) struct Entered {
    stage: Arc<Stage>,
    pub(super) number: usize,
    left: bool,
}

impl Entered {
    pub(super) fn at_gate(&self, gate: &str) {
        self.stage.recorder.note(Item::AtGate { visit: self.number, gate: gate.to_owned() });
    }

    pub(super) fn leave(mut self, how: Left) {
        self.left = true;
        self.stage.recorder.leave(self.number, how);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.left {
            self.stage.recorder.leave(self.number, Left::CutOff);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
