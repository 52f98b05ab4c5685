//! Secrets in files, one a secret, as Kubernetes mounts them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use engine_core::plan::FullSecretRef;
use engine_core::port::{Secret, SecretsProvider, SecretsRequest};
use engine_core::{Code, Error, Result};

use super::{unresolved, without_version};

/// The largest file that is taken for a secret; Kubernetes has the same limit.
const LARGEST: u64 = 1024 * 1024;

/// Secrets in a folder: `file:stripe/key` is the file `stripe/key` below it, without the line break at its end.
///
/// Files are read anew for every attempt, so a secret that is replaced counts at once. Symbolic links are followed as
/// long as they stay in the folder, as those that Kubernetes makes do.
#[derive(Clone, Debug)]
pub struct DirectorySecrets {
    root: PathBuf,
    per_tenant: bool,
}

impl DirectorySecrets {
    /// The files below `root`, for every tenant and environment.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), per_tenant: false }
    }

    /// Each tenant and environment has a folder of its own: `root/tenant/environment/key`.
    #[must_use]
    pub fn per_tenant(mut self) -> Self {
        self.per_tenant = true;
        self
    }

    fn folder(&self, request: &SecretsRequest) -> Option<PathBuf> {
        if !self.per_tenant {
            return Some(self.root.clone());
        }
        let tenant = below(request.tenant_id.as_str()).filter(|tenant| tenant.components().count() == 1)?;
        let environment = below(&request.environment_id).filter(|path| path.components().count() == 1)?;
        Some(self.root.join(tenant).join(environment))
    }

    async fn read(folder: &Path, name: &str, reference: &FullSecretRef) -> Result<Secret> {
        without_version(name, reference)?;
        let refused = |reason: &str| {
            unresolved(name, reference, reason, "name a file below the folder of secrets, as stripe/key")
        };
        let Some(key) = below(&reference.key) else {
            return Err(refused("its key leaves the folder of secrets"));
        };
        let unreadable = |cause: std::io::Error| match cause.kind() {
            std::io::ErrorKind::NotFound => refused("there is no such file"),
            std::io::ErrorKind::PermissionDenied => refused("the worker may not read the file"),
            // The file is there and may be read a moment later.
            _ => Error::new(Code::StoreUnavailable, format!("the secret {name} cannot be read: {cause}")),
        };
        let folder = tokio::fs::canonicalize(folder).await.map_err(unreadable)?;
        let file = tokio::fs::canonicalize(folder.join(key)).await.map_err(unreadable)?;
        if !file.starts_with(&folder) {
            return Err(refused("its file lies outside the folder of secrets"));
        }
        let found = tokio::fs::metadata(&file).await.map_err(unreadable)?;
        if !found.is_file() || found.len() > LARGEST {
            return Err(refused("it is not a file of at most 1 MiB"));
        }
        let content = tokio::fs::read(&file).await.map_err(unreadable)?;
        let mut text = String::from_utf8(content).map_err(|_| refused("its file is not UTF-8 text"))?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(Secret::new(text))
    }
}

/// A path that stays below where it begins.
fn below(text: &str) -> Option<&Path> {
    let path = Path::new(text);
    let stays = !text.is_empty()
        && !text.contains('\0')
        && path.components().all(|part| matches!(part, Component::Normal(_)));
    stays.then_some(path)
}

#[async_trait]
impl SecretsProvider for DirectorySecrets {
    async fn resolve(&self, request: SecretsRequest) -> Result<BTreeMap<String, Secret>> {
        let folder = self.folder(&request);
        let mut secrets = BTreeMap::new();
        for (name, reference) in request.references {
            let Some(folder) = &folder else {
                let reason = format!("the environment {:?} cannot be a folder", request.environment_id);
                return Err(unresolved(&name, &reference, &reason, "give the environment a plain name"));
            };
            let secret = Self::read(folder, &name, &reference).await?;
            secrets.insert(name, secret);
        }
        Ok(secrets)
    }
}
