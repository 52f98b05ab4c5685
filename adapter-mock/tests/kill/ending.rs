//! What a run came to, without anything that may differ between one time and another.

use std::collections::{BTreeMap, BTreeSet};

use engine_core::event::run::{CompensationSummary, RunOutcome};
use engine_core::event::{Body, Event};
use engine_core::machine::{RunStatus, StepStatus};
use serde_json::Value;

use super::lawful::Lawful;
use super::plans::CAREFUL;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    status: RunStatus,
    outcome: Option<RunOutcome>,
    output: Option<Value>,
    /// Why it failed, and because of which step.
    cause: Option<(String, String)>,
    failed: BTreeSet<String>,
    compensated: BTreeSet<String>,
    not_compensated: BTreeSet<String>,
    non_compensable: BTreeSet<String>,
    steps: BTreeMap<String, StepEnding>,
}

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepEnding {
    status: Option<StepStatus>,
    attempts: u32,
    /// Tries of each attempt that failed; lost workers are not counted.
    failures: BTreeMap<u32, u32>,
    /// Tries at undoing it that failed.
    undo_failures: u32,
    output: Option<Value>,
    signed: bool,
}

impl Ending {
    pub(crate) fn of(log: &Lawful<'_>) -> Self {
        let mut ending = Self {
            status: log.run.state().status().expect("a status"),
            outcome: None,
            output: None,
            cause: None,
            failed: BTreeSet::new(),
            compensated: BTreeSet::new(),
            not_compensated: BTreeSet::new(),
            non_compensable: BTreeSet::new(),
            steps: BTreeMap::new(),
        };
        for view in log.run.attempts() {
            let step =
                StepEnding { status: Some(view.status), attempts: view.attempt, ..StepEnding::default() };
            ending.steps.insert(view.step.to_string(), step);
        }
        for event in log.events {
            ending.note(event);
        }
        ending
    }

    fn note(&mut self, event: &Event) {
        let names = |steps: &[engine_core::StepId]| steps.iter().map(ToString::to_string).collect();
        match &event.body {
            Body::RunCompleted(completed) => {
                self.outcome = Some(completed.outcome.clone());
                self.output = completed.output.as_ref().and_then(|output| output.value.clone());
            }
            Body::RunFailed(failed) => {
                let root = failed.root_cause.as_ref().expect("a step");
                self.cause = Some((failed.code.clone(), format!("{} {}", root.step_id, root.code)));
                self.failed = failed.failed_steps.iter().map(|failed| failed.step_id.to_string()).collect();
                let CompensationSummary { compensated, failed, non_compensable } = &failed.compensation;
                self.compensated = names(compensated);
                self.not_compensated = names(failed);
                self.non_compensable = names(non_compensable);
            }
            _ => {}
        }
        let Some(subject) = &event.subject else { return };
        let step = self.steps.get_mut(subject.step.as_str()).expect("a step of the plan");
        match &event.body {
            Body::StepRetried(retried) if !retried.worker_lost => {
                *step.failures.entry(subject.attempt).or_default() += 1;
            }
            Body::StepFailed(failed) => {
                step.signed |= failed.manual.is_some();
                *step.failures.entry(subject.attempt).or_default() += 1;
            }
            Body::StepCompleted(completed) => {
                step.signed |= completed.manual.is_some();
                step.output = completed.output.value.clone();
            }
            Body::CompensationFailed(_) => step.undo_failures += 1,
            _ => {}
        }
    }

    /// This run ended as that one, steps that must not be repeated and lost their worker apart.
    pub(crate) fn assert_as(mut self, mut other: Self, log: &Lawful<'_>) {
        let lost = lost_with_care(log.events);
        if !lost.is_empty() {
            assert_eq!(self.outcome, Some(RunOutcome::Partial), "{lost:?} were lost; {log}");
            self.outcome.clone_from(&other.outcome);
        }
        for step in lost {
            let skipped = self.steps.remove(&step).expect("a step of the plan");
            assert_eq!((skipped.status, skipped.attempts), (Some(StepStatus::Skipped), 2), "{step}; {log}");
            other.steps.remove(&step);
        }
        assert_eq!(self, other, "it ended in another way than undisturbed; {log}");
    }
}

/// Steps that were given up because their worker was lost; only such that must not be repeated are.
fn lost_with_care(events: &[Event]) -> BTreeSet<String> {
    let lost = events.iter().filter_map(|event| match (&event.body, &event.subject) {
        (Body::StepFailed(failed), Some(subject)) if failed.error.code == "WORKER_LOST" => {
            Some(subject.step.to_string())
        }
        _ => None,
    });
    lost.filter(|step| step.starts_with(CAREFUL)).collect()
}
