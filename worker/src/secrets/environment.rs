//! Secrets in variables of the worker's process.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use engine_core::port::{Secret, SecretsProvider, SecretsRequest};
use engine_core::{Result, TenantId};

use super::{unresolved, without_version};

/// Where variables come from.
type Variables = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Secrets in environment variables: `env:STRIPE_KEY` is the variable `DRIVETRAIN_SECRET_STRIPE_KEY`.
///
/// The prefix keeps plans away from variables that are not meant for them. Variables belong to the process, not to a
/// tenant: where several tenants share a worker, say whose they are with [`EnvironmentSecrets::only_for`].
pub struct EnvironmentSecrets {
    prefix: String,
    tenant_id: Option<TenantId>,
    variables: Variables,
}

impl EnvironmentSecrets {
    /// Variables that begin with `prefix`, for every tenant.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self::with_variables(prefix, |name| std::env::var(name).ok())
    }

    /// The same with another source of variables than the process.
    #[must_use]
    pub fn with_variables(
        prefix: impl Into<String>,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), tenant_id: None, variables: Box::new(variables) }
    }

    /// Only runs of this tenant get them.
    #[must_use]
    pub fn only_for(mut self, tenant_id: TenantId) -> Self {
        self.tenant_id = Some(tenant_id);
        self
    }
}

impl Default for EnvironmentSecrets {
    fn default() -> Self {
        Self::new("DRIVETRAIN_SECRET_")
    }
}

impl fmt::Debug for EnvironmentSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EnvironmentSecrets")
            .field("prefix", &self.prefix)
            .field("tenant_id", &self.tenant_id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SecretsProvider for EnvironmentSecrets {
    async fn resolve(&self, request: SecretsRequest) -> Result<BTreeMap<String, Secret>> {
        let mut secrets = BTreeMap::new();
        for (name, reference) in request.references {
            without_version(&name, &reference)?;
            if self.tenant_id.as_ref().is_some_and(|tenant_id| *tenant_id != request.tenant_id) {
                let reason = format!("tenant {} has no secrets here", request.tenant_id);
                return Err(unresolved(&name, &reference, &reason, "use a provider that this tenant has"));
            }
            let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
            if !reference.key.chars().all(plain) {
                let reason = "its key is not the name of a variable";
                return Err(unresolved(&name, &reference, reason, "use A-Z a-z 0-9 and _"));
            }
            let variable = format!("{}{}", self.prefix, reference.key);
            let Some(value) = (self.variables)(&variable) else {
                let reason = format!("the worker has no variable {variable}");
                return Err(unresolved(&name, &reference, &reason, "set it where the worker is started"));
            };
            secrets.insert(name, Secret::new(value));
        }
        Ok(secrets)
    }
}
