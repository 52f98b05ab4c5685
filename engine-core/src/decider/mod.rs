//! The decider: what happens to a run, as pure functions. No clock, no randomness, no I/O (CORE-3).
//!
//! State is a fold over the log. [`Run::evolve`] applies one event and works out releases;
//! [`Run::decide`] turns a stimulus into events; [`Run::settle`] gives the events that follow from the state
//! alone; [`Run::actions`] says what an engine has to do now. Whoever drives a run appends what `decide` or
//! `settle` gives, folds what the store returns, repeats `settle` until it is empty, and then acts.
//! Recovery is the same: fold, settle, act.
//!
//! Each rule of the contract stands in one file:
//!
//! | file | rules |
//! |---|---|
//! | [`state`] | what is remembered |
//! | `evolve` | what each event changes |
//! | `index` | readiness, dependencies, delays |
//! | `release` | slots, limits, order of release |
//! | `start` | queueing, approval, start |
//! | `attempt` | what a worker or an engine reports about an attempt |
//! | `failure_action` | what follows a final failure |
//! | `pause` | PAUSE, draining, orphans, RESUME, human review |
//! | `cancel` | CANCEL, grace, forced cancellation |
//! | `retry_step`, `skip_step`, `complete_step` | the other signals |
//! | `compensation` | undoing steps |
//! | `ending` | completion, failure, cancellation of the run |
//! | [`timer`] | delays and timeouts |
//! | [`origin`] | rerun, copy, link, archive |

mod actions;
mod attempt;
mod cancel;
mod compensation;
mod complete_step;
mod ending;
mod evolve;
mod failure_action;
mod index;
pub mod origin;
mod pause;
mod release;
mod retry_step;
mod settle;
mod signals;
mod skip_step;
mod start;
pub mod state;
pub mod stimulus;
pub mod timer;
mod view;

use std::sync::Arc;

pub use actions::{Actions, AttemptRef, CompensationTask, Dispatched, Timer};
pub use start::refuse_start;
pub use state::State;
pub use stimulus::{Report, StepReport, Stimulus};
pub use timer::TimerId;
pub use view::{AttemptView, RunView};

use crate::error::{Code, Error, Result};
use crate::event::{Body, Draft, Event, Subject};
use crate::plan::CompiledPlan;
use crate::plan::compiled::StepIndex;
use index::Index;
use state::Cell;

/// The version of the rules below. A run is decided by the version it was queued with.
pub const DECIDER_VERSION: u32 = 1;

/// One run: its plan, its state, and what follows from the two.
#[derive(Clone, Debug)]
pub struct Run {
    plan: Arc<CompiledPlan>,
    state: State,
    index: Index,
    /// Released since somebody last asked; no part of the state.
    fresh: Vec<StepIndex>,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.plan.hash() == other.plan.hash() && self.state == other.state && self.index == other.index
    }
}

impl Run {
    /// A run of `plan` that does not exist yet: its log is empty.
    #[must_use]
    pub fn new(plan: Arc<CompiledPlan>) -> Self {
        let state = State { steps: vec![Cell::default(); plan.len()], ..State::default() };
        Self::with_state(plan, state)
    }

    /// The run that a log tells of (CORE-4, CORE-20).
    ///
    /// # Errors
    /// `UNKNOWN_DECIDER_VERSION` and `PLAN_HASH_MISMATCH` when this process must leave the run alone: it does not know
    /// the rules or the shape of the events, or has another plan.
    pub fn fold<'a>(plan: Arc<CompiledPlan>, events: impl IntoIterator<Item = &'a Event>) -> Result<Self> {
        let mut run = Self::new(plan);
        for event in events {
            start::check_shape(event)?;
            if let Body::RunQueued(queued) = &event.body {
                start::check_queued(&run.plan, queued)?;
            }
            run.evolve(event);
        }
        Ok(run)
    }

    /// The run with a state that was carried elsewhere (CORE-19).
    ///
    /// # Errors
    /// `UNKNOWN_DECIDER_VERSION` and `PLAN_HASH_MISMATCH` when the state was made by other rules or of another plan.
    pub fn restore(plan: Arc<CompiledPlan>, state: State) -> Result<Self> {
        start::check_carried(&plan, &state)?;
        Ok(Self::with_state(plan, state))
    }

    fn with_state(plan: Arc<CompiledPlan>, mut state: State) -> Self {
        let index = Index::rebuild(&plan, &mut state);
        Self { plan, state, index, fresh: Vec::new() }
    }

    /// The state, to be stored or carried.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<CompiledPlan> {
        &self.plan
    }

    /// What the events of `stimulus` are. Nothing changes: the events count once they are in the log and
    /// folded.
    ///
    /// # Errors
    /// An error that names both states when the transition is illegal (CORE-14). A refused signal is no error: it gives
    /// SignalRejected. A signal that was decided before gives no events.
    pub fn decide(&self, stimulus: Stimulus) -> Result<Vec<Draft>> {
        match stimulus {
            Stimulus::Queue(queued) => self.queue(*queued),
            Stimulus::Started(started) => self.started(*started),
            Stimulus::StartRefused { code, message } => self.start_refused(code, message),
            Stimulus::Step(report) => self.report(*report),
            Stimulus::Compensation { step, outcome } => self.compensation_outcome(&step, outcome),
            Stimulus::Signal(signal) => Ok(self.signal(&signal)),
            Stimulus::TimerDue { timer, now } => Ok(self.timer_due(&timer, now)),
        }
    }

    fn cell(&self, step: StepIndex) -> &Cell {
        &self.state.steps[step.position()]
    }

    fn step_index(&self, step: &crate::id::StepId) -> Result<StepIndex> {
        self.plan.find(step.as_str()).ok_or_else(|| {
            Error::new(Code::StepNotFound, format!("the plan has no step {step}"))
                .with_hint("look at the plan's step ids")
        })
    }

    /// The latest attempt of a step as an event's subject.
    fn subject(&self, step: StepIndex) -> Subject {
        self.subject_at(step, self.cell(step).attempt)
    }

    fn subject_at(&self, step: StepIndex, attempt: u32) -> Subject {
        Subject::new(self.plan.step(step).id.clone(), attempt)
    }
}
