//! A store in memory, for tests: the same rules as the databases, gone with the process.
//!
//! One file a concern, named as in engine-core's `port::store`.

mod checkpoint;
mod coordination;
mod inbox;
mod log;
mod outbox;
mod plans;
mod progress;
mod registry;
mod requests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_core::event::Event;
use engine_core::event::run::PlanRef;
use engine_core::machine::RunStatus;
use engine_core::port::Clock;
use engine_core::port::store::{CheckpointRecord, RequestKey, RunRecord, StepProgress};
use engine_core::signal::Signal;
use engine_core::{Error, Result, RunId, StepId, TenantId, Timestamp};

use crate::append::{Head, Taken, no_such_run};
use crate::options::{Options, SystemClock};
use crate::wake::Wakeups;

/// A store in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    outbox: bool,
    wakeups: Arc<Wakeups>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: HashMap<RunId, Run>,
    by_identity: HashMap<(TenantId, Arc<str>), RunId>,
    plans: HashMap<(TenantId, String), Arc<str>>,
    answers: HashMap<(TenantId, RequestKey), (Arc<str>, Timestamp)>,
    outbox: outbox::Rows,
    /// Counts runs.
    made: u64,
}

struct Run {
    head: Head,
    taken: Taken,
    events: Vec<Event>,
    identity: Arc<str>,
    plan_ref: PlanRef,
    source_run_id: Option<RunId>,
    status: RunStatus,
    engine_run_ref: Option<String>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
    /// When the first event came that nobody has acted on.
    ahead_since: Timestamp,
    acted_seq: u64,
    open: bool,
    lease: Option<(String, Timestamp)>,
    claims: HashMap<(StepId, u32), (String, Timestamp)>,
    signals: Vec<Signal>,
    snapshots: BTreeMap<u64, String>,
    checkpoints: Vec<(CheckpointRecord, String)>,
    progress: BTreeMap<StepId, StepProgress>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let shared =
            Shared { clock, outbox: options.outbox, wakeups: Arc::default(), state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave a half-done write: each is checked before it changes anything.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }
}

impl State {
    fn run(&mut self, run_id: &RunId) -> Result<&mut Run> {
        self.runs.get_mut(run_id).ok_or_else(|| no_such_run(run_id.as_str()))
    }

    /// The run, if it is this tenant's (START-6).
    fn run_of(&mut self, tenant_id: &TenantId, run_id: &RunId) -> Result<&mut Run> {
        let missing: fn(&RunId) -> Error = |run_id| no_such_run(run_id.as_str());
        let run = self.runs.get_mut(run_id).ok_or_else(|| missing(run_id))?;
        if run.head.tenant_id == *tenant_id { Ok(run) } else { Err(missing(run_id)) }
    }
}

impl Run {
    fn record(&self) -> RunRecord {
        RunRecord {
            tenant_id: self.head.tenant_id.clone(),
            run_id: self.head.run_id.clone(),
            plan_id: self.plan_ref.plan_id.clone(),
            plan_version: self.plan_ref.plan_version.clone(),
            plan_hash: self.plan_ref.sha256.clone(),
            status: self.status,
            last_event_seq: self.head.last_seq,
            acted_seq: self.acted_seq,
            engine_run_ref: self.engine_run_ref.clone(),
            created_at: self.created_at,
            ended_at: self.ended_at,
        }
    }

    /// Events after a place; places are contiguous, so it is also an index.
    fn after(&self, place: u64) -> &[Event] {
        let start = usize::try_from(place).unwrap_or(usize::MAX).min(self.events.len());
        &self.events[start..]
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryStore").field("runs", &self.state().runs.len()).finish_non_exhaustive()
    }
}
