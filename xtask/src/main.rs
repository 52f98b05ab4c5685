//! Developer commands, run as `cargo xtask COMMAND`.
//!
//! - [`check`]: what must pass before a change goes in: `test`, `lint`, `ci`;
//! - [`refresh`]: files that are made from the code: `schemas`, `docs`, `golden`;
//! - [`servers`]: real servers for tests and development;
//! - [`fuzz`], [`mod@bench`], [`torture`], [`mutants`] and [`differential`]: the longer campaigns;
//! - [`command`] and [`workspace`]: running other programs, and what is in this workspace.

mod bench;
mod check;
mod command;
mod differential;
mod fuzz;
mod mutants;
mod refresh;
mod servers;
mod torture;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};

use dev_servers::keep::Keeper;
use servers::Servers;
use torture::Torture;
use workspace::Workspace;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Developer commands of Drivetrain")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all unit, integration and documentation tests, and each benchmark once
    Test,
    /// Check format, clippy and documentation, with warnings denied
    Lint,
    /// Everything that must pass before a change goes in: lint, then test
    Ci,
    /// Search for inputs that break a fuzz target; all targets one after another when none is named
    Fuzz {
        /// A file name in fuzz/fuzz_targets, without its ending
        target: Option<String>,
        /// How long to search, for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Run a benchmark; the last line of the output is its figures as JSON
    Bench {
        /// A benchmark of the workspace, as decider
        name: String,
        /// A short run with fewer samples
        #[arg(long)]
        quick: bool,
    },
    /// Kill processes at any moment, many times, and check that nothing is lost
    Torture {
        #[command(subcommand)]
        what: Torture,
    },
    /// Break a copy of the product on purpose and check that the conformance suite notices
    Mutants {
        /// Names from conformance-tests/mutants; all when none is named
        names: Vec<String>,
    },
    /// Draw plans and signals by chance, and check that the engine inside the process does what the decider says
    Differential {
        /// How many
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
        cases: u64,
        /// The same seed draws the same
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Real servers on free ports, kept running until they are taken down
    Servers {
        #[command(subcommand)]
        task: Servers,
    },
    /// Write the published JSON Schemas again after a change of the types
    Schemas,
    /// Write the golden traces of the conformance suite again after a change that is meant
    Golden,
    /// Write the generated tables in docs again after a change of what they show
    Docs,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let workspace = Workspace::enter()?;
    match arguments.task {
        Task::Test => check::test(&workspace),
        Task::Lint => check::lint(&workspace),
        Task::Ci => check::lint(&workspace).and_then(|()| check::test(&workspace)),
        Task::Fuzz { target, seconds } => fuzz::run(&workspace, target.as_deref(), seconds),
        Task::Bench { name, quick } => bench::run(&workspace, &name, quick),
        Task::Torture { what } => torture::run(&what),
        Task::Mutants { names } => mutants::run(&names),
        Task::Differential { cases, seed } => differential::run(cases, seed),
        Task::Servers { task } => servers::run(&task, &Keeper::of_user(), &mut std::io::stdout()),
        Task::Schemas => refresh::schemas(),
        Task::Golden => refresh::golden(),
        Task::Docs => refresh::docs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_fuzz_target_and_its_time_are_optional() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).unwrap().task;
        assert!(matches!(parse("xtask fuzz"), Task::Fuzz { target: None, seconds: 60 }));
        assert!(matches!(
            parse("xtask fuzz event_json --seconds 5"),
            Task::Fuzz { target: Some(name), seconds: 5 } if name == "event_json"
        ));
    }

    #[test]
    fn servers_and_torture_have_defaults() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.task);
        assert!(matches!(
            parse("xtask torture store"),
            Ok(Task::Torture { what: Torture::Store { kills: 1000 } })
        ));
        assert!(parse("xtask torture store --kills 0").is_err());
        assert!(matches!(
            parse("xtask servers up"), Ok(Task::Servers { task: Servers::Up { servers } }) if servers.is_empty()
        ));
        assert!(matches!(
            parse("xtask servers down postgres"),
            Ok(Task::Servers { task: Servers::Down { servers } }) if servers.len() == 1
        ));
        let error = parse("xtask servers up oracle").unwrap_err().to_string();
        assert!(error.contains("use one of postgres"), "{error}");
    }
}
