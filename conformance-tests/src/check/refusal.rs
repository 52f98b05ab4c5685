//! What the machines do not allow is refused by the decider, with both states and without events (CORE-14).

use std::sync::Arc;

use engine_core::Code;
use engine_core::decider::{Report, Run, Stimulus};
use engine_core::event::Body;
use engine_core::event::step::StepCompleted;
use engine_core::machine::{RunStatus, StepStatus};

use super::Findings;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let started = run.events.iter().find_map(|event| match &event.body {
        Body::RunStarted(started) => Some(started.clone()),
        _ => None,
    });
    let mut folded = Run::new(Arc::clone(&run.plan));
    for event in &run.events {
        folded.evolve(event);
        let at = format!("after {} at {}", line(event), event.run_seq);
        let Some(status) = folded.state().status() else { continue };
        if let Some(started) = started.clone().filter(|_| status != RunStatus::Approved) {
            let words = [status.as_str(), RunStatus::Running.as_str()];
            refused(&folded, Stimulus::Started(started), words, &at, findings);
        }
        let actions = folded.actions();
        for task in actions.dispatch {
            let (step, attempt) = (task.attempt.step.clone(), task.attempt.attempt);
            if !task.started {
                let done = Report::Completed(StepCompleted::default());
                let words = [StepStatus::Pending.as_str(), StepStatus::Success.as_str()];
                refused(&folded, Stimulus::step(step, attempt, done), words, &at, findings);
                continue;
            }
            let start = run.events.iter().find_map(|event| match (&event.body, &event.subject) {
                (Body::StepStarted(started), Some(subject)) if subject.step == step => Some(started.clone()),
                _ => None,
            });
            let Some(start) = start else { continue };
            let words = [StepStatus::Running.as_str(); 2];
            refused(&folded, Stimulus::step(step, attempt, Report::Started(*start)), words, &at, findings);
        }
    }
}

fn refused(run: &Run, stimulus: Stimulus, words: [&str; 2], at: &str, findings: &mut Findings) {
    let asked = format!("{stimulus:?}");
    match run.decide(stimulus) {
        Ok(drafts) => findings.add(&["CORE-14"], format!("{at}: {asked} gives {drafts:?}")),
        Err(error) => {
            let named = words.iter().all(|word| error.message().contains(word));
            findings.unless(error.code() == Code::IllegalTransition && named, &["CORE-14"], || {
                format!("{at}: {asked} is refused with {error}, which does not name {words:?}")
            });
        }
    }
}
