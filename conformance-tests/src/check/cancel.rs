//! What a CANCEL leaves in a log.

use engine_core::event::{Body, EventType};
use engine_core::signal::SignalType;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    let mut asked = None;
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        let makes_work = matches!(
            event.body.event_type(),
            Some(EventType::StepRetryRequested | EventType::RunPaused | EventType::RunStarted)
        );
        findings.unless(asked.is_none() || !makes_work, &["CANCEL-1", "ACTION-8"], || {
            format!("{} after CANCEL was accepted", about())
        });
        match &event.body {
            Body::SignalAccepted(accepted) if accepted.signal_type == SignalType::Cancel => {
                asked.get_or_insert_with(|| (accepted.signal_id.clone(), accepted.actor.clone()));
            }
            Body::RunCompleted(_) | Body::RunFailed(_) => {
                findings.unless(asked.is_none(), &["CANCEL-7", "CANCEL-10"], || {
                    format!("{} although CANCEL was accepted", about())
                });
            }
            Body::RunCancelled(cancelled) => {
                let told = cancelled.signal_id.clone().zip(cancelled.actor.clone());
                findings.unless(asked.is_some() && told == asked, &["RUN-28"], || {
                    format!("{} names {told:?}, and {asked:?} asked for it", about())
                });
                for (id, attempts) in &walk.steps {
                    let ended = attempts.last().is_some_and(|latest| latest.status.is_terminal());
                    findings.unless(ended, &["CANCEL-7", "CANCEL-8"], || {
                        format!("{}, and step {id} has not ended", about())
                    });
                }
            }
            _ => {}
        }
        let _ = walk.step(event);
    }
}
