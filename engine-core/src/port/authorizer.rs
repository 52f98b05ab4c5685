//! The authorisation port: who may do what.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::{Code, Error, Result};
use crate::id::{PlanId, RunId, TenantId};
use crate::signal::SignalType;

/// Decides whether somebody may do something, at the boundary, before anything is stored.
#[async_trait]
pub trait Authorizer: Debug + Send + Sync + 'static {
    /// Whether the actor may do it.
    ///
    /// # Errors
    /// When it cannot be found out; the request is then refused.
    async fn authorize(&self, request: AuthorizationRequest) -> Result<Authorization>;
}

/// Who wants to do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// Who.
    pub actor: String,
    /// In which tenant.
    pub tenant_id: TenantId,
    /// What.
    pub operation: Operation,
}

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Start a run of a plan.
    Start(PlanId),
    /// Read a run.
    Read(RunId),
    /// List runs.
    List,
    /// Send a signal to a run.
    Signal(RunId, SignalType),
    /// Make a run from another.
    Rerun(RunId),
}

/// Whether somebody may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Yes.
    Allowed,
    /// No.
    Denied {
        /// Why, for a person.
        reason: String,
    },
}

impl Authorization {
    /// `Ok` when allowed.
    ///
    /// # Errors
    /// `AUTHZ_DENIED` with the reason.
    pub fn into_result(self) -> Result<()> {
        match self {
            Self::Allowed => Ok(()),
            Self::Denied { reason } => Err(Error::new(Code::AuthzDenied, reason)),
        }
    }
}
