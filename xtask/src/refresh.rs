//! Files that are made from the code and kept in the repository.
//!
//! The tests that compare them also write them, when they are asked to.

use anyhow::Result;

use crate::command::External;

/// Writes the published JSON Schemas again.
pub(crate) fn schemas() -> Result<()> {
    // Only the tests that write: the others have the old files built in and would fail for nothing.
    refresh("UPDATE_SCHEMAS", Some("the_published_schema"))
}

/// Writes the generated tables in the documentation again.
pub(crate) fn docs() -> Result<()> {
    refresh("UPDATE_DOCS", None)
}

fn refresh(variable: &str, filter: Option<&str>) -> Result<()> {
    if let Err(error) = tests().arg("--no-fail-fast").args(filter).variable(variable, "1").run() {
        eprintln!("{error:#}");
    }
    // Whether the new files are right shows only once they are built in.
    tests().on_failure("the files were written, and tests still fail").run()?;
    External::program("git").args(["status", "--short", "--", "engine-core/schemas", "docs"]).run()
}

fn tests() -> External {
    External::cargo("test").args(["--package", "engine-core", "--lib", "--tests"])
}
