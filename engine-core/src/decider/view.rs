//! Reading a run's state: status, substatus and the sentence that explains it, step by step.

use super::Run;
use super::pause::steps;
use super::state::{Disposition, Ending, Standing};
use crate::id::{AgentName, StepId};
use crate::machine::{RunStatus, RunSubstatus, StepStatus, StepSubstatus};
use crate::plan::Approval;
use crate::plan::compiled::StepIndex;
use crate::time::Timestamp;

/// Where a run stands, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// The status; `None` before RunQueued.
    pub status: Option<RunStatus>,
    /// What the run is busy with.
    pub substatus: Option<RunSubstatus>,
    /// The same in a sentence.
    pub message: String,
}

/// Where the latest attempt of a step stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// The step.
    pub step: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// Its status.
    pub status: StepStatus,
    /// What it is busy with.
    pub substatus: Option<StepSubstatus>,
    /// The executor it goes to.
    pub agent: Option<AgentName>,
    /// Tries that failed and were tried again.
    pub retries: u32,
    /// How often its worker was lost.
    pub losses: u32,
    /// The place of its end in the log.
    pub end_seq: Option<u64>,
    /// Steps that must succeed first and have failed.
    pub blocked_by: Vec<StepId>,
    /// The fallback that stood in.
    pub resolved_by: Option<StepId>,
    /// Whether a person must retry or skip it.
    pub held: bool,
    /// Taken over from another run.
    pub reused: bool,
}

impl Run {
    /// Where the run stands (RUN-11 to RUN-20).
    #[must_use]
    pub fn view(&self) -> RunView {
        let in_flight = self.index.in_flight.len();
        let (substatus, message) = match (self.state.status, &self.state.ending) {
            (None, _) => (None, "not queued".to_owned()),
            (Some(status), _) if status.is_terminal() => (None, status.as_str().to_lowercase()),
            (Some(_), Some(ending)) => self.view_ending(ending),
            (Some(RunStatus::Pending), None) => match self.state.settings.policies.approval {
                Approval::Required => {
                    (Some(RunSubstatus::WaitingForHuman), "waiting for approval".to_owned())
                }
                Approval::Auto => (Some(RunSubstatus::Validating), "being checked".to_owned()),
            },
            (Some(RunStatus::Approved), None) => {
                (Some(RunSubstatus::Queued), "waiting for capacity".to_owned())
            }
            (Some(RunStatus::Paused), None) => self.view_paused(),
            (Some(_), None) => {
                if in_flight == 0 && !self.index.waiting.is_empty() {
                    (
                        Some(RunSubstatus::WaitingForHuman),
                        format!("waiting for a person to complete {}", self.names(&self.index.waiting)),
                    )
                } else {
                    (None, format!("{} in flight", steps(in_flight)))
                }
            }
        };
        RunView { status: self.state.status, substatus, message }
    }

    fn view_paused(&self) -> (Option<RunSubstatus>, String) {
        let person = if !self.index.held.is_empty() {
            Some(format!("a person must retry or skip {}", self.names(&self.index.held)))
        } else if let Some(step) = self.state.review {
            let step = &self.plan.step(StepIndex::new(step as usize)).id;
            Some(format!("a person must review {step} and resume the run"))
        } else {
            None
        };
        if !self.state.pause.drained {
            let waiting = format!("waiting for {} in flight", steps(self.index.in_flight.len()));
            let message = match person {
                Some(person) => format!("{waiting}; then {person}"),
                None => waiting,
            };
            return (Some(RunSubstatus::Draining), message);
        }
        match person {
            Some(person) => (Some(RunSubstatus::WaitingForHuman), person),
            None if !self.index.in_flight.is_empty() => {
                (None, format!("paused; {} still in flight", steps(self.index.in_flight.len())))
            }
            None => (None, "paused".to_owned()),
        }
    }

    fn view_ending(&self, ending: &Ending) -> (Option<RunSubstatus>, String) {
        if let Some(compensating) = &self.state.compensating {
            let step = &self.plan.step(StepIndex::new(compensating.step as usize)).id;
            return (Some(RunSubstatus::Compensating), format!("undoing {step}"));
        }
        if self.state.compensation_begun {
            return (Some(RunSubstatus::Compensating), "undoing finished steps".to_owned());
        }
        let waiting = steps(self.index.in_flight.len());
        match ending {
            Ending::Cancelling(_) => (Some(RunSubstatus::Cancelling), format!("cancelling {waiting}")),
            Ending::TimedOut => (Some(RunSubstatus::Cancelling), format!("timed out; cancelling {waiting}")),
            Ending::Failing(_) if self.stops_in_flight() => {
                (Some(RunSubstatus::Cancelling), format!("failing; cancelling {waiting}"))
            }
            Ending::Failing(_) => (None, format!("failing; waiting for {waiting} in flight")),
        }
    }

    fn names(&self, set: &std::collections::BTreeSet<StepIndex>) -> String {
        let names: Vec<&str> = set.iter().take(3).map(|step| self.plan.step(*step).id.as_str()).collect();
        let more = set.len() - names.len();
        let mut text = names.join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text
    }

    /// Milliseconds that the run was active until `now`: since its start, pauses not counted.
    #[must_use]
    pub fn active_ms(&self, now: Timestamp) -> u64 {
        let clock = &self.state.clock;
        clock.used_ms + clock.running_since.map_or(0, |since| now.millis_since(since))
    }

    /// The latest attempt of a step; `None` when the plan has no such step.
    #[must_use]
    pub fn attempt(&self, step: &str) -> Option<AttemptView> {
        self.plan.find(step).map(|step| self.attempt_view(step))
    }

    /// The latest attempt of every step, in the order of the plan.
    pub fn attempts(&self) -> impl Iterator<Item = AttemptView> + '_ {
        self.plan.indices().map(|step| self.attempt_view(step))
    }

    fn attempt_view(&self, step: StepIndex) -> AttemptView {
        let cell = self.cell(step);
        let id = |step: StepIndex| self.plan.step(step).id.clone();
        let pending = cell.status == StepStatus::Pending;
        let blocking = |step: StepIndex| {
            self.cell(step).has_failed() && self.index.standing(step) != Standing::Satisfied
                || self.index.standing(step) == Standing::Lost
        };
        AttemptView {
            step: id(step),
            attempt: cell.attempt,
            status: cell.status,
            substatus: self.attempt_substatus(step),
            agent: self.agent_of(step),
            retries: cell.tries,
            losses: cell.losses,
            end_seq: cell.status.is_terminal().then_some(cell.end_seq),
            blocked_by: self
                .plan
                .dependencies(step)
                .iter()
                .filter(|link| pending && link.required && blocking(link.step))
                .map(|link| id(link.step))
                .collect(),
            resolved_by: (cell.has_failed() && cell.disposition == Disposition::Resolved)
                .then(|| self.plan.fallback(step).map(id))
                .flatten(),
            held: cell.has_failed() && cell.disposition == Disposition::Held,
            reused: cell.reused,
        }
    }

    fn attempt_substatus(&self, step: StepIndex) -> Option<StepSubstatus> {
        let cell = self.cell(step);
        if cell.is_waiting() {
            return Some(StepSubstatus::WaitingForManualCompletion);
        }
        if !cell.is_in_flight() {
            return None;
        }
        if self.stops_in_flight() {
            return Some(StepSubstatus::Cancelling);
        }
        match cell.status {
            StepStatus::Pending => Some(StepSubstatus::Queued),
            _ if cell.tries + cell.losses > 0 => Some(StepSubstatus::Retrying),
            _ => None,
        }
    }
}
