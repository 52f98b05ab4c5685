//! Mutants: product code that is broken on purpose, and the conformance cases that catch it.

use anyhow::Result;

use crate::command::External;

/// Breaks a copy of the product with each mutant, or with those named, and checks that it is caught.
pub(crate) fn run(names: &[String]) -> Result<()> {
    command(names).run()
}

fn command(names: &[String]) -> External {
    let test = External::cargo("test").args(["--package", "conformance-tests", "--test", "mutants", "--"]);
    // What is named is one mutant, not every one whose name has that in it.
    let test = if names.is_empty() { test } else { test.arg("--exact") };
    test.args(names.iter().map(|name| format!("mutant::{name}")))
        .on_failure("a mutant that survives needs a case that catches it; the others are named above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_named_exactly() {
        assert!(command(&[]).to_string().ends_with("--test mutants --"));
        let line = command(&["second-pause-lost".to_owned()]).to_string();
        assert!(line.ends_with("-- --exact mutant::second-pause-lost"), "{line}");
    }
}
