//! Developer commands, run as `cargo xtask COMMAND`.
//!
//! - [`check`]: what must pass before a change goes in: `test`, `lint`, `ci`;
//! - [`refresh`]: files that are made from the code: `schemas`, `docs`;
//! - [`fuzz`] and [`mod@bench`]: the longer campaigns;
//! - [`command`] and [`workspace`]: running other programs, and what is in this workspace.

mod bench;
mod check;
mod command;
mod fuzz;
mod refresh;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};

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
    /// Write the published JSON Schemas again after a change of the types
    Schemas,
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
        Task::Schemas => refresh::schemas(),
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
}
