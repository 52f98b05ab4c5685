//! Runs made from other runs: rerun, copy, link and archive. The source is never changed.

use std::sync::Arc;

use engine_core::data::{JOURNAL_BYTES, check_size, json_size};
use engine_core::decider::{Run, origin};
use engine_core::event::run::{Origin, OriginType, ReusedStep, RunInput};
use engine_core::event::step::StepOutput;
use engine_core::event::{Body, Event};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::CompiledPlan;
use engine_core::port::Operation;
use engine_core::port::store::ReadRequest;
use engine_core::projection::Projection;
use engine_core::{CheckpointId, Code, Error, Result, RunId, StepId};
use serde_json::Value;

use crate::Client;
use crate::start::{Start, Started};

/// From where a rerun goes on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum RerunFrom {
    /// From the start: nothing is taken over.
    Start,
    /// From what failed: what ended well is taken over.
    #[default]
    Failed,
    /// From a checkpoint: what had ended well by then is taken over.
    Checkpoint(CheckpointId),
}

/// A run to be made from an ended one.
#[derive(Clone, Debug, Default)]
pub struct Rerun {
    /// From where it goes on.
    pub from: RerunFrom,
    /// Another plan; steps that are taken over must be the same in it. `None`: the source's.
    pub plan: Option<Arc<CompiledPlan>>,
    /// Another input, only from the start. `None`: the source's.
    pub input: Option<Value>,
    /// Asking again with the same id gives the same run.
    pub request_id: Option<String>,
}

impl Client {
    /// Makes a new run from one that has ended.
    ///
    /// # Errors
    /// `ORIGIN_INVALID` when the source has not ended, `PLAN_CHANGED` when a step that would be taken over is defined
    /// differently now, `NOT_FOUND`, `CHECKPOINT_CORRUPT`, and everything that a start can answer.
    pub async fn rerun(&self, source: &RunId, rerun: Rerun) -> Result<Started> {
        self.authorize(&self.0.actor, Operation::Rerun(source.clone())).await?;
        let source_plan = self.plan_of(source).await?;
        let target = rerun.plan.unwrap_or_else(|| source_plan.clone());
        if rerun.input.is_some() && rerun.from != RerunFrom::Start {
            return Err(Error::new(
                Code::OriginInvalid,
                "another input needs a rerun from the start: what was done was done with the old one",
            )
            .with_hint("rerun from the start, or leave the input out"));
        }
        let reused = match &rerun.from {
            RerunFrom::Start => {
                let record = self.find(source).await?;
                if !record.status.is_terminal() {
                    return Err(Error::new(
                        Code::OriginInvalid,
                        format!(
                            "run {source} is {}, and only a run that has ended can be run again",
                            record.status
                        ),
                    )
                    .with_hint("wait for its end, or cancel it"));
                }
                Vec::new()
            }
            RerunFrom::Failed => {
                origin::rerun_failed(&self.folded(source, source_plan.clone()).await?, &target)?
            }
            RerunFrom::Checkpoint(id) => {
                let checkpoint = self.0.store.checkpoint(self.tenant(), source, id).await?;
                let projection = Projection::restore(source_plan.clone(), checkpoint.projection)?;
                origin::rerun_checkpoint(projection.run(), &target)?
            }
        };
        let origin =
            Origin { origin_type: OriginType::Rerun, source_run_id: source.clone(), step: None, reused };
        let start = Start::of(target).origin(origin);
        self.start_from(source, start, rerun.input, rerun.request_id).await
    }

    /// Makes a new run of the same plan from the start, or of one step with what belongs to it.
    ///
    /// # Errors
    /// `STEP_NOT_FOUND`, `NOT_FOUND`, and everything that a start can answer.
    pub async fn copy(
        &self,
        source: &RunId,
        step: Option<StepId>,
        input: Option<Value>,
        request_id: Option<String>,
    ) -> Result<Started> {
        self.authorize(&self.0.actor, Operation::Rerun(source.clone())).await?;
        let plan = self.plan_of(source).await?;
        let plan = match &step {
            None => plan,
            Some(step) => self.compile(origin::copy_step(&plan, step)?)?,
        };
        let origin =
            Origin { origin_type: OriginType::Copy, source_run_id: source.clone(), step, reused: Vec::new() };
        self.start_from(source, Start::of(plan).origin(origin), input, request_id).await
    }

    /// Makes a new run in which every step stands as it ended in a completed one. Its outputs stay with the source, which
    /// is kept as long as the link is (ORIGIN-13).
    ///
    /// # Errors
    /// `ORIGIN_INVALID` when the source is not COMPLETED, `NOT_FOUND`, and everything that a start can answer.
    pub async fn link(&self, source: &RunId, request_id: Option<String>) -> Result<Started> {
        self.take_everything(source, OriginType::Link, request_id).await
    }

    /// The same with copies of the outputs: the source may be forgotten afterwards (ORIGIN-14). Outputs that lie in the
    /// artifact store cannot be copied from here.
    ///
    /// # Errors
    /// `ORIGIN_INVALID` when the source is not COMPLETED or an output lies in the artifact store, `PAYLOAD_TOO_LARGE`
    /// when the outputs together are over the limit of an event, `NOT_FOUND`, and everything that a start can answer.
    pub async fn archive(&self, source: &RunId, request_id: Option<String>) -> Result<Started> {
        self.take_everything(source, OriginType::Archive, request_id).await
    }

    async fn take_everything(
        &self,
        source: &RunId,
        origin_type: OriginType,
        request_id: Option<String>,
    ) -> Result<Started> {
        self.authorize(&self.0.actor, Operation::Rerun(source.clone())).await?;
        let plan = self.plan_of(source).await?;
        let log = self.log(source).await?;
        let mut reused = origin::take_everything(&Run::fold(plan.clone(), &log)?)?;
        if origin_type == OriginType::Archive {
            if self.input_of(source).await?.artifact.is_some() {
                return Err(not_copied(source, "its input"));
            }
            for step in &mut reused {
                step.output = self.copied(source, &log, step).await?;
            }
            check_size("the outputs of the run", written(&reused), JOURNAL_BYTES)?;
        }
        let origin = Origin { origin_type, source_run_id: source.clone(), step: None, reused };
        self.start_from(source, Start::of(plan).origin(origin), None, request_id).await
    }

    /// What a step of an ended run left, wherever that run has it from.
    async fn copied(&self, source: &RunId, log: &[Event], step: &ReusedStep) -> Result<Option<StepOutput>> {
        if step.status != StepStatus::Success {
            return Ok(None);
        }
        let (mut run_id, mut place, mut earlier) = (source.clone(), step.run_seq, None);
        let output = loop {
            let log: &[Event] = earlier.as_deref().unwrap_or(log);
            if place > 0 {
                break origin::output_at(log, place).unwrap_or_default();
            }
            let taken = match log.first().map(|event| &event.body) {
                Some(Body::RunQueued(queued)) => queued.origin.as_ref().and_then(|origin| {
                    let reused = origin.reused.iter().find(|reused| reused.step_id == step.step_id)?;
                    Some((origin.source_run_id.clone(), reused.clone()))
                }),
                _ => None,
            };
            let Some((from, reused)) = taken else {
                return Err(Error::new(
                    Code::OriginInvalid,
                    format!("run {run_id} took step {} over, and no run tells its output", step.step_id),
                ));
            };
            if let Some(output) = reused.output {
                break output;
            }
            earlier = Some(self.log(&from).await?);
            (run_id, place) = (from, reused.run_seq);
        };
        match output.artifact {
            Some(_) => Err(not_copied(source, &format!("the output of step {}", step.step_id))),
            None => Ok(Some(output)),
        }
    }

    async fn log(&self, run_id: &RunId) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        self.each_event(run_id, |event| events.push(event.clone())).await?;
        Ok(events)
    }

    async fn start_from(
        &self,
        source: &RunId,
        start: Start,
        input: Option<Value>,
        request_id: Option<String>,
    ) -> Result<Started> {
        let start = match input {
            Some(input) => start.input(input),
            None => start.stored_input(self.input_of(source).await?),
        };
        let start = match request_id {
            Some(id) => start.request_id(id),
            None => start,
        };
        self.start(start).await
    }

    /// The input that a run was queued with.
    async fn input_of(&self, run_id: &RunId) -> Result<RunInput> {
        let request =
            ReadRequest { tenant_id: self.tenant().clone(), run_id: run_id.clone(), after: 0, limit: 1 };
        let first = self.0.store.read(request).await?.into_iter().next();
        match first.map(|event| event.body) {
            Some(Body::RunQueued(queued)) => Ok(queued.input),
            _ => Err(Error::new(
                Code::Internal,
                format!("the log of run {run_id} does not begin with RunQueued"),
            )),
        }
    }

    /// The run that the log tells of.
    async fn folded(&self, run_id: &RunId, plan: Arc<CompiledPlan>) -> Result<Run> {
        Run::fold(plan, &self.log(run_id).await?)
    }

    /// Whether a run has ended.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn has_ended(&self, run_id: &RunId) -> Result<bool> {
        Ok(RunStatus::is_terminal(self.find(run_id).await?.status))
    }
}

fn written(reused: &[ReusedStep]) -> usize {
    reused.iter().filter_map(|step| step.output.as_ref()?.value.as_ref()).map(json_size).sum()
}

fn not_copied(source: &RunId, what: &str) -> Error {
    Error::new(
        Code::OriginInvalid,
        format!("run {source} cannot be archived: {what} lies in the artifact store, which this cannot copy"),
    )
    .with_hint("make a link, which keeps the run and its artifacts")
}
