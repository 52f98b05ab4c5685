//! What can be typed.
//!
//! - this file: the commands, and what those that start and read runs take;
//! - [`acting`]: what those take that act on a run that there is; `conformance`: what that takes.

mod acting;
#[cfg(feature = "conformance")]
mod conformance;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::exit;
use super::output::ColourChoice;
pub(super) use acting::{
    CheckpointCommand, CompleteArguments, CopyArguments, FromChoice, LaunchArguments, OutcomeChoice,
    RerunArguments, SignalArguments, SignalOptions, StepSignalArguments, TakeArguments,
};

#[cfg(feature = "conformance")]
pub(super) use conformance::{ConformanceArguments, ConformanceCommand, SuiteArguments};

/// Runs plans: durable, on any engine.
#[derive(Debug, Parser)]
#[command(
    name = "drivetrain",
    version,
    about = "Runs plans: versioned graphs of steps, durable, on any engine",
    after_help = exit::HELP,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration")]
pub(super) struct Global {
    /// The configuration file; otherwise drivetrain.toml in this folder, if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Where runs are kept: sqlite://path, postgres://user@host/database or memory:
    #[arg(long, global = true, value_name = "URL")]
    pub(super) store: Option<String>,
    /// What drives runs; `drivetrain doctor` lists the engines
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) engine: Option<String>,
    /// Whose runs these are
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) tenant: Option<String>,
    /// Who acts; otherwise the login name
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) actor: Option<String>,
    /// Any configuration key, as store.durability=normal; may be given several times
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(super) color: ColourChoice,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a run of a plan and show it until it ends
    #[command(after_help = "\
Ctrl-C once pauses the run: what is in flight finishes, then the command ends and prints how to resume.
Ctrl-C twice cancels it. A third one leaves at once.

Examples:
  drivetrain run examples/hello.yaml
  drivetrain run plan.yaml --input '{\"order\": \"A-17\"}'
  drivetrain run plan.yaml --input @order.json --json
  drivetrain run etl.yaml --allow-exec sh")]
    Run(RunArguments),
    /// Check, draw or describe plans; nothing is stored
    #[command(subcommand)]
    Plan(PlanCommand),
    /// List runs, newest first
    List(ListArguments),
    /// Show where a run stands, step by step
    Status(StatusArguments),
    /// Show a run's log: every event, in order
    Events(EventsArguments),
    /// Pause a run: nothing new starts, what is in flight finishes
    Pause {
        #[command(flatten)]
        signal: SignalArguments,
        /// Give up what is in flight at once; it is done again after the run resumes
        #[arg(long)]
        immediate: bool,
    },
    /// Let a paused run go on; drives it here when nobody else does
    Resume {
        #[command(flatten)]
        signal: SignalArguments,
    },
    /// Cancel a run: handlers get 5 seconds to stop
    Cancel {
        #[command(flatten)]
        signal: SignalArguments,
    },
    /// Do an ended step again, with everything that depends on it
    Retry {
        #[command(flatten)]
        signal: StepSignalArguments,
        /// Leave what depends on it as it is
        #[arg(long)]
        no_cascade: bool,
    },
    /// Go on without a step that has failed or not started
    Skip {
        #[command(flatten)]
        signal: StepSignalArguments,
    },
    /// End a step that waits for a person
    Complete(CompleteArguments),
    /// Let a run start that waits for approval
    Approve {
        #[command(flatten)]
        signal: SignalArguments,
    },
    /// Make a new run from one that has ended, taking over what ended well
    Rerun(RerunArguments),
    /// Make a new run of the same plan from the start, or of one step with what belongs to it
    Copy(CopyArguments),
    /// Make a new run that refers to what a completed one left; that one is kept as long as the link is
    Link(TakeArguments),
    /// Make a new run with copies of what a completed one left; that one may be forgotten afterwards
    Archive(TakeArguments),
    /// Serve the store: drive runs and do their steps until stopped
    #[command(after_help = "Ctrl-C stops it: nothing new starts, and other workers take over.")]
    Worker(AllowArguments),
    /// Stored states of a run, from which a new run can be made
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Test an engine against the contract, and write the report
    #[cfg(feature = "conformance")]
    #[command(after_help = "\
Each case has a store of its own: in memory, or where --store says (memory:, sqlite: for files that are thrown
away, sqlite://FOLDER, postgres://…). The configured store is not touched.

Exit code 0 when the engine conforms, 1 when it does not, 2 when the harness or a server broke, 3 when nothing ran.

Examples:
  drivetrain conformance
  drivetrain conformance --profile core --report report
  drivetrain conformance --case 'pause.*' --variant worker-restart
  drivetrain conformance check-log last")]
    Conformance(ConformanceArguments),
    /// Say what is reachable, which versions there are, what is missing and how to fix it
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a script that completes commands in a shell
    #[command(after_help = "\
Examples:
  drivetrain completions bash > ~/.local/share/bash-completion/completions/drivetrain
  drivetrain completions zsh > ~/.zfunc/_drivetrain")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What steps of this process may do.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct AllowArguments {
    /// A program that the handler exec may start, besides those in the configuration: a name on PATH, or name=path
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',')]
    pub(super) allow_exec: Vec<String>,
    /// A host that the handler http may call, as api.example.com or http://localhost:8080
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) allow_http: Vec<String>,
}

/// How a run is shown while it goes on.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct WatchArguments {
    /// Print each event as a line of JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print only the end
    #[arg(long, short, conflicts_with = "json")]
    pub(super) quiet: bool,
    /// End with exit code 7 or 8 when only a person can move the run, instead of waiting for that
    #[arg(long)]
    pub(super) no_wait: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The plan, YAML or JSON; - reads standard input
    #[arg(value_name = "PLAN")]
    pub(super) plan: PathBuf,
    /// The run's input: JSON, @file, or - for standard input
    #[arg(long, short, value_name = "JSON")]
    pub(super) input: Option<String>,
    /// Starting again with the same id, of the same plan and version, gives the same run
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
    /// What this run is for, in words; it stands in the log
    #[arg(long, value_name = "TEXT")]
    pub(super) intent: Option<String>,
    /// Only store the run, for a worker elsewhere, and print its id
    #[arg(long)]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) watch: WatchArguments,
    #[command(flatten)]
    pub(super) allow: AllowArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum PlanCommand {
    /// Check plans: every problem, with line and column
    Check {
        /// The plans, YAML or JSON; - reads standard input
        #[arg(required = true, value_name = "PLAN")]
        plans: Vec<PathBuf>,
        /// Handlers of your own that workers will have; others than these and the built-in ones are problems
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        handlers: Vec<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Draw a plan
    Graph {
        /// The plan, YAML or JSON; - reads standard input
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        /// How
        #[arg(long, short, value_enum, default_value_t)]
        format: GraphFormat,
        /// The file to write; otherwise standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the JSON Schema of plans, for editors
    Schema,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum GraphFormat {
    /// For Markdown pages
    #[default]
    Mermaid,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only runs with this status; may be given several times
    #[arg(long, short, value_name = "STATUS", value_delimiter = ',')]
    pub(super) status: Vec<String>,
    /// Only runs of this plan
    #[arg(long, value_name = "ID")]
    pub(super) plan: Option<String>,
    /// At most so many
    #[arg(long, short, default_value_t = 20, value_name = "N")]
    pub(super) limit: usize,
    /// Each run as a line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A run.
#[derive(Debug, Args)]
pub(super) struct RunArgument {
    /// The run's id; `last` is the newest run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    pub(super) run: RunArgument,
    /// The whole snapshot as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct EventsArguments {
    #[command(flatten)]
    pub(super) run: RunArgument,
    /// Go on with each new event until the run has ended
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Only events after this place in the log
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(super) after: u64,
    /// Each event as a line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the effective configuration and where each value comes from; secrets are hidden
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}
