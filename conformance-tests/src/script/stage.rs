//! Gates, and the record of who entered and left.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use engine_core::Timestamp;
use engine_core::event::{Body, Event};
use engine_core::port::store::{ReadRequest, RunRecord};
use engine_core::port::{StateStore, StepContext};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::history::{Item, Left, Recorder, UNDOING, Visit};
use crate::layer::slow::Slow;

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
    /// What is late in the store.
    slow: Arc<Slow>,
    /// What a variant found wrong.
    findings: Mutex<Vec<String>>,
    /// How often the state of a run was rebuilt and compared.
    rebuilt: AtomicU32,
    /// Whether losses are the variant's, and not what a case is about.
    forgives_losses: AtomicBool,
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
            slow: Arc::default(),
            findings: Mutex::default(),
            rebuilt: AtomicU32::new(0),
            forgives_losses: AtomicBool::new(false),
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
        // Before anybody sees it here: a kill that follows on that must not be missed.
        let kills = self.kills.subscribe();
        let record = match self.store.get() {
            Some(store) => store.identify(&context.run_id).await.ok(),
            None => None,
        };
        let losses = match (&record, self.forgives_losses()) {
            // Undoing has no losses: it is tried again under the same number.
            (Some(record), true) if !context.idempotency_token.ends_with(UNDOING) => {
                self.losses(record, context).await
            }
            _ => 0,
        };
        let visit = Visit {
            run_id: context.run_id.clone(),
            step_id: context.step_id.clone(),
            attempt: context.logical_attempt_id,
            try_number: context.engine_attempt_id.saturating_sub(losses),
            handler: handler.to_owned(),
            agent: context.agent.clone(),
            token: context.idempotency_token.to_string(),
            input: input.clone(),
            place: record.map(|record| record.last_event_seq),
            left: None,
        };
        let number = self.recorder.enter(visit);
        Entered { stage: Arc::clone(self), number, left: false, kills }
    }

    /// How often an attempt has lost its worker so far.
    async fn losses(&self, record: &RunRecord, context: &StepContext) -> u32 {
        let Some(store) = self.store.get() else { return 0 };
        let events = read(&**store, record).await;
        let lost = events.iter().filter(|event| {
            let about = event.subject.as_ref().is_some_and(|subject| {
                subject.step == context.step_id && subject.attempt == context.logical_attempt_id
            });
            about && is_loss(event)
        });
        u32::try_from(lost.count()).unwrap_or(u32::MAX)
    }

    /// From now on losses are the variant's: calls that were lost do not count.
    pub(crate) fn forgive_losses(&self) {
        self.forgives_losses.store(true, Ordering::SeqCst);
    }

    /// Whether calls that were lost do not count.
    pub(crate) fn forgives_losses(&self) -> bool {
        self.forgives_losses.load(Ordering::SeqCst)
    }

    /// Everything was killed by a variant: takes calls whose end nobody recorded out of the record.
    pub(crate) async fn forget_the_lost(&self, store: &dyn StateStore) {
        for (number, visit) in self.recorder.numbered() {
            let Ok(record) = store.identify(&visit.run_id).await else { continue };
            let events = read(store, &record).await;
            if !has_ended(&events, &visit)
                && let Some(gate) = self.recorder.hide(number)
            {
                // Whoever does it again finds the gate as this call found it.
                self.gate(&gate).add_permits(1);
            }
        }
    }

    /// What is late in the store.
    pub(crate) fn slow(&self) -> &Arc<Slow> {
        &self.slow
    }

    /// A variant has found something wrong.
    pub(crate) fn found(&self, what: String) {
        lock(&self.findings).push(what);
    }

    /// The state of a run was rebuilt and compared.
    pub(crate) fn rebuilt(&self) {
        self.rebuilt.fetch_add(1, Ordering::SeqCst);
    }

    /// How often that was done.
    pub(crate) fn rebuilt_so_far(&self) -> u32 {
        self.rebuilt.load(Ordering::SeqCst)
    }

    /// What variants have found wrong.
    pub(crate) fn findings(&self) -> Vec<String> {
        lock(&self.findings).clone()
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

    /// Tells of every kill, also of those that a script causes.
    #[must_use]
    pub fn kills(&self) -> watch::Receiver<u32> {
        self.kills.subscribe()
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
    kills: watch::Receiver<u32>,
}

impl Entered {
    /// Returns when everything was killed since it entered.
    pub(super) async fn killed(&self) {
        let _ = self.kills.clone().changed().await;
    }

    pub(super) fn at_gate(&self, gate: &str) {
        self.stage.recorder.note(Item::AtGate { visit: self.number, gate: gate.to_owned() });
    }

    /// It went through a gate, which let one through.
    pub(super) fn through(&self, gate: &str) {
        self.stage.recorder.went_through(self.number, gate);
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

/// Whether an event says that an attempt has lost its worker.
pub(crate) fn is_loss(event: &Event) -> bool {
    matches!(&event.body, Body::StepRetried(retried) if retried.worker_lost)
}

/// Whether a log tells what became of a call.
fn has_ended(events: &[Event], visit: &Visit) -> bool {
    let about = |event: &&Event| {
        event.subject.as_ref().is_some_and(|subject| {
            subject.step == visit.step_id && (visit.undoes() || subject.attempt == visit.attempt)
        })
    };
    let mut failed = 0;
    for event in events.iter().filter(about) {
        match (&event.body, visit.undoes()) {
            (Body::CompensationCompleted(_), true) => return true,
            (
                Body::StepCompleted(_)
                | Body::StepFailed(_)
                | Body::StepCancelled(_)
                | Body::StepSkipped(_)
                | Body::StepWaiting(_),
                false,
            ) => return true,
            (Body::CompensationFailed(_), true) => failed += 1,
            // Losses count neither here nor in the number of the try.
            (Body::StepRetried(retried), false) if !retried.worker_lost => failed += 1,
            _ => {}
        }
    }
    failed >= visit.try_number
}

async fn read(store: &dyn StateStore, record: &RunRecord) -> Vec<Event> {
    let (tenant_id, run_id) = (record.tenant_id.clone(), record.run_id.clone());
    let request = ReadRequest { tenant_id, run_id, after: 0, limit: 10_000 };
    store.read(request).await.unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
