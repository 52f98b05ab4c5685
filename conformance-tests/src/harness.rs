//! What a third party implements to have an engine tested.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::{Capability, SecretsProvider, StateStore, Timekeeper};
use serde::{Deserialize, Serialize};

use crate::layer::Layered;
use crate::layer::rebuild::RebuildLayer;
use crate::layer::slow::SlowLayer;
use crate::script::{HANDLERS, Script, Stage, Vault};
use crate::subject::Subject;
use crate::variant::Variant;

/// Makes subjects: an engine on a store with a scripted worker, each apart from all others.
///
/// See [`crate::in_process`] for one of about forty lines.
#[async_trait]
pub trait Harness: Debug + Send + Sync + 'static {
    /// What is tested.
    fn describe(&self) -> Implementation;

    /// What it can do to a subject besides running it.
    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }

    /// What can go wrong all the time in its subjects, as [`Setup::variant`] says. A harness whose engine and worker use
    /// the store that [`Setup::store`] gives can do [`Variant::SlowStore`] and [`Variant::Rebuild`].
    fn variants(&self) -> Vec<Variant> {
        Vec::new()
    }

    /// Opens a subject that shares nothing with any other: no runs, no tenants, no workers.
    ///
    /// # Errors
    /// What broke. The case is then an error, not a failure.
    async fn open(&self, setup: Setup) -> Result<Subject, HarnessError>;
}

/// What is tested, as it stands in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// The adapter's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The engine it drives.
    pub engine: String,
    /// The engine's version.
    pub engine_version: String,
    /// The store that was used.
    pub store: String,
}

/// What a harness can do to a subject besides running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Kill everything that drives runs and runs steps, without a word, and start it again.
    Kill,
    /// Open another process's client on the same store and engine.
    AnotherProcess,
    /// Let hours pass in a moment: the subject's time is virtual. Without it the suite waits in real time, and for what
    /// must not come only as long as [`crate::Timeouts::quiet`] says.
    PassTime,
    /// Let chosen appends be late: its engine and worker use the store that [`Setup::store`] gives.
    SlowStore,
}

impl Fault {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::AnotherProcess => "another process",
            Self::PassTime => "pass time",
            Self::SlowStore => "slow store",
        }
    }
}

/// What a case needs beyond the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An optional ability that the engine declares.
    Has(Capability),
    /// The lack of an optional ability: what is not declared must be refused.
    Lacks(Capability),
    /// Something that the harness can do.
    Can(Fault),
    /// That whoever drives a run holds its lease in the store, as inside a process.
    Leases,
}

/// What a subject is opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The case, for names of files and schemas: letters, digits, dots and underscores.
    pub case: String,
    /// Where steps meet their script.
    pub stage: Arc<Stage>,
    /// What goes wrong all the time, of what the harness can do.
    pub variant: Option<Variant>,
}

impl Setup {
    /// The scripted handlers, by name: what the subject's worker must host. `time` is the clock that the engine lives by.
    #[must_use]
    pub fn handlers(&self, time: &Arc<dyn Timekeeper>) -> Vec<(&'static str, Script)> {
        let script = |name| (name, Script::new(name, Arc::clone(&self.stage), Arc::clone(time)));
        HANDLERS.into_iter().map(script).collect()
    }

    /// The store as engine and worker shall see it: slow when a case or a variant says so, and looked after by the variant
    /// that rebuilds. The subject itself keeps the store as it is.
    #[must_use]
    pub fn store(&self, store: Arc<dyn StateStore>, time: &Arc<dyn Timekeeper>) -> Arc<dyn StateStore> {
        let slow = SlowLayer { slow: Arc::clone(self.stage.slow()), time: Arc::clone(time) };
        let store = match self.variant {
            Some(Variant::Rebuild) => {
                Layered::around(store, Arc::new(RebuildLayer::new(Arc::clone(&self.stage))))
            }
            _ => store,
        };
        Layered::around(store, Arc::new(slow))
    }

    /// The secrets that steps refer to: what the subject's worker must resolve them with.
    #[must_use]
    pub fn secrets(&self) -> Arc<dyn SecretsProvider> {
        Arc::new(Vault)
    }
}

/// What broke in a harness.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct HarnessError {
    /// What broke.
    pub what: String,
}

impl HarnessError {
    /// Something broke.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl From<engine_core::Error> for HarnessError {
    fn from(error: engine_core::Error) -> Self {
        Self::new(error.to_string())
    }
}
