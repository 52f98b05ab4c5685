//! The command line.
//!
//! - [`exit`]: exit codes; `complaint`: what is said when a command cannot do its work;
//! - `arguments`: what can be typed; `session`: configuration, store and engine for one command;
//! - `watch`: how a run is shown, and `keyboard`: what is not; `attend`: staying with a run until it ends, with Ctrl-C;
//! - one file a command, or a group of them: `run`, `plan`, `list`, `status`, `events`, `signal`, `origin`, `worker`,
//!   `checkpoint`, `doctor`, `conformance` (feature).
//!
//! A program with handlers of its own gets the same commands with [`main_with`].

mod arguments;
mod attend;
mod checkpoint;
mod complaint;
#[cfg(feature = "conformance")]
mod conformance;
mod doctor;
mod events;
pub mod exit;
mod keyboard;
mod list;
mod origin;
mod output;
mod plan;
mod run;
mod session;
mod signal;
mod status;
mod watch;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};

use crate::facade::builder::Builder;
use arguments::{Arguments, Command, ConfigCommand};
use complaint::Result;
use exit::Exit;
use output::{Output, Tone};
use session::Session;

/// The command line with the built-in handlers.
#[must_use]
pub fn main() -> ExitCode {
    main_with(|builder| builder)
}

/// The command line of a program with handlers of its own: `equip` registers them.
#[must_use]
pub fn main_with(equip: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(arguments.global.color);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => {
            output.error(&format!("the program cannot start: {cause}"));
            return Exit::Failure.code().into();
        }
    };
    let exit = runtime.block_on(async {
        // Without this a write past a limit on file sizes ends the process; so it is an error like a full disk.
        let _limit = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(FILE_TOO_LARGE));
        match dispatch(arguments, output, Box::new(equip)).await {
            Ok(exit) => exit,
            Err(complaint) => {
                output.error(&complaint.to_string());
                complaint.exit
            }
        }
    });
    // A handler that does not look at its cancellation must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    exit.code().into()
}

/// SIGXFSZ, on Linux and on macOS.
const FILE_TOO_LARGE: i32 = 25;

type Equip = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

async fn dispatch(arguments: Arguments, output: Output, equip: Equip) -> Result<Exit> {
    match arguments.command {
        // These need no configuration: a wrong one must not keep anybody from them.
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "drivetrain", &mut std::io::stdout());
            return Ok(Exit::Success);
        }
        Command::Plan(command) => return plan::plan(&command, output),
        Command::Doctor { json } => return doctor::doctor(&arguments.global, json, output, equip).await,
        _ => {}
    }
    #[cfg(feature = "conformance")]
    let own_store = arguments.global.store.clone();
    let session = Session::new(&arguments.global, output, equip)?;
    match arguments.command {
        Command::Completions { .. } | Command::Plan(_) | Command::Doctor { .. } => Ok(Exit::Success),
        Command::Run(arguments) => run::run(&session, arguments).await,
        Command::List(arguments) => list::list(&session, arguments).await,
        Command::Status(arguments) => status::status(&session, &arguments).await,
        Command::Events(arguments) => events::events(&session, &arguments).await,
        Command::Pause { signal, immediate } => signal::pause(&session, signal, immediate).await,
        Command::Resume { signal } => signal::resume(&session, signal).await,
        Command::Cancel { signal } => signal::cancel(&session, signal).await,
        Command::Approve { signal } => signal::approve(&session, signal).await,
        Command::Retry { signal, no_cascade } => signal::retry(&session, signal, !no_cascade).await,
        Command::Skip { signal } => signal::skip(&session, signal).await,
        Command::Complete(arguments) => signal::complete(&session, arguments).await,
        Command::Rerun(arguments) => origin::rerun(&session, arguments).await,
        Command::Copy(arguments) => origin::copy(&session, arguments).await,
        Command::Link(arguments) => origin::link(&session, arguments).await,
        Command::Archive(arguments) => origin::archive(&session, arguments).await,
        Command::Worker(allow) => worker::worker(&session, &allow).await,
        Command::Checkpoint(command) => checkpoint::checkpoint(&session, command).await,
        #[cfg(feature = "conformance")]
        Command::Conformance(arguments) => {
            conformance::conformance(&session, own_store.as_deref(), arguments).await
        }
        Command::Config(ConfigCommand::Show { json }) => Ok(show(&session, json)),
    }
}

fn show(session: &Session, json: bool) -> Exit {
    let output = session.output;
    if json {
        output.json_document(&session.config.shown_json());
        return Exit::Success;
    }
    match &session.config.file {
        Some(file) => output.line(output.paint(Tone::Quiet, &format!("# {}", file.display()))),
        None => output.line(
            output.paint(Tone::Quiet, "# no drivetrain.toml here; these are defaults, variables and flags"),
        ),
    }
    let rows: Vec<Vec<(Tone, String)>> = session
        .config
        .shown()
        .into_iter()
        .map(|shown| {
            let value = shown.value.unwrap_or_else(|| "-".to_owned());
            vec![
                (Tone::Plain, shown.path.to_owned()),
                (Tone::Plain, value),
                (Tone::Quiet, shown.source.to_string()),
            ]
        })
        .collect();
    output.table(&["KEY", "VALUE", "FROM"], &rows);
    Exit::Success
}
