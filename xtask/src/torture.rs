//! Torture: kills processes at any moment, many times, and checks that nothing is lost.

use anyhow::Result;
use clap::Subcommand;

use crate::command::External;

/// How often the crash test kills, when the variable says so; by itself it kills a few times.
const KILLS_VARIABLE: &str = "DRIVETRAIN_TORTURE_KILLS";

/// What to torture.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Torture {
    /// Kill a process that writes to the store, and check that what it was told is committed stays
    Store {
        /// How often to kill
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
    },
}

/// Runs one campaign.
pub(crate) fn run(what: &Torture) -> Result<()> {
    command(what).run()
}

fn command(what: &Torture) -> External {
    match what {
        Torture::Store { kills } => External::cargo("test")
            // A campaign takes long; its progress is shown as it comes.
            .args(["--package", "statestore", "--test", "crash", "--", "--nocapture"])
            .variable(KILLS_VARIABLE, kills.to_string())
            .on_failure("what was lost, and after which kill, is above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crash_test_of_the_store_is_told_how_often_to_kill() {
        let line = command(&Torture::Store { kills: 7 }).to_string();
        assert!(line.starts_with("DRIVETRAIN_TORTURE_KILLS=7 cargo test"), "{line}");
        assert!(line.contains("--package statestore --test crash"), "{line}");
    }
}
