//! Where everything stands after each event, walked along the machines' tables without the decider.

use std::collections::BTreeMap;

use engine_core::event::{Body, Event, EventType};
use engine_core::machine::{RunStatus, StepStatus, run, step};
use engine_core::plan::CompiledPlan;
use engine_core::{Error, StepId};

/// Where a run and its steps stand.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// The run.
    pub status: Option<RunStatus>,
    /// Each step's attempts, the first at 0.
    pub steps: BTreeMap<StepId, Vec<Attempt>>,
}

/// Where a logical attempt stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its status.
    pub status: StepStatus,
    /// The place of its StepStarted.
    pub started: Option<u64>,
    /// The place of its end.
    pub ended: Option<u64>,
    /// Whether it waits for a person.
    pub waiting: bool,
    /// Taken over from another run.
    pub reused: bool,
}

impl Default for Attempt {
    fn default() -> Self {
        Self { status: StepStatus::Pending, started: None, ended: None, waiting: false, reused: false }
    }
}

impl Attempt {
    /// Started, not ended, not waiting for a person.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.status == StepStatus::Running && !self.waiting
    }
}

impl Walk {
    /// Before the first event: every step has its first attempt.
    #[must_use]
    pub fn new(plan: &CompiledPlan) -> Self {
        let steps = plan.document().steps.iter().map(|step| (step.id.clone(), vec![Attempt::default()]));
        Self { status: None, steps: steps.collect() }
    }

    /// Where everything stands after a whole log; what is illegal is passed over.
    #[must_use]
    pub fn through(plan: &CompiledPlan, events: &[Event]) -> Self {
        let mut walk = Self::new(plan);
        for event in events {
            let _ = walk.step(event);
        }
        walk
    }

    /// The latest attempt of a step.
    #[must_use]
    pub fn latest(&self, step: &str) -> Option<&Attempt> {
        self.steps.get(step).and_then(|attempts| attempts.last())
    }

    /// Attempts that have started, have not ended and do not wait for a person.
    pub fn running(&self) -> impl Iterator<Item = (&StepId, &Attempt)> {
        self.steps
            .iter()
            .flat_map(|(id, attempts)| attempts.iter().map(move |attempt| (id, attempt)))
            .filter(|(_, attempt)| attempt.is_running())
    }

    /// Goes one event further.
    ///
    /// # Errors
    /// `ILLEGAL_TRANSITION` when the tables have no such edge; nothing changes then.
    pub fn step(&mut self, event: &Event) -> Result<(), Error> {
        let Some(event_type) = event.body.event_type() else { return Ok(()) };
        if let Body::RunQueued(queued) = &event.body {
            for reused in queued.origin.iter().flat_map(|origin| &origin.reused) {
                let attempt = Attempt { status: reused.status, reused: true, ..Attempt::default() };
                self.steps.insert(reused.step_id.clone(), vec![attempt]);
            }
        }
        if run::status_after(event_type).is_some() {
            self.status = Some(run::next(self.status, event_type)?);
            return Ok(());
        }
        let Some(subject) = &event.subject else { return Ok(()) };
        let attempts = self.steps.entry(subject.step.clone()).or_default();
        let latest = attempts.last().map(|attempt| attempt.status);
        let makes_one = match event_type {
            EventType::StepRetryRequested => true,
            // ATTEMPT-4: a skip after a failed or cancelled attempt is the next attempt.
            EventType::StepSkipped => {
                matches!(latest, Some(StepStatus::Failed | StepStatus::Cancelled))
                    && attempts.len() + 1 == subject.attempt as usize
            }
            _ => false,
        };
        if makes_one && attempts.len() + 1 == subject.attempt as usize {
            attempts.push(Attempt::default());
            if event_type == EventType::StepRetryRequested {
                return step::next(None, event_type).map(|_| ());
            }
        }
        let index = (subject.attempt as usize).wrapping_sub(1);
        if !step::EDGES.iter().any(|edge| edge.on == event_type) {
            return Ok(());
        }
        let known = attempts.get(index).map(|attempt| attempt.status);
        let next = step::next(known, event_type)?;
        let Some(attempt) = attempts.get_mut(index) else { return Ok(()) };
        attempt.status = next;
        match event_type {
            EventType::StepStarted => attempt.started = Some(event.run_seq),
            EventType::StepWaiting => attempt.waiting = true,
            _ => {}
        }
        if next.is_terminal() {
            attempt.ended = Some(event.run_seq);
            attempt.waiting = false;
        }
        Ok(())
    }
}
