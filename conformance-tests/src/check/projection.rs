//! The snapshot against the log: what was read, what a fold gives, and what the tables say are the same.

use engine_core::decider::Run;
use engine_core::projection::Projection;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit};

/// Prefixes of a log at which a projection is stored and taken up again.
const RESTARTS: usize = 4;

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let Some(last) = run.events.last() else { return };
    let now = last.emitted_at;
    let mut whole = Projection::new(run.plan.clone());
    let stride = (run.events.len() / RESTARTS).max(1);
    let mut taken_up = Projection::new(run.plan.clone());
    for (event, place) in run.events.iter().zip(1..) {
        whole.apply(event);
        taken_up.apply(event);
        if place % stride == 0 {
            match Projection::restore(run.plan.clone(), taken_up.record()) {
                Ok(restored) => taken_up = restored,
                Err(error) => findings.add(&["SNAP-7"], format!("a projection cannot be taken up: {error}")),
            }
        }
    }
    let folded = whole.snapshot(now);
    findings.unless(taken_up.snapshot(now) == folded, &["SNAP-7", "CORE-19"], || {
        "a projection that was stored and taken up again gives another snapshot".to_owned()
    });
    let mut twice = Run::new(run.plan.clone());
    for event in run.events.iter().flat_map(|event| [event, event]) {
        twice.evolve(event);
    }
    findings.unless(twice.state() == whole.run().state(), &["CORE-7", "CORE-9"], || {
        "folding each event twice gives another state".to_owned()
    });
    let walk = Walk::through(&run.plan, &run.events);
    findings.unless(folded.status == walk.status, &["CORE-4", "CORE-5"], || {
        format!("the fold says {:?}, and the tables {:?}", folded.status, walk.status)
    });
    for step in &folded.steps {
        let latest = walk.latest(step.step_id.as_str()).map(|latest| latest.status);
        findings.unless(latest == Some(step.status), &["CORE-4", "CORE-5"], || {
            format!("the fold says {} is {}, and the tables {latest:?}", step.step_id, step.status)
        });
    }
    findings.unless(folded.last_event_seq == last.run_seq, &["SNAP-6"], || {
        format!("lastEventSeq is {} and the log has {}", folded.last_event_seq, last.run_seq)
    });
    let Some(read) = &run.snapshot else { return };
    // What depends on the time of reading is not compared.
    let (mut read, mut folded) = (read.clone(), folded);
    read.progress = folded.progress;
    folded.run_id.clone_from(&read.run_id);
    findings.unless(read == folded, &["SNAP-7", "CORE-5"], || {
        format!("the snapshot that was read is not that of the log: {read:?} and {folded:?}")
    });
}
