//! Torture: kills processes at any moment, many times, and checks that nothing is lost.

use anyhow::Result;
use clap::Subcommand;

use crate::command::External;

/// How often a test kills, when the variable says so; by itself it kills a few times.
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
    /// Kill a process that drives runs, and check that every run ends as it would have
    Engine {
        /// How often to kill, for each database
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
    },
}

/// Runs one campaign.
pub(crate) fn run(what: &Torture) -> Result<()> {
    command(what).run()
}

fn command(what: &Torture) -> External {
    let (package, test, kills) = match what {
        Torture::Store { kills } => ("statestore", "crash", kills),
        Torture::Engine { kills } => ("adapter-mock", "kill", kills),
    };
    External::cargo("test")
        // A campaign takes long; its progress is shown as it comes.
        .args(["--package", package, "--test", test, "--", "--nocapture"])
        .variable(KILLS_VARIABLE, kills.to_string())
        .on_failure("what was lost is above")
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

    #[test]
    fn the_kill_test_of_the_engine_is_told_how_often_to_kill() {
        let line = command(&Torture::Engine { kills: 7 }).to_string();
        assert!(line.starts_with("DRIVETRAIN_TORTURE_KILLS=7 cargo test"), "{line}");
        assert!(line.contains("--package adapter-mock --test kill"), "{line}");
    }
}
