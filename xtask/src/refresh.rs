//! Files that are made from the code and kept in the repository.
//!
//! The tests that compare them also write them, when they are asked to.

use anyhow::Result;

use crate::command::External;

/// Writes the published JSON Schemas again.
pub(crate) fn schemas() -> Result<()> {
    refresh("UPDATE_SCHEMAS")
}

/// Writes the generated tables in the documentation again.
pub(crate) fn docs() -> Result<()> {
    refresh("UPDATE_DOCS")
}

fn refresh(variable: &str) -> Result<()> {
    // The old files are built into the tests of this run, so some of them may fail: the next run decides.
    if let Err(error) = tests().arg("--no-fail-fast").variable(variable, "1").run() {
        eprintln!("{error:#}\nchecking again with the new files");
    }
    tests().on_failure("the files were written, and tests still fail").run()?;
    External::program("git").args(["status", "--short", "--", "engine-core/schemas", "docs"]).run()
}

fn tests() -> External {
    External::cargo("test").args(["--package", "engine-core", "--lib", "--tests"])
}
