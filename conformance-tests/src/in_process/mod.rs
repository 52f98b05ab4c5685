//! The harness of the engine inside the process: on memory, SQLite or Postgres, in virtual time, so that hours of waiting
//! take milliseconds.
//!
//! - this file: the harness, and the engine as clients see it;
//! - `site`: where engines live and die; `trouble`: what goes wrong in them.

mod site;
mod trouble;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adapter_mock::{InProcess, VirtualTime};
use async_trait::async_trait;
use engine_core::port::store::NewLease;
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest,
    StateStore,
};
use engine_core::signal::{Command, PauseMode};
use engine_core::{Code, Result, Timestamp};
use site::Site;

use crate::harness::{Fault, Harness, HarnessError, Implementation, Setup};
use crate::subject::Subject;
use crate::variant::Variant;

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
        vec![Fault::Kill, Fault::AnotherProcess, Fault::PassTime, Fault::SlowStore]
    }

    fn variants(&self) -> Vec<Variant> {
        Variant::ALL.to_vec()
    }

    async fn open(&self, setup: Setup) -> Result<Subject, HarnessError> {
        let time = VirtualTime::starting_at(Timestamp::from_millis(BEGINNING));
        let store = self.store(&setup.case, &time).await?;
        let site = Site::open(setup, Arc::clone(&store), time.clone()).await?;
        let engine = Arc::new(Front { site: Arc::clone(&site), which: Which::First, modest: self.modest });
        Ok(Subject { engine, store, time: Arc::new(time), operator: site })
    }
}

/// Leads to an engine that lives; while none does, runs and signals wait in the store.
#[derive(Debug)]
struct Front {
    site: Arc<Site>,
    which: Which,
    modest: bool,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    /// The process that was there first.
    First,
    /// The one that came last.
    Last,
}

impl Front {
    fn engine(&self) -> Option<InProcess> {
        match self.which {
            Which::First => self.site.first(),
            Which::Last => self.site.last(),
        }
    }
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
        self.engine().map_or(
            Capabilities { immediate_pause: true, fail_fast_cancel: true, ..Capabilities::default() },
            |engine| engine.capabilities(),
        )
    }

    fn lease(&self) -> Option<NewLease> {
        // Whoever has it may be gone before the run is made.
        if self.site.restarts() { None } else { self.engine().and_then(|engine| engine.lease()) }
    }

    async fn start(&self, mut request: StartRequest) -> Result<EngineRun> {
        if self.site.restarts() {
            request.fresh = None;
            self.site.await_engine().await;
        }
        match self.engine() {
            Some(engine) => engine.start(request).await,
            None => Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open }),
        }
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, self.name())?;
        }
        if let Some(engine) = self.engine() {
            match engine.signal(request.clone()).await {
                // It died while it was asked; whoever comes next finds the signal in the store.
                Err(error) if error.code() == Code::LeaseLost => {}
                answer => return answer,
            }
        }
        self.site.store().submit(&request.tenant_id, &request.run_id, request.signal).await
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        match self.engine() {
            Some(engine) => engine.describe(request).await,
            None => {
                let record = self.site.store().find(&request.tenant_id, &request.run_id).await?;
                Ok(EngineRun { reference: record.run_id.to_string(), status: EngineStatus::Open })
            }
        }
    }
}
