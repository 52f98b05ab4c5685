//! The secrets that scripted steps refer to. They all bear a mark, so that one that got out is found.

use std::collections::BTreeMap;

use async_trait::async_trait;
use engine_core::plan::FullSecretRef;
use engine_core::port::{Secret, SecretsProvider, SecretsRequest};
use engine_core::{Code, Error, Result, TenantId};
use sha2::{Digest as _, Sha256};

/// Every secret begins so: where this stands, a secret got out.
pub const MARK: &str = "hush-hush-";

/// The provider that references name, as in `vault:db/password`.
const PROVIDER: &str = "vault";

/// Knows every secret of the provider `vault`: another for each tenant, environment, key and version. It knows no other
/// provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vault;

impl Vault {
    /// The secret that a key stands for. It looks different in JSON and in a URL.
    #[must_use]
    pub fn secret(tenant_id: &TenantId, environment_id: &str, reference: &FullSecretRef) -> String {
        let FullSecretRef { key, version, .. } = reference;
        let text = format!("{tenant_id}|{environment_id}|{key}|{}", version.as_deref().unwrap_or_default());
        let hash: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{MARK}{hash} \"ä/\\")
    }
}

#[async_trait]
impl SecretsProvider for Vault {
    async fn resolve(&self, request: SecretsRequest) -> Result<BTreeMap<String, Secret>> {
        let SecretsRequest { tenant_id, environment_id, references } = request;
        let mut secrets = BTreeMap::new();
        for (name, reference) in references {
            if reference.provider != PROVIDER {
                let FullSecretRef { provider, key, .. } = &reference;
                let message = format!("the secret {name} ({provider}:{key}) is not in the {PROVIDER}");
                return Err(Error::new(Code::SecretUnresolved, message));
            }
            secrets.insert(name, Secret::new(Self::secret(&tenant_id, &environment_id, &reference)));
        }
        Ok(secrets)
    }
}
