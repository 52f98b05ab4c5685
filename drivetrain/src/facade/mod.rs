//! The facade: everything that a program does with runs, on whatever engine and store it was built with.
//!
//! - [`builder`]: engine, store, handlers, and who acts;
//! - [`start`]: a plan and its input become a run;
//! - [`ask`]: signals, and the decision on each; [`complete`]: steps that a person ends;
//! - [`read`]: snapshots, lists, live events, waiting for the end;
//! - [`origin`]: runs made from other runs;
//! - [`checkpoint`]: stored states of a run.

pub mod ask;
pub mod builder;
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

use crate::engines::Served;

/// Runs plans. Cheap to clone; all clones are the same.
///
/// Every call is for one tenant, the one it was built for; another tenant's run is `NOT_FOUND`.
#[derive(Clone, Debug)]
pub struct Drivetrain(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    store: Arc<dyn StateStore>,
    served: Served,
    authorizer: Option<Arc<dyn Authorizer>>,
    clock: Arc<dyn Clock>,
    scope: Scope,
    actor: String,
    emitted_by: Arc<str>,
    /// The handlers that exist, where that is known.
    handlers: Option<BTreeSet<String>>,
    signal_timeout: Duration,
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

impl Drivetrain {
    pub(crate) fn from_parts(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.0.served.engine()
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

    /// Stops driving runs in this process: nothing new starts, and leases are given back, so that another process can
    /// go on at once. Runs stay as they are.
    pub async fn shutdown(&self) {
        self.0.served.shutdown().await;
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
