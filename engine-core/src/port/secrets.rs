//! The secrets port: turns references into values, on the worker, at the last moment.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::plan::FullSecretRef;

/// Resolves references to secrets for one tenant and environment.
#[async_trait]
pub trait SecretsProvider: Debug + Send + Sync + 'static {
    /// The value of every reference, by the name under which the step wants it.
    ///
    /// # Errors
    /// `SECRET_UNRESOLVED`, naming the reference and never a value.
    async fn resolve(&self, request: SecretsRequest) -> Result<BTreeMap<String, Secret>>;
}

/// Secrets that a step needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsRequest {
    /// Whose secrets.
    pub tenant_id: TenantId,
    /// Of which environment.
    pub environment_id: String,
    /// The references by name.
    pub references: BTreeMap<String, FullSecretRef>,
}

/// A secret value. It cannot be printed or written by accident; [`Secret::expose`] is the only way to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the handler that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("hunter2");
        let nested = BTreeMap::from([("password", secret.clone())]);
        assert!(!format!("{secret:?} {nested:?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
