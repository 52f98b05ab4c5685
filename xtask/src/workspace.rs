//! What is in this workspace, as cargo knows it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::External;

/// The workspace that the task works on.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Its folder.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target_directory: PathBuf,
    /// Every benchmark.
    pub(crate) benchmarks: Vec<Benchmark>,
}

/// A benchmark target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Benchmark {
    /// The crate it belongs to.
    pub(crate) package: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether its crate depends on real servers.
    pub(crate) uses_servers: bool,
}

impl Workspace {
    /// Finds the workspace and makes its folder the current one, wherever the task was called from.
    pub(crate) fn enter() -> Result<Self> {
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = own.parent().unwrap_or(Path::new(".")).to_owned();
        std::env::set_current_dir(&root)
            .with_context(|| format!("cannot enter the workspace {}", root.display()))?;
        let text = External::cargo("metadata").args(["--no-deps", "--format-version", "1"]).output()?;
        let metadata: Value = serde_json::from_slice(&text).context("cargo metadata wrote no JSON")?;
        let target_directory =
            metadata["target_directory"].as_str().context("cargo metadata names no target directory")?.into();
        Ok(Self { root, target_directory, benchmarks: benchmarks(&metadata) })
    }
}

fn benchmarks(metadata: &Value) -> Vec<Benchmark> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let uses_servers =
            list(&package["dependencies"]).iter().any(|dependency| dependency["name"] == "dev-servers");
        for target in list(&package["targets"]) {
            if list(&target["kind"]).contains(&Value::from("bench"))
                && let (Some(package), Some(name)) = (package["name"].as_str(), target["name"].as_str())
            {
                found.push(Benchmark { package: package.to_owned(), name: name.to_owned(), uses_servers });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn benchmarks_are_found_with_their_crate() {
        let metadata = json!({"packages": [{"name": "core", "dependencies": [{"name": "serde"}], "targets": [
            {"name": "core", "kind": ["lib"]}, {"name": "decider", "kind": ["bench"]},
        ]}]});
        let expected = Benchmark { package: "core".into(), name: "decider".into(), uses_servers: false };
        assert_eq!(benchmarks(&metadata), [expected]);
    }

    #[test]
    fn benchmarks_of_a_crate_that_depends_on_servers_use_them() {
        let metadata = json!({"packages": [{
            "name": "store", "dependencies": [{"name": "dev-servers", "kind": "dev"}],
            "targets": [{"name": "append", "kind": ["bench"]}],
        }]});
        assert!(benchmarks(&metadata)[0].uses_servers);
    }
}
