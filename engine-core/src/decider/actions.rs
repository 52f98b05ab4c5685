//! What an engine has to do for a run now. Doing any of it again is harmless.

use super::Run;
use super::timer::TimerId;
use crate::id::{AgentName, HandlerName, StepId};
use crate::machine::{RunStatus, StepStatus};
use crate::plan::compiled::StepIndex;
use crate::time::Timestamp;

/// Everything an engine has to do for a run now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Attempts that must reach a worker, in the order of release: released, not ended, not waiting for a
    /// person.
    pub dispatch: Vec<Dispatched>,
    /// Attempts that must be asked to stop.
    pub cancel: Vec<AttemptRef>,
    /// Timers that must run.
    pub timers: Vec<Timer>,
    /// A step that must be undone.
    pub compensate: Option<CompensationTask>,
    /// The run has ended so: the engine closes what it holds for it.
    pub finish: Option<RunStatus>,
}

/// An attempt for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatched {
    /// The attempt.
    pub attempt: AttemptRef,
    /// The code that does it.
    pub handler: HandlerName,
    /// The executor it must go to.
    pub agent: Option<AgentName>,
    /// Whether a worker has started it; it may have lost that worker.
    pub started: bool,
    /// Which try is next, from 1.
    pub try_number: u32,
    /// The next try does not begin before this time.
    pub not_before: Option<Timestamp>,
}

/// A logical attempt of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptRef {
    /// The step.
    pub step: StepId,
    /// The logical attempt.
    pub attempt: u32,
}

/// A timer that must run until it is due or not listed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The timer.
    pub timer: TimerId,
    /// When it is due.
    pub due_at: Timestamp,
}

/// A step that must be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompensationTask {
    /// The attempt whose success is undone.
    pub attempt: AttemptRef,
    /// The code that undoes it.
    pub handler: HandlerName,
    /// Which try this is, from 1.
    pub try_number: u32,
    /// It does not begin before this time.
    pub not_before: Option<Timestamp>,
    /// The key that stays the same over all tries.
    pub idempotency_key: String,
}

impl Run {
    /// What an engine has to do now (CORE-17).
    #[must_use]
    pub fn actions(&self) -> Actions {
        let mut actions = Actions::default();
        let Some(status) = self.state.status else { return actions };
        if status.is_terminal() {
            actions.finish = Some(status);
            return actions;
        }
        let mut in_flight: Vec<StepIndex> = self.index.in_flight.iter().copied().collect();
        in_flight.sort_unstable_by_key(|step| self.plan.rank(*step));
        for step in &in_flight {
            if self.stops_in_flight() {
                actions.cancel.push(self.attempt_ref(*step));
            } else {
                actions.dispatch.push(self.dispatched(*step));
            }
        }
        actions.timers = self.timers().into_iter().map(|(timer, due_at)| Timer { timer, due_at }).collect();
        actions.compensate = self.state.compensating.and_then(|compensating| {
            let step = StepIndex::new(compensating.step as usize);
            let compensation = self.plan.step(step).compensation.as_ref()?;
            Some(CompensationTask {
                attempt: AttemptRef { step: self.plan.step(step).id.clone(), attempt: compensating.attempt },
                handler: compensation.handler.clone(),
                try_number: compensating.tries + 1,
                not_before: compensating.not_before,
                idempotency_key: self.compensation_key(step),
            })
        });
        actions
    }

    fn attempt_ref(&self, step: StepIndex) -> AttemptRef {
        AttemptRef { step: self.plan.step(step).id.clone(), attempt: self.cell(step).attempt }
    }

    pub(super) fn dispatched(&self, step: StepIndex) -> Dispatched {
        let cell = self.cell(step);
        Dispatched {
            attempt: self.attempt_ref(step),
            handler: self.plan.step(step).handler.clone(),
            agent: self.agent_of(step),
            started: cell.status == StepStatus::Running,
            try_number: cell.tries + cell.losses + 1,
            not_before: cell.not_before,
        }
    }
}
