//! What one does with runs, whichever engine carries them and wherever they are kept.
//!
//! A [`Client`] stands over an engine and a store: it checks and authorises what is asked, keeps tenants apart, and
//! reads everything from the log. Programs get one from `drivetrain`, which chooses engine and store for them; who has
//! both already, makes one from [`Parts`].
//!
//! - [`start`]: a plan and its input become a run;
//! - [`ask`]: signals, and the decision on each; [`complete`]: steps that a person ends;
//! - [`read`]: snapshots, lists, live events, waiting for the end;
//! - [`origin`]: runs made from other runs;
//! - [`checkpoint`]: stored states of a run.

pub mod ask;
pub mod checkpoint;
pub mod complete;
pub mod origin;
pub mod read;
pub mod start;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine_core::port::{AuthorizationRequest, Authorizer, Clock, Engine, Operation, StateStore};
use engine_core::{Result, TenantId};

pub use ask::{Ask, Asked, Decision};
pub use complete::Completion;
pub use origin::{Rerun, RerunFrom};
pub use read::ListFilter;
pub use start::{Start, Started};

/// Starts, signals and reads runs. Cheap to clone; all clones are the same.
///
/// Every call is for one tenant, the one it was made for; another tenant's run is `NOT_FOUND`.
#[derive(Clone, Debug)]
pub struct Client(Arc<Parts>);

/// What a [`Client`] is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What carries runs.
    pub engine: Arc<dyn Engine>,
    /// Where they are kept: the store that the engine uses.
    pub store: Arc<dyn StateStore>,
    /// Who may do what; without one everybody may do everything.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// The time that snapshots are taken at.
    pub clock: Arc<dyn Clock>,
    /// On whose behalf everything is.
    pub scope: Scope,
    /// Who starts runs and sends signals.
    pub actor: String,
    /// Who writes RunQueued and refusals, as events name it.
    pub emitted_by: Arc<str>,
    /// The handlers that exist, where that is known: plans that name another are refused.
    pub handlers: Option<BTreeSet<String>>,
    /// How long a signal's sender waits for the decision.
    pub signal_timeout: Duration,
}

/// On whose behalf everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Who owns the runs.
    pub tenant_id: TenantId,
    /// The project they belong to.
    pub project_id: String,
    /// The environment their secrets come from.
    pub environment_id: String,
}

impl Client {
    /// A client over an engine and a store.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// What it is made of, for another client that differs in some of it.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.0
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn StateStore> {
        &self.0.store
    }

    /// On whose behalf everything is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// The handlers that this process has; `None` when it hosts none and so cannot know.
    #[must_use]
    pub fn handlers(&self) -> Option<&BTreeSet<String>> {
        self.0.handlers.as_ref()
    }

    fn tenant(&self) -> &TenantId {
        &self.0.scope.tenant_id
    }

    /// Asks the authorizer, if there is one.
    async fn authorize(&self, actor: &str, operation: Operation) -> Result<()> {
        let Some(authorizer) = &self.0.authorizer else { return Ok(()) };
        let request =
            AuthorizationRequest { actor: actor.to_owned(), tenant_id: self.tenant().clone(), operation };
        authorizer.authorize(request).await?.into_result()
    }
}
