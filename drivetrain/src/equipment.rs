//! What a worker is equipped with, as the configuration says: built-in handlers, secrets, artifacts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_core::port::SecretsProvider;
use engine_core::{Code, Error, Result};
use worker::builtin::{Builtins, ExecPolicy, HttpPolicy, Program};
use worker::{Artifacts, DirectorySecrets, EnvironmentSecrets, SecretsByProvider};

use crate::config::Config;

/// The handlers that every worker of ours has.
pub(crate) const BUILT_IN: [&str; 5] = ["echo", "exec", "fail", "http", "sleep"];

/// What the built-in handlers may do. Programs run in the current folder.
pub(crate) fn builtins(config: &Config) -> Result<Builtins> {
    let here = std::env::current_dir().map_err(|cause| {
        Error::new(Code::Internal, "the current folder cannot be found out").with_source(cause)
    })?;
    let mut exec = ExecPolicy::new();
    for entry in config.exec_allow() {
        let (name, path) = named_program(&entry, &here)?;
        exec = exec.allow(name, Program::at(path).in_folder(&here));
    }
    let http = config.http_allow().into_iter().fold(HttpPolicy::new(), HttpPolicy::allow);
    Ok(Builtins { exec, http })
}

/// `sh`, which is looked for on PATH; `/usr/bin/env`; or `load=./load.sh`, a name for steps and where it is.
fn named_program(entry: &str, here: &Path) -> Result<(String, PathBuf)> {
    let (name, place) = entry.split_once('=').unwrap_or((entry, entry));
    let found = find_program(place, here);
    found.map(|path| (name.to_owned(), path)).ok_or_else(|| {
        Error::new(Code::InvalidId, format!("exec.allow has {entry:?}, and there is no program {place}"))
            .with_hint("install it, write its path as name=/path/to/program, or take it out")
    })
}

/// Where a program is.
pub(crate) fn find_program(place: &str, here: &Path) -> Option<PathBuf> {
    if place.contains('/') {
        let path = here.join(place);
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| here.join(folder).join(place)).find(|file| file.is_file())
}

/// Where secrets come from: variables with the configured prefix, and files of the configured folder.
pub(crate) fn secrets(config: &Config) -> Arc<dyn SecretsProvider> {
    let environment = EnvironmentSecrets::new(config.secrets_prefix());
    let mut providers = SecretsByProvider::new().with("env", Arc::new(environment));
    if let Some(folder) = config.secrets_folder() {
        providers = providers.with("file", Arc::new(DirectorySecrets::new(folder)));
    }
    Arc::new(providers)
}

/// Where large outputs go: a folder, or a URL.
pub(crate) fn artifacts(config: &Config) -> Result<Arc<Artifacts>> {
    let place = config.artifacts_url();
    let url = if place.contains("://") || place == "memory:" {
        place
    } else {
        let folder = std::path::absolute(&place).map_err(|cause| {
            Error::new(Code::Unsupported, format!("artifacts.url: {place:?} is not a folder: {cause}"))
        })?;
        file_url(&folder)
    };
    Ok(Arc::new(Artifacts::open_with(&url, &config.artifacts_s3())?))
}

/// Refuses artifacts that this program cannot keep, without touching anything: a folder is made later.
pub(crate) fn check_artifacts(config: &Config) -> Result<()> {
    let place = config.artifacts_url();
    if place.contains("://") && !place.starts_with("file:") {
        artifacts(config)?;
    }
    Ok(())
}

/// The URL of a folder; what means something else in a URL is written in another way.
fn file_url(folder: &Path) -> String {
    let mut url = "file://".to_owned();
    for byte in folder.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(*byte)),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_a_url() {
        assert_eq!(file_url(Path::new("/a b/c#d/é")), "file:///a%20b/c%23d/%C3%A9");
    }

    #[test]
    fn a_program_is_found_by_name_or_by_place() {
        let here = Path::new("/");
        let (name, path) = named_program("sh", here).unwrap();
        assert_eq!(name, "sh");
        assert!(path.is_absolute());
        assert_eq!(named_program("shell=bin/sh", here).unwrap(), ("shell".to_owned(), "/bin/sh".into()));
        let error = named_program("no-such-program", here).unwrap_err();
        assert!(error.message().contains("no-such-program"), "{error}");
    }
}
