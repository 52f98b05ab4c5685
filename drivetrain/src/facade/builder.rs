//! Putting a [`Drivetrain`] together: engine, store, handlers, and who acts.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Parts, Scope};
use engine_core::event::step::StepError;
use engine_core::port::{Authorizer, Engine, SecretsProvider, StateStore, StepContext, StepHandler};
use engine_core::{Error, Result, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::{Handlers, MachineTime, Worker, builtin};

use super::Drivetrain;
use crate::config::{Config, ConfigProblems};
use crate::engines::{self, Served, Serving};
use crate::equipment;

/// What drives runs: a name from the registry, or an engine of your own.
#[derive(Clone, Debug)]
pub enum EngineChoice {
    /// A name or alias, as `embedded`.
    Named(String),
    /// An engine that was made elsewhere and is driven there.
    Given(Arc<dyn Engine>),
}

impl From<&str> for EngineChoice {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<Arc<dyn Engine>> for EngineChoice {
    fn from(engine: Arc<dyn Engine>) -> Self {
        Self::Given(engine)
    }
}

/// Where runs are kept: a URL, or a store of your own.
#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// `sqlite://path`, `postgres://…` or `memory:`.
    Url(String),
    /// A store that was opened elsewhere.
    Given(Arc<dyn StateStore>),
}

impl From<&str> for StoreChoice {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for StoreChoice {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

impl From<Arc<dyn StateStore>> for StoreChoice {
    fn from(store: Arc<dyn StateStore>) -> Self {
        Self::Given(store)
    }
}

/// Puts a [`Drivetrain`] together.
#[derive(Debug)]
pub struct Builder {
    config: Config,
    engine: Option<EngineChoice>,
    store: Option<StoreChoice>,
    handlers: Handlers,
    tenant: Option<String>,
    actor: Option<String>,
    authorizer: Option<Arc<dyn Authorizer>>,
    secrets: Option<Arc<dyn SecretsProvider>>,
    signal_timeout: Option<Duration>,
    serves: bool,
    serving: Serving,
    /// The first thing that went wrong on the way; `build` tells it.
    broken: Option<Error>,
}

impl Drivetrain {
    /// Begins with defaults: the embedded engine on a SQLite file in `.drivetrain`.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            config: Config::defaults(),
            engine: None,
            store: None,
            handlers: Handlers::new(),
            tenant: None,
            actor: None,
            authorizer: None,
            secrets: None,
            signal_timeout: None,
            serves: true,
            serving: Serving::default(),
            broken: None,
        }
    }
}

impl Builder {
    /// Takes everything that is not said otherwise from a configuration.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Which engine: a name, or one of your own.
    #[must_use]
    pub fn engine(mut self, engine: impl Into<EngineChoice>) -> Self {
        self.engine = Some(engine.into());
        self
    }

    /// Which store: a URL, or one of your own.
    #[must_use]
    pub fn store(mut self, store: impl Into<StoreChoice>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// A handler: an async function from the step's input to its output, both of your own types.
    #[must_use]
    pub fn handler<I, O, F, Fut>(mut self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(StepContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        let registered = self.handlers.register_fn(name, function);
        self.note(registered);
        self
    }

    /// A handler that sees JSON, and may leave artifacts.
    #[must_use]
    pub fn step_handler(mut self, name: &str, handler: impl StepHandler) -> Self {
        let registered = self.handlers.register(name, handler);
        self.note(registered);
        self
    }

    /// Whose runs these are.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Who starts runs and sends signals.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Who may do what; without one everybody may do everything.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Where secrets come from; without one, from what the configuration allows.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretsProvider>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Programs that the built-in handler `exec` may start.
    #[must_use]
    pub fn allow_exec<S: AsRef<str>>(self, programs: impl IntoIterator<Item = S>) -> Self {
        self.setting("exec.allow", &joined(programs))
    }

    /// Hosts that the built-in handler `http` may call.
    #[must_use]
    pub fn allow_http<S: AsRef<str>>(self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.setting("http.allow", &joined(hosts))
    }

    /// How long a signal's sender waits for the decision.
    #[must_use]
    pub fn signal_timeout(mut self, timeout: Duration) -> Self {
        self.signal_timeout = Some(timeout);
        self
    }

    /// Drives nothing in this process: it starts runs, sends signals and reads; workers elsewhere do the rest.
    #[must_use]
    pub fn connect_only(mut self) -> Self {
        self.serves = false;
        self
    }

    /// Drives only runs that are started or signalled through this, and leaves alone what others have left behind.
    #[must_use]
    pub fn only_asked(mut self) -> Self {
        self.serving = Serving::OnlyAsked;
        self
    }

    /// The handlers that were registered so far, without the built-in ones.
    #[must_use]
    pub fn handler_names(&self) -> BTreeSet<String> {
        self.handlers.names().map(ToString::to_string).collect()
    }

    fn setting(mut self, path: &str, text: &str) -> Self {
        let set = self.config.set(path, text).map_err(|problems| wrong(&problems));
        self.note(set);
        self
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.broken.get_or_insert(error);
        }
    }

    /// Opens the store and the engine.
    ///
    /// # Errors
    /// What was wrong on the way, as a handler that was registered twice; `UNSUPPORTED` for an engine or store that there
    /// is not; `STORE_UNAVAILABLE`, `STORE_SCHEMA_NEWER`, `ENGINE_UNAVAILABLE`.
    pub async fn build(self) -> Result<Drivetrain> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let config = self.config;
        let tenant_id = match &self.tenant {
            Some(tenant) => TenantId::new(tenant)?,
            None => config.tenant()?,
        };
        let store = match self.store {
            Some(StoreChoice::Given(store)) => store,
            Some(StoreChoice::Url(url)) => statestore::open(&url, config.store_options()).await?,
            None => statestore::open(&config.store_url(), config.store_options()).await?,
        };
        let mut handlers = self.handlers;
        let choice = self.engine.unwrap_or_else(|| EngineChoice::Named(config.engine()));
        let (served, known) = match choice {
            EngineChoice::Given(engine) => (Served::new(engine), None),
            EngineChoice::Named(name) if !self.serves => {
                (engines::find(&name)?.connect(store.clone(), &config).await?, None)
            }
            EngineChoice::Named(name) => {
                let entry = engines::find(&name)?;
                builtin::register(&mut handlers, equipment::builtins(&config)?, Arc::new(MachineTime))?;
                let known: BTreeSet<String> = handlers.names().map(ToString::to_string).collect();
                let secrets = match self.secrets {
                    Some(secrets) => secrets,
                    None => equipment::secrets(&config),
                };
                let mut worker = Worker::builder(store.clone(), handlers)
                    .secrets(secrets)
                    .artifacts(equipment::artifacts(&config)?)
                    .inline_limit(config.inline_limit())
                    .claim(config.claim())
                    .write_budget(config.store_options().write_budget);
                if let Some(name) = config.worker_name() {
                    worker = worker.name(name);
                }
                (entry.serve(worker.build()?, &config, self.serving).await?, Some(known))
            }
        };
        let client = Client::new(Parts {
            engine: served.engine().clone(),
            store,
            authorizer: self.authorizer,
            clock: Arc::new(MachineTime),
            scope: Scope { tenant_id, project_id: config.project(), environment_id: config.environment() },
            actor: self.actor.unwrap_or_else(|| config.actor()),
            emitted_by: format!("drivetrain/{}", env!("CARGO_PKG_VERSION")).into(),
            handlers: known,
            signal_timeout: self.signal_timeout.unwrap_or_else(|| config.signal_timeout()),
        });
        Ok(Drivetrain::over(client, served))
    }
}

fn joined<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    items.into_iter().map(|item| item.as_ref().to_owned()).collect::<Vec<_>>().join(",")
}

fn wrong(problems: &ConfigProblems) -> Error {
    Error::new(engine_core::Code::InvalidId, problems.to_string())
}
