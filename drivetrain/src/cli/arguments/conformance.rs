//! What `conformance` takes.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use conformance::{Profile, Variant};

use super::RunArgument;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in super::super) struct ConformanceArguments {
    #[command(subcommand)]
    pub(in super::super) command: Option<ConformanceCommand>,
    #[command(flatten)]
    pub(in super::super) suite: SuiteArguments,
}

#[derive(Debug, Args)]
pub(in super::super) struct SuiteArguments {
    /// Only this profile; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Profile::ALL.map(Profile::name)))]
    pub(in super::super) profile: Vec<String>,
    /// Only cases whose name matches, where * stands for anything; scenarios are named scenario.NAME
    #[arg(long, value_name = "GLOB")]
    pub(in super::super) case: Vec<String>,
    /// Run the cases while this goes wrong all the time; may be given several times
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(variants()))]
    pub(in super::super) variant: Vec<String>,
    /// Write report.json, report.md, junit.xml and badge.svg into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(in super::super) report: Option<PathBuf>,
    /// Wait so many times as long for what must come, on a slow machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    pub(in super::super) timeout_scale: f64,
    /// Print the report as JSON
    #[arg(long)]
    pub(in super::super) json: bool,
}

/// The names of all variants, and one for all of them.
fn variants() -> Vec<&'static str> {
    Variant::ALL.map(Variant::name).into_iter().chain(["all"]).collect()
}

#[derive(Debug, Subcommand)]
pub(in super::super) enum ConformanceCommand {
    /// Compare two or three reports: what became worse or better, and where the traces of scenarios first part
    #[command(after_help = "\
Exit code 0 when nothing became worse and no trace parts, 1 when something did, 3 when they have nothing in common.

Example:
  drivetrain conformance compare mock/report.json temporal/report.json conductor/report.json")]
    Compare {
        /// Reports: report.json, or the folder it lies in. The first is what the others are measured by
        #[arg(value_name = "REPORT", num_args = 2..=3, required = true)]
        reports: Vec<PathBuf>,
    },
    /// Judge the stored log of a run, of any engine, by the suite's checkers
    #[command(after_help = "Exit code 0 when nothing is wrong with it, 1 when something is.")]
    CheckLog {
        #[command(flatten)]
        run: RunArgument,
        /// Each finding as a line of JSON
        #[arg(long)]
        json: bool,
    },
}
