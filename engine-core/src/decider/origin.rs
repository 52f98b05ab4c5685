//! Runs made from other runs: what a rerun, link or archive takes over, and what a copy of a step contains.

use std::collections::BTreeSet;

use super::Run;
use super::state::{Cell, Disposition};
use crate::error::{Code, Error, Result};
use crate::event::run::ReusedStep;
use crate::event::step::{SkipReason, StepOutput};
use crate::event::{Body, Event};
use crate::id::StepId;
use crate::machine::{RunStatus, StepStatus};
use crate::plan::compiled::StepIndex;
use crate::plan::{CompiledPlan, Plan, Step};

/// The steps of an ended run that a rerun of its failed steps takes over into a run of `target`: those that ended
/// well or were skipped by condition or by a person, and depend on nothing else (ORIGIN-7).
///
/// # Errors
/// `ORIGIN_INVALID` when the source has not ended; `PLAN_CHANGED` when a reused step is defined differently now.
pub fn rerun_failed(source: &Run, target: &CompiledPlan) -> Result<Vec<ReusedStep>> {
    if !source.state.status.is_some_and(RunStatus::is_terminal) {
        return Err(Error::new(Code::OriginInvalid, "only a run that has ended can be run again")
            .with_hint("wait for its end, or cancel it"));
    }
    reusable(source, target)
}

/// The same from a checkpoint: `source` is the run folded up to it.
///
/// # Errors
/// `PLAN_CHANGED` when a reused step is defined differently now.
pub fn rerun_checkpoint(source: &Run, target: &CompiledPlan) -> Result<Vec<ReusedStep>> {
    reusable(source, target)
}

/// Everything that a link or archive of a completed run takes over: each step as it ended (ORIGIN-12).
///
/// # Errors
/// `ORIGIN_INVALID` when the source is not COMPLETED.
pub fn take_everything(source: &Run) -> Result<Vec<ReusedStep>> {
    if source.state.status != Some(RunStatus::Completed) {
        let status = source.state.status.map_or("unknown", RunStatus::as_str);
        return Err(Error::new(
            Code::OriginInvalid,
            format!("only a COMPLETED run can be linked or archived, and this one is {status}"),
        ));
    }
    Ok(source.plan.indices().map(|step| reused(source, step)).collect())
}

/// What a step left that ended at a place in a log. A step that a person completed without an output has left what its
/// handler had produced before it waited.
#[must_use]
pub fn output_at(log: &[Event], place: u64) -> Option<StepOutput> {
    let end = log.iter().find(|event| event.run_seq == place)?;
    let Body::StepCompleted(completed) = &end.body else { return None };
    if completed.manual.is_none() || !completed.output.is_empty() {
        return Some(completed.output.clone());
    }
    let waited = log.iter().rev().find_map(|earlier| match &earlier.body {
        Body::StepWaiting(waiting) if earlier.subject == end.subject => waiting.output.clone(),
        _ => None,
    });
    Some(waited.unwrap_or_default())
}

/// The part of a plan that a copy of one step contains: the step, what depends on it directly, and everything that
/// these depend on, each once (ORIGIN-10).
///
/// # Errors
/// `STEP_NOT_FOUND` when the plan has no such step.
pub fn copy_step(plan: &CompiledPlan, step: &StepId) -> Result<Plan> {
    let start = plan.find(step.as_str()).ok_or_else(|| {
        Error::new(Code::StepNotFound, format!("plan {} has no step {step}", plan.document().id))
    })?;
    let mut chosen: BTreeSet<StepIndex> = BTreeSet::from([start]);
    chosen.extend(plan.dependents(start).iter().map(|link| link.step));
    for step in chosen.clone() {
        chosen.extend(plan.transitive_dependencies(step));
    }
    for step in chosen.clone() {
        chosen.extend(plan.fallback(step));
    }
    let mut document = plan.document().clone();
    document.mode.get_or_insert(if crate::plan::compiled::is_sequential(&document) {
        crate::plan::Mode::Sequential
    } else {
        crate::plan::Mode::Graph
    });
    document.steps = chosen.iter().map(|step| plan.step(*step).clone()).collect();
    renumber(&mut document.steps);
    Ok(document)
}

/// Explicit orders stay contiguous when steps are left out.
fn renumber(steps: &mut [Step]) {
    let mut orders: Vec<u32> = steps.iter().filter_map(|step| step.order).collect();
    orders.sort_unstable();
    for step in steps {
        step.order = step.order.and_then(|order| {
            orders.binary_search(&order).ok().and_then(|position| u32::try_from(position + 1).ok())
        });
    }
}

fn reusable(source: &Run, target: &CompiledPlan) -> Result<Vec<ReusedStep>> {
    let mut taken: BTreeSet<StepIndex> = BTreeSet::new();
    let mut steps = Vec::new();
    for step in source.plan.topological().iter().copied() {
        let cell = source.cell(step);
        let ended_well = match cell.status {
            StepStatus::Success => true,
            StepStatus::Skipped => cell.disposition == Disposition::Settled,
            _ => false,
        };
        // A fallback is taken over or not with the step it serves; one that was not needed is skipped again.
        let stands_alone = source.plan.serves(step).is_none();
        let rooted = source.plan.dependencies(step).iter().all(|link| taken.contains(&link.step));
        if ended_well && stands_alone && rooted {
            check_unchanged(source, step, target)?;
            taken.insert(step);
            steps.push(reused(source, step));
        }
    }
    Ok(steps)
}

fn reused(source: &Run, step: StepIndex) -> ReusedStep {
    let cell = source.cell(step);
    ReusedStep {
        step_id: source.plan.step(step).id.clone(),
        status: cell.status,
        logical_attempt_id: cell.attempt,
        run_seq: cell.end_seq,
        skip_reason: match cell.disposition {
            Disposition::DependencyFailed => Some(SkipReason::DependencyFailed),
            Disposition::SkippedByPolicy => Some(SkipReason::FailurePolicy),
            _ => None,
        },
        output: None,
    }
}

/// A reused step must mean the same in both plans: itself, and its place in the graph (ORIGIN-8).
fn check_unchanged(source: &Run, step: StepIndex, target: &CompiledPlan) -> Result<()> {
    let definition = source.plan.step(step);
    let same = target.find(definition.id.as_str()).is_some_and(|there| {
        let ids = |plan: &CompiledPlan, step| -> BTreeSet<(StepId, bool)> {
            let links = plan.dependencies(step).iter();
            links.map(|link| (plan.step(link.step).id.clone(), link.required)).collect()
        };
        without_words(definition) == without_words(target.step(there))
            && ids(&source.plan, step) == ids(target, there)
    });
    if same {
        return Ok(());
    }
    Err(Error::new(
        Code::PlanChanged,
        format!("step {} would be reused, and it is defined differently now", definition.id),
    )
    .with_hint("run the new plan from the start"))
}

/// The definition without what only people read.
fn without_words(step: &Step) -> Step {
    Step { name: None, description: None, ..step.clone() }
}

impl Run {
    /// Steps that are taken over have ended before the run begins (ORIGIN-6). They are not compensated: they are not
    /// ours (COMP-17).
    pub(super) fn take_over(&mut self, reused: &[ReusedStep]) {
        for step in reused {
            let Some(index) = self.plan.find(step.step_id.as_str()) else { continue };
            if !step.status.is_terminal() {
                continue;
            }
            let disposition = match (step.status, &step.skip_reason) {
                (StepStatus::Failed | StepStatus::Cancelled, _) => Disposition::GivenUp,
                (_, Some(reason)) => Disposition::after_skip(reason),
                (_, None) => Disposition::Settled,
            };
            self.state.steps[index.position()] =
                Cell { status: step.status, disposition, reused: true, ..Cell::default() };
        }
        for step in self.plan.indices() {
            let stood_in = self
                .plan
                .fallback(step)
                .is_some_and(|fallback| self.state.steps[fallback.position()].status == StepStatus::Success);
            let cell = &mut self.state.steps[step.position()];
            if cell.reused && cell.has_failed() && stood_in {
                cell.disposition = Disposition::Resolved;
            }
        }
    }
}
