//! Providers that turn references into secrets (SECRET-2).
//!
//! - [`environment`]: variables of the worker's process;
//! - [`directory`]: one file a secret, as Kubernetes mounts them;
//! - [`by_provider`]: several providers, chosen by the name in the reference.

pub mod by_provider;
pub mod directory;
pub mod environment;

pub use by_provider::SecretsByProvider;
pub use directory::DirectorySecrets;
pub use environment::EnvironmentSecrets;

use engine_core::plan::FullSecretRef;
use engine_core::{Code, Error};

/// A reference that cannot be resolved; names it and never a value.
fn unresolved(name: &str, reference: &FullSecretRef, reason: &str, hint: &str) -> Error {
    Error::new(
        Code::SecretUnresolved,
        format!("the secret {name} ({}:{}) cannot be resolved: {reason}", reference.provider, reference.key),
    )
    .with_hint(hint)
}

/// Neither variables nor files have versions.
fn without_version(name: &str, reference: &FullSecretRef) -> Result<(), Error> {
    match &reference.version {
        None => Ok(()),
        Some(version) => Err(unresolved(
            name,
            reference,
            &format!("it asks for version {version}, and this provider keeps only one"),
            "leave `version` out",
        )),
    }
}
