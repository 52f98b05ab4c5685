//! One end of each attempt, one end of the run, one decision on each signal.

use std::collections::HashMap;

use engine_core::event::Body;

use super::Findings;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut taken: HashMap<String, u64> = HashMap::new();
    for event in &run.events {
        let (slot, breaks): (String, &'static [&'static str]) = match &event.body {
            Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_) => {
                ("the end of the run".to_owned(), &["STORE-5", "RUN-2"])
            }
            Body::StepCompleted(_) | Body::StepFailed(_) | Body::StepSkipped(_) | Body::StepCancelled(_) => {
                let Some(subject) = &event.subject else { continue };
                let slot = format!("the end of {}#{}", subject.step, subject.attempt);
                (slot, &["STORE-5", "ATTEMPT-10", "WORKER-2"])
            }
            Body::SignalAccepted(accepted) => {
                (format!("the decision on signal {}", accepted.signal_id), &["STORE-5", "SIGNAL-6"])
            }
            Body::SignalRejected(rejected) => {
                (format!("the decision on signal {}", rejected.signal_id), &["STORE-5", "SIGNAL-6"])
            }
            _ => continue,
        };
        if let Some(before) = taken.insert(slot.clone(), event.run_seq) {
            findings.add(breaks, format!("{} at {}: {slot} stands at {before}", line(event), event.run_seq));
        }
    }
}
