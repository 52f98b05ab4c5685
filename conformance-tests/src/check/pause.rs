//! What pauses leave in a log.

use std::collections::HashSet;

use engine_core::event::{Body, Event};

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

/// The pause that lasts.
struct Lasting {
    number: u32,
    drained: bool,
    /// How many attempts were in flight at its beginning, by its own account.
    in_flight: u32,
    /// Attempts that ran at its beginning, and those that started since.
    ran: HashSet<(String, u32)>,
}

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    let mut lasting: Option<Lasting> = None;
    let mut pauses = 0;
    let mut alerts = HashSet::new();
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        match &event.body {
            Body::RunPaused(paused) => {
                pauses += 1;
                findings.unless(paused.pause_number == pauses, &["PAUSE-15"], || {
                    format!("{} is pause {} and the {pauses}th", about(), paused.pause_number)
                });
                let ran: HashSet<_> = running(&walk);
                findings.unless(ran.len() <= paused.in_flight as usize, &["PAUSE-4"], || {
                    format!("{} says {} in flight, and {} run", about(), paused.in_flight, ran.len())
                });
                lasting = Some(Lasting {
                    number: paused.pause_number,
                    drained: false,
                    in_flight: paused.in_flight,
                    ran,
                });
            }
            Body::AlertRaised(alert) if alert.code == "PAUSE_DRAIN_TIMEOUT" => {
                alerts.insert(alert.number);
            }
            Body::RunDrained(drained) => match &mut lasting {
                Some(pause) if pause.number == drained.pause_number && !pause.drained => {
                    pause.drained = true;
                    let alone = drained.timed_out || walk.running().next().is_none();
                    findings.unless(alone, &["PAUSE-5"], || {
                        format!("{}, and {:?} still run", about(), running(&walk))
                    });
                    findings.unless(
                        !drained.timed_out || alerts.contains(&drained.pause_number),
                        &["PAUSE-6"],
                        || format!("{} timed out without an alert", about()),
                    );
                }
                _ => findings
                    .add(&["PAUSE-15"], format!("{} does not belong to the pause that lasts", about())),
            },
            Body::RunResumed(resumed) => {
                let same = lasting.as_ref().is_some_and(|pause| pause.number == resumed.pause_number);
                findings.unless(same, &["PAUSE-15"], || {
                    format!("{} does not belong to the pause that lasts", about())
                });
                lasting = None;
            }
            Body::StepStarted(_) => started(event, lasting.as_mut(), findings),
            _ => {}
        }
        let _ = walk.step(event);
    }
}

/// Nothing is released while a run is paused: what starts was in flight before, so there are never more than that.
fn started(event: &Event, lasting: Option<&mut Lasting>, findings: &mut Findings) {
    let (Some(pause), Some(subject)) = (lasting, &event.subject) else { return };
    pause.ran.insert((subject.step.to_string(), subject.attempt));
    let (count, most) = (pause.ran.len(), pause.in_flight as usize);
    findings.unless(count <= most, &["PAUSE-2", "PAUSE-3"], || {
        format!(
            "{} at {} makes {count} attempts that ran in pause {}, which began with {most} in flight",
            line(event),
            event.run_seq,
            pause.number
        )
    });
}

fn running(walk: &Walk) -> HashSet<(String, u32)> {
    let mut found = HashSet::new();
    for (id, attempts) in &walk.steps {
        for (attempt, number) in attempts.iter().zip(1..) {
            if attempt.is_running() {
                found.insert((id.to_string(), number));
            }
        }
    }
    found
}
