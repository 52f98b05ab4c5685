//! What a worker is made of.

use std::sync::Arc;
use std::time::Duration;

use engine_core::data::INLINE_BYTES;
use engine_core::port::store::{AppendRequest, Appended};
use engine_core::port::{SecretsProvider, StateStore, Timekeeper};
use engine_core::{Code, Error, Result};

use crate::artifacts::Artifacts;
use crate::code::Plans;
use crate::handlers::Handlers;
use crate::time::MachineTime;

/// Does attempts. Cheap to clone; clones are the same worker.
#[derive(Clone, Debug)]
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) store: Arc<dyn StateStore>,
    pub(crate) handlers: Handlers,
    pub(crate) plans: Plans,
    pub(crate) secrets: Option<Arc<dyn SecretsProvider>>,
    pub(crate) artifacts: Option<Arc<Artifacts>>,
    pub(crate) time: Arc<dyn Timekeeper>,
    pub(crate) inline_limit: usize,
    pub(crate) claim_ms: u64,
    pub(crate) write_budget_ms: u64,
}

impl Worker {
    /// A worker on `store` that has `handlers`.
    #[must_use]
    pub fn builder(store: Arc<dyn StateStore>, handlers: Handlers) -> WorkerBuilder {
        WorkerBuilder {
            name: None,
            store,
            handlers,
            secrets: None,
            artifacts: None,
            time: Arc::new(MachineTime),
            inline_limit: INLINE_BYTES,
            claim: Duration::from_secs(30),
            write_budget: Duration::from_millis(3000),
        }
    }

    /// Appends to a run's log, and waits no longer for that than the write budget (BUDGET-1).
    ///
    /// # Errors
    /// What the store says, and `WRITE_BUDGET_EXCEEDED` when it has said nothing in time: append the same again.
    pub async fn append(&self, request: AppendRequest) -> Result<Appended> {
        let shared = &self.shared;
        let over = shared.time.now().plus_millis(shared.write_budget_ms);
        tokio::select! {
            biased;
            appended = shared.store.append(request) => appended,
            // Made only when the store does not answer at once.
            () = async { shared.time.alarm(over).await } => {
                let message = format!("the store has not answered within {} ms", shared.write_budget_ms);
                Err(Error::new(Code::WriteBudgetExceeded, message)
                    .with_hint("what was appended may be stored; append the same again"))
            }
        }
    }

    /// The worker's name, as it stands in StepStarted.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its handlers.
    #[must_use]
    pub fn handlers(&self) -> &Handlers {
        &self.shared.handlers
    }

    /// The plans it has read.
    #[must_use]
    pub fn plans(&self) -> &Plans {
        &self.shared.plans
    }

    /// Its store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.shared.store
    }

    /// Its clock.
    #[must_use]
    pub fn time(&self) -> &Arc<dyn Timekeeper> {
        &self.shared.time
    }

    /// Where large outputs go.
    #[must_use]
    pub fn artifacts(&self) -> Option<&Arc<Artifacts>> {
        self.shared.artifacts.as_ref()
    }
}

/// Puts a worker together.
#[derive(Debug)]
pub struct WorkerBuilder {
    name: Option<String>,
    store: Arc<dyn StateStore>,
    handlers: Handlers,
    secrets: Option<Arc<dyn SecretsProvider>>,
    artifacts: Option<Arc<Artifacts>>,
    time: Arc<dyn Timekeeper>,
    inline_limit: usize,
    claim: Duration,
    write_budget: Duration,
}

impl WorkerBuilder {
    /// The worker's name, which events carry. Default: `worker-` and a random number.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Resolves references to secrets. Without one, a step that has references fails.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn SecretsProvider>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Takes large outputs. Without one, a step with an output over the inline limit fails.
    #[must_use]
    pub fn artifacts(mut self, artifacts: Arc<Artifacts>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// The clock for time limits, claims and progress. Default: the machine's.
    #[must_use]
    pub fn time(mut self, time: Arc<dyn Timekeeper>) -> Self {
        self.time = time;
        self
    }

    /// The largest output, in bytes of JSON, that stands in the log itself (DATA-18). Default: 256 KiB.
    #[must_use]
    pub fn inline_limit(mut self, bytes: usize) -> Self {
        self.inline_limit = bytes;
        self
    }

    /// How long a claim on an attempt holds unless it is renewed. Default: 30 s.
    #[must_use]
    pub fn claim(mut self, claim: Duration) -> Self {
        self.claim = claim;
        self
    }

    /// How long it waits for an event to be written before it says that it is late. Default: 3 s. A store that gives up
    /// later than that is given up by the worker.
    #[must_use]
    pub fn write_budget(mut self, budget: Duration) -> Self {
        self.write_budget = budget;
        self
    }

    /// The worker.
    ///
    /// # Errors
    /// `INVALID_ID` when the name cannot stand in an event, `UNSUPPORTED` when the claim is shorter than 100 ms.
    pub fn build(self) -> Result<Worker> {
        let name = self.name.unwrap_or_else(|| format!("worker-{}", uuid::Uuid::new_v4().simple()));
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(Error::new(Code::InvalidId, format!("{name:?} is not a valid name of a worker"))
                .with_hint("use 1 to 200 characters, none of them a control character"));
        }
        let claim_ms = u64::try_from(self.claim.as_millis()).unwrap_or(u64::MAX);
        if claim_ms < 100 {
            return Err(Error::new(
                Code::Unsupported,
                format!("a claim of {claim_ms} ms cannot be renewed in time"),
            )
            .with_hint("use at least 100 ms; 30 s is the default"));
        }
        Ok(Worker {
            shared: Arc::new(Shared {
                name: name.into(),
                store: self.store,
                handlers: self.handlers,
                plans: Plans::new(),
                secrets: self.secrets,
                artifacts: self.artifacts,
                time: self.time,
                inline_limit: self.inline_limit,
                claim_ms,
                write_budget_ms: u64::try_from(self.write_budget.as_millis()).unwrap_or(u64::MAX),
            }),
        })
    }
}
