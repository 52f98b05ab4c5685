//! The engine, and which runs it drives.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use engine_core::port::store::NewLease;
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest,
    StateStore,
};
use engine_core::signal::{Command, PauseMode};
use engine_core::{Result, RunId, TenantId};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use worker::Worker;

use crate::attend;
use crate::driver::{self, Occasion};
use crate::faults::{Fault, Moment};
use crate::flights::Input;
use crate::options::{Options, Recover};
use crate::virtual_time::Hold;

/// The name of this engine, as it stands in RunStarted.
pub const ENGINE: &str = "mock";

/// Runs whose logs are read at once.
const READING_AT_ONCE: usize = 32;

/// Drives runs inside this process. Clones share it; with the last of them it lets nothing new start, as with
/// [`InProcess::shutdown`], but nobody waits for what runs.
#[derive(Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
    _alive: Arc<DropGuard>,
}

/// What all drivers of an engine share.
pub(crate) struct Shared {
    pub(crate) worker: Worker,
    pub(crate) options: Options,
    /// Who holds the leases.
    pub(crate) holder: String,
    /// Drivers by run, and how to tell them something.
    live: Mutex<HashMap<RunId, UnboundedSender<Input>>>,
    /// Runs that were asked for and have not ended; kept only where others are left alone.
    asked: Mutex<HashSet<RunId>>,
    pub(crate) stopping: CancellationToken,
    pub(crate) reading: Semaphore,
    tasks: TaskTracker,
}

impl InProcess {
    /// Takes every run that nobody drives, and from then on drives what is started and what others leave behind, until
    /// [`InProcess::shutdown`]. With [`Recover::OnlyAsked`] it leaves alone what it was not asked for.
    ///
    /// # Errors
    /// Whatever the store says when it cannot be asked which runs there are.
    pub async fn open(worker: Worker, options: Options) -> Result<Self> {
        let holder = format!("{}-{}", worker.name(), uuid::Uuid::new_v4().simple());
        let shared = Arc::new(Shared {
            worker,
            options,
            holder,
            live: Mutex::default(),
            asked: Mutex::default(),
            stopping: CancellationToken::new(),
            reading: Semaphore::new(READING_AT_ONCE),
            tasks: TaskTracker::new(),
        });
        let alive = Arc::new(shared.stopping.clone().drop_guard());
        attend::open(&shared).await?;
        Ok(Self { shared, _alive: alive })
    }

    /// Lets nothing new start, waits for handlers that run, as long as the options say, and gives all runs back, so that
    /// another process takes them at once.
    pub async fn shutdown(&self) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(self.shared.options.shutdown_grace, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("handlers still run after the grace of the shutdown; they are left to the lease");
        }
    }

    /// How many runs this process drives at the moment.
    #[must_use]
    pub fn driving(&self) -> usize {
        self.shared.live().len()
    }
}

impl Shared {
    pub(crate) fn store(&self) -> &Arc<dyn StateStore> {
        self.worker.store()
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, HashMap<RunId, UnboundedSender<Input>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that a run was asked for, where that matters.
    fn ask(&self, run_id: &RunId) {
        if self.options.recover == Recover::OnlyAsked {
            self.asked().insert(run_id.clone());
        }
    }

    /// A run has ended: nobody need attend to it any more.
    pub(crate) fn forget(&self, run_id: &RunId) {
        self.asked().remove(run_id);
    }

    /// Whether a run is this engine's to drive, when nobody else does.
    pub(crate) fn minds(&self, run_id: &RunId) -> bool {
        match self.options.recover {
            Recover::All => true,
            Recover::OnlyAsked => self.asked().contains(run_id),
        }
    }

    /// Runs that were asked for and that have no driver here now.
    pub(crate) fn idle(&self) -> Vec<RunId> {
        let asked: Vec<RunId> = self.asked().iter().cloned().collect();
        let live = self.live();
        asked.into_iter().filter(|run_id| !live.contains_key(run_id)).collect()
    }

    /// Tells a run's driver to look for signals; makes one when there is none. A run that was made just now has none.
    pub(crate) fn attend(self: &Arc<Self>, tenant_id: &TenantId, run_id: &RunId, occasion: Occasion) {
        let mut live = self.live();
        if let Some(mailbox) = live.get(run_id) {
            if !matches!(occasion, Occasion::Made(_)) {
                let _ = mailbox.send(Input::Look);
            }
            return;
        }
        if self.stopping.is_cancelled() {
            return;
        }
        let (mailbox, inputs) = unbounded_channel();
        live.insert(run_id.clone(), mailbox.clone());
        drop(live);
        let post = driver::Post { mailbox, inputs };
        self.spawn(driver::drive(Arc::clone(self), tenant_id.clone(), run_id.clone(), post, occasion));
    }

    /// Starts a task that keeps virtual time from passing while it has something to do.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        match &self.options.virtual_time {
            None => self.tasks.spawn(task).abort_handle(),
            Some(time) => self.tasks.spawn(time.watch(task)).abort_handle(),
        }
    }

    /// Keeps virtual time from passing.
    pub(crate) fn busy(&self) -> Option<Hold> {
        self.options.virtual_time.as_ref().map(|time| time.hold())
    }

    pub(crate) fn fault(&self, run_id: &RunId, moment: Moment<'_>) -> Fault {
        self.options.faults.as_ref().map_or(Fault::None, |faults| faults.at(run_id, moment))
    }
}

#[async_trait]
impl Engine for InProcess {
    fn name(&self) -> &str {
        ENGINE
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { immediate_pause: true, fail_fast_cancel: true, ..Capabilities::default() }
    }

    fn lease(&self) -> Option<NewLease> {
        let duration_ms = u64::try_from(self.shared.options.lease.as_millis()).unwrap_or(u64::MAX);
        Some(NewLease { holder: self.shared.holder.clone(), duration_ms })
    }

    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.shared.ask(&request.run_id);
        let occasion = request.fresh.map_or(Occasion::Called, Occasion::Made);
        self.shared.attend(&request.tenant_id, &request.run_id, occasion);
        Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open })
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, ENGINE)?;
        }
        self.shared.store().submit(&request.tenant_id, &request.run_id, request.signal).await?;
        self.shared.ask(&request.run_id);
        self.shared.attend(&request.tenant_id, &request.run_id, Occasion::Called);
        Ok(())
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        let record = self.shared.store().find(&request.tenant_id, &request.run_id).await?;
        let status = if record.status.is_terminal() { EngineStatus::Closed } else { EngineStatus::Open };
        Ok(EngineRun { reference: record.run_id.to_string(), status })
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InProcess")
            .field("holder", &self.shared.holder)
            .field("driving", &self.driving())
            .finish_non_exhaustive()
    }
}
