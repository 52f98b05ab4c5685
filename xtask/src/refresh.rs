//! Files that are made from the code and kept in the repository.
//!
//! The tests that compare them also write them, when they are asked to.

use anyhow::Result;

use crate::command::External;

/// Tests that compare files with the code: the package, and which of its tests.
type Tests = (&'static str, &'static [&'static str]);

const CORE: Tests = ("engine-core", &["--lib", "--tests"]);
const GOLDEN: Tests = ("conformance-tests", &["--test", "golden"]);
const CONFIGURATION: Tests = ("drivetrain", &["--test", "config"]);

/// Writes the published JSON Schemas again.
pub(crate) fn schemas() -> Result<()> {
    // Only the tests that write: the others have the old files built in and would fail for nothing.
    refresh("UPDATE_SCHEMAS", &[CORE], Some("the_published_schema"))
}

/// Writes the generated tables in the documentation again.
pub(crate) fn docs() -> Result<()> {
    refresh("UPDATE_DOCS", &[CORE, CONFIGURATION], None)
}

/// Writes the golden traces again.
pub(crate) fn golden() -> Result<()> {
    refresh("UPDATE_GOLDEN", &[GOLDEN], None)
}

fn refresh(variable: &str, all: &[Tests], filter: Option<&str>) -> Result<()> {
    for tests in all {
        if let Err(error) = cargo(tests).arg("--no-fail-fast").args(filter).variable(variable, "1").run() {
            eprintln!("{error:#}");
        }
        // Whether the new files are right shows only once they are built in.
        cargo(tests).on_failure("the files were written, and tests still fail").run()?;
    }
    External::program("git")
        .args(["status", "--short", "--", "engine-core/schemas", "docs", "conformance-tests/golden"])
        .run()
}

fn cargo((package, targets): &Tests) -> External {
    External::cargo("test").args(["--package", package]).args(*targets)
}
