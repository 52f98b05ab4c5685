//! `rerun`, `copy`, `link` and `archive`: new runs from old ones.

use engine_core::{CheckpointId, StepId};

use super::arguments::{CopyArguments, FromChoice, LaunchArguments, RerunArguments, TakeArguments};
use super::attend::{Interrupts, attend, leave};
use super::complaint::Result;
use super::exit::Exit;
use super::run::load_plan;
use super::session::{Session, json_argument};
use super::signal::check_step;
use crate::Drivetrain;
use crate::facade::origin::{Rerun, RerunFrom};
use crate::facade::start::Started;

pub(super) async fn rerun(session: &Session, arguments: RerunArguments) -> Result<Exit> {
    let input = arguments.input.as_deref().map(|input| json_argument("--input", input)).transpose()?;
    let mut launch = Launch::new(session, arguments.launch).await?;
    let source = session.run(&launch.drivetrain, &arguments.run.run).await?;
    let from = match (arguments.checkpoint, arguments.from) {
        (Some(id), _) => RerunFrom::Checkpoint(CheckpointId::new(id)?),
        (None, FromChoice::Failed) => RerunFrom::Failed,
        (None, FromChoice::Start) => RerunFrom::Start,
    };
    let plan = arguments.plan.as_deref().map(|path| load_plan(&launch.drivetrain, path)).transpose()?;
    let rerun = Rerun { from, plan, input, request_id: launch.arguments.request_id.clone() };
    let started = launch.drivetrain.rerun(&source.run_id, rerun).await?;
    launch.attend(session, &started, &format!("rerun of {}", source.run_id)).await
}

pub(super) async fn copy(session: &Session, arguments: CopyArguments) -> Result<Exit> {
    let input = arguments.input.as_deref().map(|input| json_argument("--input", input)).transpose()?;
    let mut launch = Launch::new(session, arguments.launch).await?;
    let source = session.run(&launch.drivetrain, &arguments.run.run).await?;
    let step = arguments.step.as_deref().map(StepId::new).transpose()?;
    if let Some(step) = &step {
        check_step(&launch.drivetrain, &source, step).await?;
    }
    let request_id = launch.arguments.request_id.clone();
    let started = launch.drivetrain.copy(&source.run_id, step, input, request_id).await?;
    launch.attend(session, &started, &format!("copy of {}", source.run_id)).await
}

pub(super) async fn link(session: &Session, arguments: TakeArguments) -> Result<Exit> {
    let mut launch = Launch::new(session, arguments.launch).await?;
    let source = session.run(&launch.drivetrain, &arguments.run.run).await?;
    let started = launch.drivetrain.link(&source.run_id, launch.arguments.request_id.clone()).await?;
    launch.attend(session, &started, &format!("link to {}", source.run_id)).await
}

pub(super) async fn archive(session: &Session, arguments: TakeArguments) -> Result<Exit> {
    let mut launch = Launch::new(session, arguments.launch).await?;
    let source = session.run(&launch.drivetrain, &arguments.run.run).await?;
    let started = launch.drivetrain.archive(&source.run_id, launch.arguments.request_id.clone()).await?;
    launch.attend(session, &started, &format!("archive of {}", source.run_id)).await
}

/// A run that is made from another and then driven here, unless it is left to a worker.
pub(super) struct Launch {
    pub(super) drivetrain: Drivetrain,
    arguments: LaunchArguments,
    interrupts: Interrupts,
}

impl Launch {
    pub(super) async fn new(session: &Session, arguments: LaunchArguments) -> Result<Self> {
        let interrupts = Interrupts::new()?;
        // Without a store there is no source either: tell that, and make none.
        let client = session.connect().await?;
        let drivetrain = if arguments.detach { client } else { session.serve_own(&arguments.allow).await? };
        Ok(Self { drivetrain, arguments, interrupts })
    }

    pub(super) async fn attend(&mut self, session: &Session, started: &Started, what: &str) -> Result<Exit> {
        if self.arguments.detach {
            session.output.line(started.run_id.as_str());
            return Ok(Exit::Success);
        }
        if !self.arguments.watch.json && !self.arguments.watch.quiet {
            session.output.line(format!("run {}: {what}", started.run_id));
        }
        let watch = &self.arguments.watch;
        let exit = attend(session, &self.drivetrain, &started.run_id, 0, watch, &mut self.interrupts).await;
        leave(&self.drivetrain, &exit, &mut self.interrupts).await;
        exit
    }
}
