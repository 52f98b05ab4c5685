//! What must pass before a change goes in.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::command::External;
use crate::fuzz;
use crate::servers::TestServers;
use crate::workspace::Workspace;

/// Cases of each property that does not say how many it wants.
const PROPERTY_CASES: &str = "1024";

/// All unit, integration and documentation tests; each benchmark once, so that none rots. Starts the servers they
/// need.
pub(crate) fn test(workspace: &Workspace) -> Result<()> {
    let servers = TestServers::start()?;
    // All of the workspace at once: a package by itself has other features, and so builds its dependencies anew.
    let once = External::cargo("test")
        .arg("--workspace")
        .args(workspace.benchmarks.iter().flat_map(|benchmark| ["--bench", &benchmark.name]))
        .on_failure("each benchmark must run once without panicking");
    servers.offer(once).run()?;
    // Last, so that the output ends with its results.
    let mut tests = External::cargo("test").arg("--workspace");
    if std::env::var_os("PROPTEST_CASES").is_none() {
        tests = tests.variable("PROPTEST_CASES", PROPERTY_CASES);
    }
    servers.offer(tests).on_failure("the failing tests are listed above").run()
}

/// Format, the fuzz targets' lock file, clippy and documentation, with warnings denied.
pub(crate) fn lint(workspace: &Workspace) -> Result<()> {
    External::cargo("fmt").args(["--all", "--check"]).on_failure("run `cargo fmt --all`").run()?;
    // The fuzz targets are a workspace of their own; rustfmt alone spares CI their dependencies.
    let targets: Vec<PathBuf> = fuzz::target_files(workspace).context("cannot list the fuzz targets")?;
    External::program("rustfmt")
        .args(["--check", "--edition", "2024"])
        .args(targets.iter().map(|file| file.strip_prefix(&workspace.root).unwrap_or(file)))
        .on_failure("run `rustfmt --edition 2024` on the files above")
        .run()?;
    // Their own lock file goes stale whenever a dependency of the workspace changes, and nothing else reads it.
    External::cargo("metadata")
        .args(["--locked", "--format-version", "1", "--manifest-path", "fuzz/Cargo.toml"])
        .on_failure(
            "run `cargo update --workspace --manifest-path fuzz/Cargo.toml` and commit fuzz/Cargo.lock",
        )
        .output()?;
    // With what is left out by default because it takes long to build.
    External::cargo("clippy")
        .args(["--workspace", "--all-targets", "--features", "drivetrain/temporal", "--", "-D", "warnings"])
        .on_failure("fix the warnings above")
        .run()?;
    External::cargo("doc")
        .args(["--workspace", "--no-deps"])
        .variable("RUSTDOCFLAGS", "-D warnings")
        .on_failure("fix the documentation warnings above")
        .run()
}
