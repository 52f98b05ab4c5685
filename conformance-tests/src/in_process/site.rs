//! Where engines live and die.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use adapter_mock::virtual_time::Hold;
use adapter_mock::{Handover, InProcess, VirtualTime};
use async_trait::async_trait;
use engine_core::port::{Clock as _, Engine, StateStore, Timekeeper};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use worker::{Artifacts, Handlers, Worker};

use super::trouble::{Leases, MortalLayer, Restless, Trouble};
use super::{Front, Which};
use crate::harness::{HarnessError, Setup};
use crate::layer::Layered;
use crate::subject::Operator;
use crate::variant::Variant;

/// How long a dead engine keeps its runs. A third of it is how often a living one renews by the machine's clock: longer
/// than a case may take, so that nobody renews for the dead.
const LEASE: Duration = Duration::from_secs(600);

/// How often each attempt is handed out where that is done more than once.
const COPIES: usize = 3;

/// The place where engines live and die.
#[derive(Debug)]
pub(super) struct Site {
    store: Arc<dyn StateStore>,
    time: VirtualTime,
    setup: Setup,
    artifacts: Arc<Artifacts>,
    /// The engine that the front leads to, then those of other processes.
    engines: Mutex<Vec<(u32, InProcess)>>,
    /// How many were opened.
    opened: watch::Sender<u32>,
    /// The leases that its engines have taken.
    leases: Arc<Leases>,
    restless: Option<Arc<Restless>>,
    closed: AtomicBool,
    own: Weak<Self>,
}

impl Site {
    pub(super) async fn open(
        setup: Setup,
        store: Arc<dyn StateStore>,
        time: VirtualTime,
    ) -> Result<Arc<Self>, HarnessError> {
        let artifacts = Arc::new(Artifacts::open("memory:")?);
        let restless = match setup.variant {
            Some(Variant::WorkerRestart) => Some(Restless::new(&setup.case, time.clone())),
            _ => None,
        };
        let (restless, deaths) = restless.unzip();
        let site = Arc::new_cyclic(|own| Self {
            store,
            time,
            setup,
            artifacts,
            engines: Mutex::default(),
            opened: watch::Sender::new(0),
            leases: Arc::default(),
            restless: restless.map(Arc::new),
            closed: AtomicBool::new(false),
            own: own.clone(),
        });
        if let Some(deaths) = deaths {
            tokio::spawn(revive(Arc::downgrade(&site), deaths));
        }
        site.populate().await?;
        Ok(site)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u32, InProcess)>> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &Arc<dyn StateStore> {
        &self.store
    }

    pub(super) fn first(&self) -> Option<InProcess> {
        let kills = self.setup.stage.kills_so_far();
        self.lock().iter().find(|(born, _)| *born >= kills).map(|(_, engine)| engine.clone())
    }

    pub(super) fn last(&self) -> Option<InProcess> {
        let kills = self.setup.stage.kills_so_far();
        self.lock().iter().rev().find(|(born, _)| *born >= kills).map(|(_, engine)| engine.clone())
    }

    /// Waits for an engine that lives, where they are started again by themselves.
    pub(super) async fn await_engine(&self) {
        let mut opened = self.opened.subscribe();
        while self.restarts() && self.first().is_none() {
            let _ = opened.changed().await;
        }
    }

    /// Whether its engines are killed and started again all the time.
    pub(super) fn restarts(&self) -> bool {
        self.restless.is_some()
    }

    async fn populate(&self) -> Result<InProcess, HarnessError> {
        let time: Arc<dyn Timekeeper> = Arc::new(self.time.clone());
        let mut handlers = Handlers::new();
        for (name, script) in self.setup.handlers(&time) {
            handlers.register(name, script)?;
        }
        let stage = &self.setup.stage;
        let born = stage.kills_so_far();
        let mortal = MortalLayer::new(Arc::clone(stage), Arc::clone(&self.leases));
        let store = Layered::around(self.setup.store(Arc::clone(&self.store), &time), Arc::new(mortal));
        let worker = Worker::builder(store, handlers)
            .name("conformance-worker")
            .artifacts(Arc::clone(&self.artifacts))
            .secrets(self.setup.secrets())
            .time(time)
            .build()?;
        let options = adapter_mock::Options {
            lease: LEASE,
            virtual_time: Some(self.time.clone()),
            handover: match self.setup.variant {
                Some(Variant::DuplicateDelivery) => Handover::Claimed { copies: COPIES },
                _ => Handover::Direct,
            },
            faults: Some(Arc::new(Trouble::new(
                Arc::clone(stage),
                self.setup.variant == Some(Variant::Rebuild),
                self.restless.clone(),
            ))),
            ..adapter_mock::Options::default()
        };
        let opening = |opening| self.restless.iter().for_each(|restless| restless.opening(opening));
        opening(true);
        let engine = InProcess::open(worker, options).await?;
        self.lock().push((born, engine.clone()));
        opening(false);
        self.opened.send_modify(|opened| *opened += 1);
        Ok(engine)
    }

    /// Waits until every engine that was killed has noticed, and forgets them.
    async fn bury(&self) {
        let dead = std::mem::take(&mut *self.lock());
        for (_, engine) in &dead {
            let gone = tokio::time::timeout(Duration::from_secs(30), engine.shutdown());
            let _ = gone.await;
        }
    }

    /// Starts again what a variant has killed, at once: nobody waits for the leases of the dead, or a case that is about
    /// time would mean something else.
    async fn revive(&self) {
        self.bury().await;
        self.setup.stage.forget_the_lost(&*self.store).await;
        for (run_id, fence) in self.leases.take() {
            let _ = self.store.release(&run_id, fence).await;
        }
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = self.populate().await {
            self.setup.stage.found(format!("what was killed cannot be started again: {error}"));
        }
    }
}

/// Starts again what was killed, each time. Time stands still meanwhile.
async fn revive(site: Weak<Site>, mut deaths: UnboundedReceiver<Hold>) {
    while let Some(held) = deaths.recv().await {
        let Some(site) = site.upgrade() else { return };
        site.revive().await;
        drop(held);
    }
}

#[async_trait]
impl Operator for Site {
    fn hold_time(&self) -> Box<dyn Any + Send> {
        Box::new(self.time.hold())
    }

    async fn kill(&self) -> Result<(), HarnessError> {
        self.setup.stage.kill();
        self.bury().await;
        Ok(())
    }

    async fn restart(&self) -> Result<(), HarnessError> {
        self.bury().await;
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let over = self.time.alarm(self.time.now().plus_millis(lease + 1));
        if tokio::time::timeout(Duration::from_secs(30), over).await.is_err() {
            return Err(HarnessError::new("the lease of the dead does not run out: somebody is busy"));
        }
        self.populate().await.map(|_| ())
    }

    async fn another_process(&self) -> Result<Arc<dyn Engine>, HarnessError> {
        self.populate().await?;
        let site = self.own.upgrade().ok_or_else(|| HarnessError::new("the site is gone"))?;
        Ok(Arc::new(Front { site, which: Which::Last, modest: false }))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.setup.stage.kill();
        self.bury().await;
    }
}
