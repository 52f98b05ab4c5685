//! Numbers of attempts and tries.

use std::collections::HashMap;

use engine_core::StepId;
use engine_core::event::EventType;
use engine_core::machine::StepStatus;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    let mut tries: HashMap<(StepId, u32), u32> = HashMap::new();
    let mut started: HashMap<(StepId, u32), u64> = HashMap::new();
    for event in &run.events {
        let (Some(subject), Some(event_type)) = (&event.subject, event.body.event_type()) else { continue };
        let about = || format!("{} at {}", line(event), event.run_seq);
        let attempts = walk.steps.get(&subject.step).map_or(0, Vec::len);
        let key = (subject.step.clone(), subject.attempt);
        match event_type {
            EventType::StepRetryRequested => {
                let ended =
                    walk.latest(subject.step.as_str()).is_some_and(|latest| latest.status.is_terminal());
                findings.unless(
                    ended && subject.attempt as usize == attempts + 1,
                    &["ATTEMPT-1", "ATTEMPT-2"],
                    || format!("{} does not follow an ended attempt {attempts}", about()),
                );
            }
            EventType::StepSkipped if subject.attempt as usize == attempts + 1 => {
                let latest = walk.latest(subject.step.as_str()).map(|latest| latest.status);
                findings.unless(
                    matches!(latest, Some(StepStatus::Failed | StepStatus::Cancelled)),
                    &["ATTEMPT-2", "ATTEMPT-4"],
                    || format!("{} makes an attempt after {latest:?}", about()),
                );
            }
            _ => findings.unless(
                (1..=attempts).contains(&(subject.attempt as usize)),
                &["ATTEMPT-1", "ATTEMPT-2"],
                || format!("{} is about an attempt that nothing made", about()),
            ),
        }
        if event_type == EventType::StepStarted
            && let Some(before) = started.insert(key.clone(), event.run_seq)
        {
            findings.add(&["ATTEMPT-9"], format!("{}: it started before, at {before}", about()));
        }
        if event_type == EventType::StepRetried {
            let number = subject.engine_attempt.unwrap_or(0);
            let before = tries.insert(key, number).unwrap_or(0);
            findings.unless(number > before, &["ATTEMPT-6", "ATTEMPT-11"], || {
                format!("{} is try {number} after try {before}", about())
            });
        }
        let _ = walk.step(event);
    }
}
