//! `run`: starts a run of a plan and shows it until it ends.

use std::path::Path;
use std::sync::Arc;

use engine_core::data::check_run_input;
use engine_core::event::run::TriggerSource;
use engine_core::plan::{CompiledPlan, Problems, ValidationOptions, read_with};
use serde_json::Value;

use super::arguments::RunArguments;
use super::attend::{Interrupts, attend, leave};
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::count;
use super::session::{Session, json_argument, read_standard_input};
use crate::{Drivetrain, Error, Start};

pub(super) async fn run(session: &Session, arguments: RunArguments) -> Result<Exit> {
    // Everything that can be wrong without a store is told before there is one.
    let text = read_plan_text(&arguments.plan)?;
    let name = shown(&arguments.plan);
    // A run that is left to others may use handlers that only they have.
    let known_handlers = (!arguments.detach).then(|| session.handlers());
    let plan = read_with(&text, &ValidationOptions { known_handlers })
        .map_err(|problems| Complaint::plan(&name, &problems))?;
    let plan = Arc::new(CompiledPlan::new(plan)?);
    let input = arguments.input.as_deref().map(|input| json_argument("--input", input)).transpose()?;
    check_run_input(&plan, input.as_ref().unwrap_or(&Value::Null))?;
    let mut interrupts = Interrupts::new()?;
    let drivetrain = if arguments.detach {
        session.connect_or_create().await?
    } else {
        session.serve_own(&arguments.allow).await?
    };
    let steps = plan.len();
    let mut start = Start::of(plan).trigger(TriggerSource::Manual);
    if let Some(input) = input {
        start = start.input(input);
    }
    if let Some(id) = arguments.request_id {
        start = start.request_id(id);
    }
    if let Some(intent) = arguments.intent {
        start = start.intent(intent);
    }
    let started = drivetrain.start(start).await?;
    let run_id = started.run_id;
    if arguments.detach {
        session.output.line(run_id.as_str());
        return Ok(Exit::Success);
    }
    if !arguments.watch.json && !arguments.watch.quiet {
        let again = if started.fresh { "" } else { ", started before by the same request" };
        session.output.line(format!("run {run_id}: {} of {name}{again}", count(steps, "step")));
    }
    let exit = attend(session, &drivetrain, &run_id, 0, &arguments.watch, &mut interrupts).await;
    leave(&drivetrain, &exit, &mut interrupts).await;
    exit
}

/// The text of a plan.
pub(super) fn read_plan_text(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_standard_input("the plan");
    }
    std::fs::read_to_string(path).map_err(|cause| {
        let hint = match cause.kind() {
            std::io::ErrorKind::NotFound => "see that the path is right, from this folder",
            std::io::ErrorKind::InvalidData => "a plan is text in UTF-8, YAML or JSON",
            _ => "see that it is a file and that this user may read it",
        };
        Complaint::new(Exit::Invalid, format!("the plan {} cannot be read: {cause}", path.display()))
            .hint(hint)
    })
}

/// A path as people see it.
pub(super) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "(standard input)".to_owned() } else { path.display().to_string() }
}

/// Problems of a plan one a line; anything else as it is.
pub(super) fn plan_complaint(name: &str, error: Error) -> Complaint {
    let problems = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Problems>());
    match problems {
        Some(problems) => Complaint::plan(name, problems),
        None => error.into(),
    }
}

/// Reads and checks a plan file against what this process can do.
pub(super) fn load_plan(drivetrain: &Drivetrain, path: &Path) -> Result<Arc<CompiledPlan>> {
    drivetrain.read_plan(&read_plan_text(path)?).map_err(|error| plan_complaint(&shown(path), error))
}
