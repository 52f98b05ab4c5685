//! Random testing: plans and signals drawn by chance, on the engine inside the process and on the decider alone.

use anyhow::Result;

use crate::command::External;

/// Draws so many, from a seed on.
pub(crate) fn run(cases: u64, seed: u64) -> Result<()> {
    command(cases, seed).run()
}

fn command(cases: u64, seed: u64) -> External {
    // The figures are printed at the end.
    External::cargo("test")
        .args(["--package", "conformance-tests", "--test", "differential", "--", "--nocapture"])
        .variable("DRIVETRAIN_DIFFERENTIAL_CASES", cases.to_string())
        .variable("DRIVETRAIN_DIFFERENTIAL_SEED", seed.to_string())
        .on_failure("the counterexample above is a scenario: play it, find out who is right, and keep it in scenarios/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_is_told_how_many_and_from_where_on() {
        let line = command(9, 7).to_string();
        assert!(
            line.starts_with("DRIVETRAIN_DIFFERENTIAL_CASES=9 DRIVETRAIN_DIFFERENTIAL_SEED=7 cargo test"),
            "{line}"
        );
        assert!(line.contains("--package conformance-tests --test differential"), "{line}");
    }
}
