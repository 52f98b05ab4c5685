//! The harness of Temporal: one real server for all cases, a task queue, a store and a worker for each. Time is the
//! machine's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adapter_temporal::{Connect, Options, Temporal};
use async_trait::async_trait;
use conformance::script::{Script, Stage};
use conformance::{Fault, Harness, HarnessError, Implementation, Operator, Setup, Subject};
use engine_core::Result;
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, HandlerResult, SignalRequest,
    StartRequest, StateStore, StepContext, StepHandler, Timekeeper,
};
use engine_core::signal::{Command, PauseMode};
use serde_json::Value;
use worker::{Artifacts, Handlers, MachineTime, Worker};

/// How long a dead worker keeps its attempts.
const CLAIM: Duration = Duration::from_secs(3);
/// After how long Temporal takes a worker for dead that gives no sign of life.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Opens engines on one Temporal server.
#[derive(Debug)]
pub(crate) struct TemporalHarness {
    address: String,
    /// Whether its engines declare what they can do beyond the core.
    modest: bool,
    /// What else is chosen.
    choose: fn(Options) -> Options,
}

impl TemporalHarness {
    pub(crate) fn on(address: String, modest: bool) -> Self {
        Self { address, modest, choose: |options| options }
    }

    /// The same with other options.
    #[allow(dead_code, reason = "not every test program chooses")]
    pub(crate) fn choosing(self, choose: fn(Options) -> Options) -> Self {
        Self { choose, ..self }
    }
}

#[async_trait]
impl Harness for TemporalHarness {
    fn describe(&self) -> Implementation {
        Implementation {
            name: "adapter-temporal".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: adapter_temporal::ENGINE.to_owned(),
            engine_version: "dev server".to_owned(),
            store: "memory".to_owned(),
        }
    }

    fn faults(&self) -> Vec<Fault> {
        vec![Fault::Kill, Fault::AnotherProcess, Fault::SlowStore]
    }

    async fn open(&self, setup: Setup) -> Result<Subject, HarnessError> {
        let store = statestore::open("memory:", statestore::Options::default()).await?;
        let site = Arc::new(Site {
            options: (self.choose)(Options {
                connect: Connect::to(self.address.clone()),
                task_queue: format!("{}-{}", setup.case, uuid::Uuid::new_v4().simple()),
                heartbeat: HEARTBEAT,
                shutdown_grace: Duration::from_secs(5),
                ..Options::default()
            }),
            artifacts: Arc::new(Artifacts::open("memory:")?),
            store: Arc::clone(&store),
            setup,
            lives: Mutex::default(),
            born: AtomicU32::new(0),
        });
        site.populate().await?;
        // Only starts and signals: it outlives those that drive.
        let engine = Temporal::connect(Arc::clone(&store), site.options.clone()).await?;
        let engine: Arc<dyn Engine> =
            if self.modest { Arc::new(Modest(Arc::new(engine))) } else { Arc::new(engine) };
        Ok(Subject { engine, store, time: Arc::new(MachineTime), operator: Arc::new(Hands(site)) })
    }
}

/// Where engines live and die.
#[derive(Debug)]
struct Site {
    options: Options,
    artifacts: Arc<Artifacts>,
    store: Arc<dyn StateStore>,
    setup: Setup,
    lives: Mutex<Vec<Life>>,
    /// How often everything had been killed when the latest of them began.
    born: AtomicU32,
}

/// An engine that drives, in a runtime of its own: what it has spawned dies with that.
#[derive(Debug)]
struct Life {
    /// How often everything had been killed when it began.
    born: u32,
    engine: Temporal,
    runtime: tokio::runtime::Runtime,
}

impl Life {
    fn end(self) {
        self.engine.abandon();
        self.runtime.shutdown_background();
    }
}

impl Site {
    async fn populate(self: &Arc<Self>) -> Result<(), HarnessError> {
        let time: Arc<dyn Timekeeper> = Arc::new(MachineTime);
        let stage = &self.setup.stage;
        let born = stage.kills_so_far();
        self.born.store(born, Ordering::SeqCst);
        let mut handlers = Handlers::new();
        for (name, script) in self.setup.handlers(&time) {
            let mortal = Mortal { script, born, stage: Arc::clone(stage) };
            handlers.register(name, mortal)?;
        }
        let store = self.setup.store(Arc::clone(&self.store), &time);
        let worker = Worker::builder(store, handlers)
            .name("conformance-worker")
            .artifacts(Arc::clone(&self.artifacts))
            .secrets(self.setup.secrets())
            .claim(CLAIM)
            .build()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|cause| HarnessError::new(cause.to_string()))?;
        let opening = runtime.spawn(Temporal::open(worker, self.options.clone()));
        let engine = match opening.await {
            Ok(Ok(engine)) => engine,
            failed => {
                runtime.shutdown_background();
                return Err(HarnessError::new(format!("the worker cannot be started: {failed:?}")));
            }
        };
        self.lives.lock().unwrap_or_else(PoisonError::into_inner).push(Life { born, engine, runtime });
        let (site, mut kills) = (Arc::downgrade(self), stage.kills());
        tokio::spawn(async move {
            if kills.changed().await.is_ok()
                && let Some(site) = site.upgrade()
            {
                site.end();
            }
        });
        Ok(())
    }

    /// Ends those that were killed; who came after the latest kill lives on.
    fn end(&self) {
        let kills = self.setup.stage.kills_so_far();
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.extract_if(.., |life| life.born < kills).for_each(Life::end);
    }
}

/// Who can do something to a site.
#[derive(Debug)]
struct Hands(Arc<Site>);

#[async_trait]
impl Operator for Hands {
    async fn kill(&self) -> Result<(), HarnessError> {
        self.0.setup.stage.kill();
        self.0.end();
        Ok(())
    }

    async fn restart(&self) -> Result<(), HarnessError> {
        // A script may be about to kill: what is started before that would die, too.
        let born = self.0.born.load(Ordering::SeqCst);
        let killed = self.0.setup.stage.kills().wait_for(|kills| *kills > born).await.map(|_| ());
        killed.map_err(|_| HarnessError::new("what was not killed cannot be started again"))?;
        // Temporal and the claims let the dead go by themselves.
        self.0.end();
        self.0.populate().await
    }

    async fn another_process(&self) -> Result<Arc<dyn Engine>, HarnessError> {
        Ok(Arc::new(Temporal::connect(Arc::clone(&self.0.store), self.0.options.clone()).await?))
    }

    async fn close(&self) {
        self.0.setup.stage.kill();
        self.0.end();
    }
}

/// A handler that says nothing more once its process was killed.
struct Mortal {
    script: Script,
    stage: Arc<Stage>,
    born: u32,
}

#[async_trait]
impl StepHandler for Mortal {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let result = self.script.run(context, input).await;
        if self.stage.kills_so_far() > self.born {
            std::future::pending::<()>().await;
        }
        result
    }
}

/// An engine that declares nothing beyond the core.
#[derive(Debug)]
struct Modest(Arc<dyn Engine>);

#[async_trait]
impl Engine for Modest {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.0.start(request).await
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, self.name())?;
        }
        self.0.signal(request).await
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        self.0.describe(request).await
    }
}
