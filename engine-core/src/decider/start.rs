//! How a run comes to be: queued, approved, started, or refused.

use super::state::State;
use super::{DECIDER_VERSION, Run};
use crate::error::{Code, Error, Result};
use crate::event::run::{RunApproved, RunFailed, RunQueued, RunStarted, StepCounts};
use crate::event::{Draft, Event, EventType, SCHEMA_VERSION};
use crate::machine::{RunStatus, run};
use crate::plan::{Approval, CompiledPlan};

/// Whether this process may decide for a run that was queued so (CORE-24).
pub(super) fn check_queued(plan: &CompiledPlan, queued: &RunQueued) -> Result<()> {
    if queued.decider_version != DECIDER_VERSION {
        return Err(unknown_version(queued.decider_version));
    }
    if queued.plan_ref.sha256 != plan.hash() {
        return Err(Error::new(
            Code::PlanHashMismatch,
            format!(
                "the run was queued with plan {} and this plan is {}",
                queued.plan_ref.sha256,
                plan.hash()
            ),
        ));
    }
    Ok(())
}

/// Whether this process may decide for a run whose state was carried so.
pub(super) fn check_carried(plan: &CompiledPlan, state: &State) -> Result<()> {
    if state.status.is_some() && state.settings.decider_version != DECIDER_VERSION {
        return Err(unknown_version(state.settings.decider_version));
    }
    let same_plan = state.status.is_none() || *state.settings.plan_hash == *plan.hash();
    if state.steps.len() != plan.len() || !same_plan {
        return Err(Error::new(Code::PlanHashMismatch, "the state is of a run of another plan"));
    }
    Ok(())
}

fn unknown_version(version: u32) -> Error {
    Error::new(
        Code::UnknownDeciderVersion,
        format!("the run needs decider {version} and this is {DECIDER_VERSION}"),
    )
    .with_hint("leave it to a process that knows that version")
}

/// Refuses events of a major version that this process cannot read (VERSION-11).
pub(super) fn check_shape(event: &Event) -> Result<()> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(&event.schema_version) == major(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(Error::new(
        Code::UnknownDeciderVersion,
        format!(
            "event {} has the shape of version {} and this process knows {SCHEMA_VERSION}",
            event.run_seq, event.schema_version
        ),
    )
    .with_hint("leave it to a process that knows that version"))
}

/// The end of a run that cannot start because its plan is gone or another (RUN-3). Nothing can be folded without the
/// plan, so the run is told of by its status alone; otherwise this is [`Stimulus::StartRefused`].
///
/// # Errors
/// An error that names both states when the run has started or ended.
///
/// [`Stimulus::StartRefused`]: super::Stimulus::StartRefused
pub fn refuse_start(status: RunStatus, code: Code, message: String) -> Result<Vec<Draft>> {
    refuse(Some(status), code, message, StepCounts::default())
}

/// What could not be known before: only a run that has not started can fail so (RUN-3).
fn refuse(status: Option<RunStatus>, code: Code, message: String, counts: StepCounts) -> Result<Vec<Draft>> {
    if matches!(status, Some(RunStatus::Running | RunStatus::Paused)) {
        return Err(Error::new(
            Code::IllegalTransition,
            "the start of a run that has started cannot be refused: it is on its way from APPROVED to RUNNING",
        ));
    }
    run::next(status, EventType::RunFailed)?;
    Ok(vec![Draft::run(RunFailed {
        code: code.as_str().to_owned(),
        message,
        root_cause: None,
        failed_steps: Vec::new(),
        counts,
        compensation: Default::default(),
    })])
}

impl Run {
    pub(super) fn queue(&self, queued: RunQueued) -> Result<Vec<Draft>> {
        check_queued(&self.plan, &queued)?;
        run::next(self.state.status, EventType::RunQueued)?;
        Ok(vec![Draft::run(queued)])
    }

    pub(super) fn started(&self, started: RunStarted) -> Result<Vec<Draft>> {
        run::next(self.state.status, EventType::RunStarted)?;
        if self.state.ending.is_some() {
            return Err(Error::new(Code::RunEnding, "the run was cancelled before it started"));
        }
        Ok(vec![Draft::run(started)])
    }

    pub(super) fn start_refused(&self, code: Code, message: String) -> Result<Vec<Draft>> {
        let counts = self.state.counts();
        refuse(self.state.status, code, message, counts)
    }

    /// A run that needs no person's approval is approved by the system (START-9).
    pub(super) fn settle_approval(&self) -> Vec<Draft> {
        let automatic = self.state.settings.policies.approval == Approval::Auto;
        if self.state.status != Some(RunStatus::Pending) || !automatic {
            return Vec::new();
        }
        vec![Draft::run(RunApproved { approved_by: "system".to_owned(), signal_id: None, reason: None })]
    }
}
