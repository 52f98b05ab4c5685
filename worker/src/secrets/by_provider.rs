//! Several providers, chosen by the name in the reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::Result;
use engine_core::plan::FullSecretRef;
use engine_core::port::{Secret, SecretsProvider, SecretsRequest};

use super::unresolved;

/// Providers by the name that stands before the colon of a reference, as `env` in `env:STRIPE_KEY`.
#[derive(Clone, Debug, Default)]
pub struct SecretsByProvider {
    providers: BTreeMap<String, Arc<dyn SecretsProvider>>,
}

impl SecretsByProvider {
    /// No providers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider; a second one of the same name takes the place of the first.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, provider: Arc<dyn SecretsProvider>) -> Self {
        self.providers.insert(name.into(), provider);
        self
    }

    fn hint(&self) -> String {
        if self.providers.is_empty() {
            return "configure a provider".to_owned();
        }
        let names: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        format!("the worker has: {}", names.join(", "))
    }
}

#[async_trait]
impl SecretsProvider for SecretsByProvider {
    async fn resolve(&self, request: SecretsRequest) -> Result<BTreeMap<String, Secret>> {
        let mut by_provider: BTreeMap<String, BTreeMap<String, FullSecretRef>> = BTreeMap::new();
        for (name, reference) in request.references {
            if !self.providers.contains_key(&reference.provider) {
                let reason = format!("the worker has no provider {}", reference.provider);
                return Err(unresolved(&name, &reference, &reason, &self.hint()));
            }
            by_provider.entry(reference.provider.clone()).or_default().insert(name, reference);
        }
        let mut secrets = BTreeMap::new();
        for (provider, references) in by_provider {
            let Some(provider) = self.providers.get(&provider) else { continue };
            let request = SecretsRequest {
                tenant_id: request.tenant_id.clone(),
                environment_id: request.environment_id.clone(),
                references,
            };
            secrets.extend(provider.resolve(request).await?);
        }
        Ok(secrets)
    }
}
