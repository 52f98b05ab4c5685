//! The harness of the engine inside the process: on memory, SQLite or Postgres, in virtual time, so that hours of waiting
//! take milliseconds.

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adapter_mock::{Fault as EngineFault, Faults, InProcess, Moment, VirtualTime};
use async_trait::async_trait;
use engine_core::port::store::NewLease;
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest,
    StateStore, Timekeeper,
};
use engine_core::signal::{Command, PauseMode};
use engine_core::{Result, RunId, Timestamp};
use worker::{Artifacts, Handlers, Worker};

use crate::harness::{Fault, Harness, HarnessError, Implementation, Setup};
use crate::script::Stage;
use crate::subject::{Operator, Subject};

/// How long a dead engine keeps its runs. A third of it is how often a living one renews by the machine's clock: longer
/// than a case may take, so that nobody renews for the dead.
const LEASE: Duration = Duration::from_secs(600);

/// When a case's time begins.
const BEGINNING: i64 = 1_700_000_000_000;

/// Opens engines in this process, each on a store of its own.
#[derive(Debug)]
pub struct InProcessHarness {
    place: Place,
    /// Whether its engines declare what they can do beyond the core.
    modest: bool,
}

#[derive(Debug)]
enum Place {
    Memory,
    Sqlite {
        folder: PathBuf,
        /// Goes with the harness.
        _thrown_away: Option<tempfile::TempDir>,
    },
    Postgres(String),
}

impl InProcessHarness {
    /// On the stores that a URL names: `memory:`, `sqlite://folder` (without a folder, one that is thrown away), or
    /// `postgres://…`, where each case has a schema of its own.
    ///
    /// # Errors
    /// When the URL names no store, or the folder cannot be made.
    pub fn on(url: &str) -> Result<Self, HarnessError> {
        let place = match url.split_once(':') {
            Some(("memory", "")) => Place::Memory,
            Some(("sqlite", "")) => {
                let folder = tempfile::tempdir().map_err(|cause| HarnessError::new(cause.to_string()))?;
                Place::Sqlite { folder: folder.path().to_owned(), _thrown_away: Some(folder) }
            }
            Some(("sqlite", folder)) => {
                Place::Sqlite { folder: folder.trim_start_matches("//").into(), _thrown_away: None }
            }
            Some(("postgres" | "postgresql", _)) => Place::Postgres(url.to_owned()),
            _ => {
                let what =
                    format!("{url:?} names no store: use memory:, sqlite:, sqlite://folder or postgres://…");
                return Err(HarnessError::new(what));
            }
        };
        Ok(Self { place, modest: false })
    }

    /// The same with engines that declare no optional ability: what is not declared must be refused.
    #[must_use]
    pub fn modest(self) -> Self {
        Self { modest: true, ..self }
    }

    async fn store(&self, case: &str, time: &VirtualTime) -> Result<Arc<dyn StateStore>, HarnessError> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let options = statestore::Options {
            clock: Some(Arc::new(time.clone())),
            // A machine that runs many cases at once is slow; the budget itself is tested elsewhere.
            write_budget: Duration::from_secs(60),
            durability: statestore::Durability::Normal,
            schema: format!("case_{unique}"),
            ..statestore::Options::default()
        };
        let url = match &self.place {
            Place::Memory => "memory:".to_owned(),
            Place::Sqlite { folder, .. } => format!("sqlite://{}/{case}-{unique}.db", folder.display()),
            Place::Postgres(url) => url.clone(),
        };
        Ok(statestore::open(&url, options).await?)
    }
}

#[async_trait]
impl Harness for InProcessHarness {
    fn describe(&self) -> Implementation {
        let store = match self.place {
            Place::Memory => "memory",
            Place::Sqlite { .. } => "sqlite",
            Place::Postgres(_) => "postgres",
        };
        Implementation {
            name: "adapter-mock".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: adapter_mock::ENGINE.to_owned(),
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            store: store.to_owned(),
        }
    }

    fn faults(&self) -> Vec<Fault> {
        vec![Fault::Kill, Fault::AnotherProcess, Fault::PassTime]
    }

    async fn open(&self, setup: Setup) -> Result<Subject, HarnessError> {
        let time = VirtualTime::starting_at(Timestamp::from_millis(BEGINNING));
        let store = self.store(&setup.case, &time).await?;
        let site = Arc::new(Site {
            artifacts: Arc::new(Artifacts::open("memory:")?),
            store: Arc::clone(&store),
            time: time.clone(),
            setup,
            engines: Mutex::default(),
        });
        site.populate().await?;
        let engine = Arc::new(Front { site: Arc::clone(&site), modest: self.modest });
        Ok(Subject { engine, store, time: Arc::new(time), operator: site })
    }
}

/// The place where engines live and die.
#[derive(Debug)]
struct Site {
    store: Arc<dyn StateStore>,
    time: VirtualTime,
    setup: Setup,
    artifacts: Arc<Artifacts>,
    /// The engine that the front leads to, then those of other processes.
    engines: Mutex<Vec<InProcess>>,
}

impl Site {
    fn lock(&self) -> MutexGuard<'_, Vec<InProcess>> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<InProcess> {
        self.lock().first().cloned()
    }

    async fn populate(&self) -> Result<InProcess, HarnessError> {
        let time: Arc<dyn Timekeeper> = Arc::new(self.time.clone());
        let mut handlers = Handlers::new();
        for (name, script) in self.setup.handlers(&time) {
            handlers.register(name, script)?;
        }
        let worker = Worker::builder(Arc::clone(&self.store), handlers)
            .name("conformance-worker")
            .artifacts(Arc::clone(&self.artifacts))
            .secrets(self.setup.secrets())
            .time(time)
            .build()?;
        let options = adapter_mock::Options {
            lease: LEASE,
            virtual_time: Some(self.time.clone()),
            faults: Some(Arc::new(Mortal {
                born: self.setup.stage.kills_so_far(),
                stage: Arc::clone(&self.setup.stage),
            })),
            ..adapter_mock::Options::default()
        };
        let engine = InProcess::open(worker, options).await?;
        self.lock().push(engine.clone());
        Ok(engine)
    }

    /// Waits until every engine that was killed has noticed, and forgets them.
    async fn bury(&self) {
        let dead = std::mem::take(&mut *self.lock());
        for engine in &dead {
            // What had steps in flight is gone with them; a driver that only waited leaves its run.
            let gone = tokio::time::timeout(Duration::from_secs(30), engine.shutdown());
            let _ = gone.await;
        }
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
        let over = self.time.alarm(engine_core::port::Clock::now(&self.time).plus_millis(lease + 1));
        if tokio::time::timeout(Duration::from_secs(30), over).await.is_err() {
            return Err(HarnessError::new("the lease of the dead does not run out: somebody is busy"));
        }
        self.populate().await.map(|_| ())
    }

    async fn another_process(&self) -> Result<Arc<dyn Engine>, HarnessError> {
        Ok(Arc::new(self.populate().await?))
    }

    async fn close(&self) {
        self.setup.stage.kill();
        self.bury().await;
    }
}

/// Every driver of an engine dies at the next thing it does once everything was killed.
#[derive(Debug)]
struct Mortal {
    stage: Arc<Stage>,
    born: u32,
}

impl Faults for Mortal {
    fn at(&self, _: &RunId, _: Moment<'_>) -> EngineFault {
        if self.stage.kills_so_far() > self.born { EngineFault::Crash } else { EngineFault::None }
    }
}

/// Leads to the engine that lives; while none does, runs and signals wait in the store.
#[derive(Debug)]
struct Front {
    site: Arc<Site>,
    modest: bool,
}

#[async_trait]
impl Engine for Front {
    fn name(&self) -> &str {
        adapter_mock::ENGINE
    }

    fn capabilities(&self) -> Capabilities {
        if self.modest {
            return Capabilities::default();
        }
        // Also while none lives: what an adapter can do does not depend on its process.
        self.site.first().map_or(
            Capabilities { immediate_pause: true, fail_fast_cancel: true, ..Capabilities::default() },
            |engine| engine.capabilities(),
        )
    }

    fn lease(&self) -> Option<NewLease> {
        self.site.first().and_then(|engine| engine.lease())
    }

    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        match self.site.first() {
            Some(engine) => engine.start(request).await,
            None => Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open }),
        }
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, self.name())?;
        }
        match self.site.first() {
            Some(engine) => engine.signal(request).await,
            None => self.site.store.submit(&request.tenant_id, &request.run_id, request.signal).await,
        }
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        match self.site.first() {
            Some(engine) => engine.describe(request).await,
            None => {
                let record = self.site.store.find(&request.tenant_id, &request.run_id).await?;
                Ok(EngineRun { reference: record.run_id.to_string(), status: EngineStatus::Open })
            }
        }
    }
}
