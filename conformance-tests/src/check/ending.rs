//! What the end of a run says, against what came before it.

use engine_core::event::Body;
use engine_core::event::run::{RunFailed, StepCounts};
use engine_core::machine::StepStatus;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut walk = Walk::new(&run.plan);
    for event in &run.events {
        let counts = match &event.body {
            Body::RunCompleted(completed) => {
                for (id, attempts) in &walk.steps {
                    let ended = attempts.last().is_some_and(|latest| latest.status.is_terminal());
                    findings.unless(ended, &["RUN-9", "RUN-10"], || {
                        format!("RunCompleted, and step {id} has not ended")
                    });
                }
                Some(completed.counts)
            }
            // A run that could not start has no steps to count.
            Body::RunFailed(failed) if walk.status.is_some_and(|status| status.as_str() == "RUNNING") => {
                check_failed(run, &walk, failed, findings);
                Some(failed.counts)
            }
            Body::RunCancelled(cancelled) => Some(cancelled.counts),
            _ => None,
        };
        if let Some(counts) = counts {
            let counted = count(&walk);
            findings.unless(counts == counted, &["RUN-22", "RUN-24", "RUN-28"], || {
                format!("{} counts {counts:?}, and the log {counted:?}", event.body.type_name())
            });
        }
        let _ = walk.step(event);
    }
}

fn check_failed(run: &RunHistory, walk: &Walk, failed: &RunFailed, findings: &mut Findings) {
    findings.unless(walk.running().next().is_none(), &["ACTION-14"], || {
        "RunFailed while attempts run".to_owned()
    });
    let mut steps: Vec<(u64, String)> = walk
        .steps
        .iter()
        .filter_map(|(id, attempts)| attempts.last().map(|latest| (id, latest)))
        .filter(|(_, latest)| latest.status == StepStatus::Failed)
        .map(|(id, latest)| (latest.ended.unwrap_or(0), id.to_string()))
        .collect();
    steps.sort();
    let told: Vec<(u64, String)> =
        failed.failed_steps.iter().map(|step| (step.run_seq, step.step_id.to_string())).collect();
    findings.unless(told == steps, &["RUN-27", "ACTION-13"], || {
        format!("RunFailed names {told:?} as failed, and the log {steps:?}")
    });
    if let Some(cause) = &failed.root_cause {
        let event = run.events.iter().find(|event| event.run_seq == cause.run_seq);
        let fits = event.is_some_and(|event| {
            matches!(event.body, Body::StepFailed(_) | Body::StepCancelled(_))
                && event.subject.as_ref().is_some_and(|subject| {
                    subject.step == cause.step_id && subject.attempt == cause.logical_attempt_id
                })
        });
        findings.unless(fits, &["RUN-26"], || {
            format!(
                "the root cause names {} at {}, where no such failure stands",
                cause.step_id, cause.run_seq
            )
        });
    }
}

fn count(walk: &Walk) -> StepCounts {
    let mut counts = StepCounts::default();
    for attempts in walk.steps.values() {
        counts.total += 1;
        match attempts.last().map_or(StepStatus::Pending, |latest| latest.status) {
            StepStatus::Pending => counts.pending += 1,
            StepStatus::Running => counts.running += 1,
            StepStatus::Success => counts.succeeded += 1,
            StepStatus::Failed => counts.failed += 1,
            StepStatus::Skipped => counts.skipped += 1,
            StepStatus::Cancelled => counts.cancelled += 1,
        }
    }
    counts
}
