//! Mutants: product code that is broken on purpose, and the conformance cases that catch it.

use anyhow::{Result, bail};

use crate::command::External;

/// Breaks a copy of the product with each mutant, or with those named, and checks that it is caught.
pub(crate) fn run(names: &[String]) -> Result<()> {
    if names.is_empty() {
        return command(None).run();
    }
    // The test takes one name a call. Those after one that survives are run all the same.
    let survivors: Vec<String> = names
        .iter()
        .filter_map(|name| command(Some(name.as_str())).run().err())
        .map(|error| error.to_string())
        .collect();
    if survivors.is_empty() { Ok(()) } else { bail!("{}", survivors.join("\n")) }
}

fn command(name: Option<&str>) -> External {
    let test = External::cargo("test").args(["--package", "conformance-tests", "--test", "mutants", "--"]);
    // What is named is one mutant, not every one whose name has that in it.
    let test = match name {
        Some(name) => test.arg("--exact").arg(format!("mutant::{name}")),
        None => test,
    };
    test.on_failure("a mutant that survives needs a case that catches it; the others are named above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_named_exactly() {
        assert!(command(None).to_string().ends_with("--test mutants --"));
        let line = command(Some("second-pause-lost")).to_string();
        assert!(line.ends_with("-- --exact mutant::second-pause-lost"), "{line}");
    }
}
