//! What commands take that act on a run that there is: signals, reruns, copies, checkpoints.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{AllowArguments, RunArgument, WatchArguments};

/// A signal to a run.
#[derive(Debug, Args)]
pub(in crate::cli) struct SignalArguments {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgument,
    #[command(flatten)]
    pub(in crate::cli) options: SignalOptions,
}

/// A signal about a step.
#[derive(Debug, Args)]
pub(in crate::cli) struct StepSignalArguments {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgument,
    /// The step
    #[arg(value_name = "STEP")]
    pub(in crate::cli) step: String,
    #[command(flatten)]
    pub(in crate::cli) options: SignalOptions,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SignalOptions {
    /// Why; it stands in the log
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// The signal's own id: sending it again changes nothing
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) signal_id: Option<String>,
    /// Only send the signal, even when nobody drives the run
    #[arg(long)]
    pub(in crate::cli) detach: bool,
    #[command(flatten)]
    pub(in crate::cli) watch: WatchArguments,
    #[command(flatten)]
    pub(in crate::cli) allow: AllowArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompleteArguments {
    #[command(flatten)]
    pub(in crate::cli) signal: StepSignalArguments,
    /// How it ended
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) outcome: OutcomeChoice,
    /// What the step produced: JSON, @file, or -; otherwise what its handler did
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) output: Option<String>,
    /// What to note about it
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) notes: Option<String>,
    /// A reference to evidence; may be given several times
    #[arg(long, value_name = "REFERENCE")]
    pub(in crate::cli) evidence: Vec<String>,
    /// The token of the wait that is meant; otherwise the present one
    #[arg(long, value_name = "TOKEN")]
    pub(in crate::cli) token: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum OutcomeChoice {
    /// It is done
    #[default]
    Succeeded,
    /// It cannot be done
    Failed,
    /// It is not wanted any more
    Cancelled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum FromChoice {
    /// From what failed: what ended well is taken over
    #[default]
    Failed,
    /// From the start: everything is done again
    Start,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RerunArguments {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgument,
    /// From where
    #[arg(long, value_enum, default_value_t, conflicts_with = "checkpoint")]
    pub(in crate::cli) from: FromChoice,
    /// From a checkpoint: what had ended well by then is taken over
    #[arg(long, value_name = "CHECKPOINT")]
    pub(in crate::cli) checkpoint: Option<String>,
    /// Another plan; steps that are taken over must be the same in it
    #[arg(long, value_name = "PLAN")]
    pub(in crate::cli) plan: Option<PathBuf>,
    /// Another input, with --from start: JSON, @file, or -
    #[arg(long, short, value_name = "JSON")]
    pub(in crate::cli) input: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) launch: LaunchArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CopyArguments {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgument,
    /// Only this step, what depends on it directly, and what these need
    #[arg(long, value_name = "STEP")]
    pub(in crate::cli) step: Option<String>,
    /// Another input: JSON, @file, or -
    #[arg(long, short, value_name = "JSON")]
    pub(in crate::cli) input: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) launch: LaunchArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TakeArguments {
    #[command(flatten)]
    pub(in crate::cli) run: RunArgument,
    #[command(flatten)]
    pub(in crate::cli) launch: LaunchArguments,
}

/// How a run that was made from another is started.
#[derive(Debug, Args)]
pub(in crate::cli) struct LaunchArguments {
    /// Asking again with the same id gives the same run
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) request_id: Option<String>,
    /// Only store the run, for a worker elsewhere, and print its id
    #[arg(long)]
    pub(in crate::cli) detach: bool,
    #[command(flatten)]
    pub(in crate::cli) watch: WatchArguments,
    #[command(flatten)]
    pub(in crate::cli) allow: AllowArguments,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CheckpointCommand {
    /// List a run's checkpoints, newest first
    List {
        #[command(flatten)]
        run: RunArgument,
        /// Each as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Store the run as it stands now
    Create {
        #[command(flatten)]
        run: RunArgument,
        /// Its name; otherwise its place in the log
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Make a new run from a checkpoint: what had ended well by then is taken over
    Restore {
        #[command(flatten)]
        run: RunArgument,
        /// Its name; otherwise the newest
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        launch: LaunchArguments,
    },
    /// Delete all but the newest checkpoints of a run
    Prune {
        #[command(flatten)]
        run: RunArgument,
        /// How many to keep
        #[arg(long, default_value_t = 3, value_name = "N")]
        keep: usize,
    },
}
