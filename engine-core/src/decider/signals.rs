//! What every signal goes through: decided once, refused with a code, accepted with its effects.

use super::Run;
use crate::error::Code;
use crate::event::Draft;
use crate::event::run::RunApproved;
use crate::event::signal::{SignalAccepted, SignalRejected};
use crate::machine::RunStatus;
use crate::plan::Approval;
use crate::signal::{Command, Signal};

/// The effects of an accepted signal, or why it is refused.
pub(super) type Decided = Result<Vec<Draft>, Refusal>;

#[derive(Clone, Debug)]
pub(super) struct Refusal {
    code: Code,
    message: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl Run {
    /// SignalAccepted with its effects, or SignalRejected (SIGNAL-5); nothing for a signal that was decided before
    /// (SIGNAL-6).
    pub(super) fn signal(&self, signal: &Signal) -> Vec<Draft> {
        if self.state.signals.contains(&signal.signal_id) {
            return Vec::new();
        }
        match self.effects(signal) {
            Ok(effects) => {
                let accepted = SignalAccepted {
                    signal_id: signal.signal_id.clone(),
                    signal_type: signal.signal_type(),
                    actor: signal.actor.clone(),
                    reason: signal.reason.clone(),
                    details: signal.details(),
                };
                let mut drafts = vec![Draft::run(accepted)];
                drafts.extend(effects);
                drafts
            }
            Err(refusal) => vec![Draft::run(SignalRejected {
                signal_id: signal.signal_id.clone(),
                signal_type: signal.signal_type(),
                actor: signal.actor.clone(),
                code: refusal.code.as_str().to_owned(),
                message: refusal.message,
            })],
        }
    }

    fn effects(&self, signal: &Signal) -> Decided {
        if let Err(error) = signal.check() {
            return Err(Refusal::new(error.code(), error.message()));
        }
        let Some(status) = self.state.status else {
            return Err(Refusal::new(Code::NotFound, "there is no such run"));
        };
        if status.is_terminal() {
            return Err(Refusal::new(Code::RunTerminal, format!("the run has ended: {status}")));
        }
        match &signal.command {
            Command::Approve => return self.approve(signal),
            Command::Cancel => return self.cancel(signal),
            _ => {}
        }
        if !self.state.is_live() {
            return Err(Refusal::new(
                Code::RunNotStarted,
                format!("the run is {status} and has not started"),
            ));
        }
        // Before the end of the run is looked at: what is in the log already is only said again (COMPLETE-7).
        if let Command::CompleteStep { step_id, completion, .. } = &signal.command
            && self.completed_before(step_id, completion)
        {
            return Ok(Vec::new());
        }
        if self.state.ending.is_some() {
            return Err(Refusal::new(Code::RunEnding, "the run is ending; CANCEL is all it still takes"));
        }
        match &signal.command {
            Command::Pause { mode } => self.pause(signal, *mode),
            Command::Resume => self.resume(signal),
            Command::RetryStep { step_id, cascade } => self.retry_step(signal, step_id, *cascade),
            Command::SkipStep { step_id } => self.skip_step(signal, step_id),
            Command::CompleteStep { step_id, completion, output } => {
                self.complete_step(signal, step_id, completion, output.as_deref())
            }
            Command::Approve | Command::Cancel => Ok(Vec::new()),
        }
    }

    /// APPROVE-1, APPROVE-2, APPROVE-3.
    fn approve(&self, signal: &Signal) -> Decided {
        let policies = &self.state.settings.policies;
        if self.state.status != Some(RunStatus::Pending) || policies.approval == Approval::Auto {
            return Err(Refusal::new(Code::RunAlreadyApproved, "the run does not wait for approval"));
        }
        if self.state.ending.is_some() {
            return Err(Refusal::new(Code::RunEnding, "the run is being cancelled"));
        }
        if policies.separation_of_duties {
            self.refuse_own_trigger(&signal.actor)?;
        }
        Ok(vec![Draft::run(RunApproved {
            approved_by: signal.actor.clone(),
            signal_id: Some(signal.signal_id.clone()),
            reason: signal.reason.clone(),
        })])
    }

    /// Separation of duties: whoever triggered the run may not decide about it.
    pub(super) fn refuse_own_trigger(&self, actor: &str) -> Result<(), Refusal> {
        if self.state.settings.triggered_by.as_deref() == Some(actor) {
            return Err(Refusal::new(
                Code::SeparationOfDuties,
                format!("{actor} triggered the run, so somebody else must decide this"),
            ));
        }
        Ok(())
    }
}
