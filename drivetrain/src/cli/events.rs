//! `events`: a run's log; and what each event says to a person.

use engine_core::event::{Body, Event};
use futures_util::StreamExt as _;

use super::arguments::EventsArguments;
use super::complaint::Result;
use super::exit::Exit;
use super::output::{Tone, duration};
use super::session::Session;

/// What an event says.
pub(super) struct Telling {
    pub(super) tone: Tone,
    pub(super) text: String,
    /// Whether it is worth keeping where what goes on is shown otherwise.
    pub(super) lasting: bool,
}

pub(super) async fn events(session: &Session, arguments: &EventsArguments) -> Result<Exit> {
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, &arguments.run.run).await?;
    let show = |event: &Event| {
        if arguments.json {
            session.output.json(event);
        } else {
            session.output.line(log_line(session, event));
        }
    };
    if arguments.follow {
        let mut stream = drivetrain.observe(&record.run_id, arguments.after).await?;
        while let Some(event) = stream.next().await {
            show(&event?);
        }
        return Ok(Exit::Success);
    }
    let mut after = arguments.after;
    loop {
        let page = drivetrain.events(&record.run_id, after, 1000).await?;
        let Some(last) = page.last() else { return Ok(Exit::Success) };
        after = last.run_seq;
        page.iter().for_each(show);
    }
}

/// An event with its place and time.
fn log_line(session: &Session, event: &Event) -> String {
    let output = session.output;
    let subject = event.subject.as_ref().map_or_else(
        || "run".to_owned(),
        |subject| {
            if subject.attempt > 1 {
                format!("{}#{}", subject.step, subject.attempt)
            } else {
                subject.step.to_string()
            }
        },
    );
    let (tone, text) =
        tell(event).map_or((Tone::Quiet, String::new()), |telling| (telling.tone, telling.text));
    format!(
        "{:>5}  {}  {:<22}  {:<20}  {}",
        event.run_seq,
        output.paint(Tone::Quiet, &event.emitted_at.to_string()),
        event.body.type_name(),
        subject,
        output.paint(tone, &text),
    )
    .trim_end()
    .to_owned()
}

/// What an event says to a person; nothing for what only machines need.
pub(super) fn tell(event: &Event) -> Option<Telling> {
    let (tone, lasting, text) = match &event.body {
        Body::RunQueued(queued) => {
            let plan = &queued.plan_ref;
            let origin = queued.origin.as_ref().map_or_else(String::new, |origin| {
                format!(", {} of {}", origin.origin_type, origin.source_run_id)
            });
            (Tone::Plain, false, format!("queued: {} {}{origin}", plan.plan_id, plan.plan_version))
        }
        Body::RunApproved(approved) => (Tone::Plain, false, format!("approved by {}", approved.approved_by)),
        Body::RunStarted(started) => (Tone::Plain, false, format!("started on {}", started.engine_type)),
        Body::RunPaused(paused) => {
            let why = paused.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            (Tone::Careful, true, format!("paused ({}){why}", paused.cause))
        }
        Body::RunDrained(drained) if drained.timed_out => (
            Tone::Careful,
            true,
            format!(
                "stopped waiting for {} in flight",
                super::output::count(drained.in_flight.len(), "step")
            ),
        ),
        Body::RunDrained(_) => (Tone::Quiet, false, "nothing in flight any more".to_owned()),
        Body::RunResumed(_) => (Tone::Plain, true, "resumed".to_owned()),
        Body::RunCompleted(completed) => {
            let tone = if completed.outcome.as_str() == "SUCCESS" { Tone::Good } else { Tone::Careful };
            (tone, false, format!("completed: {}", completed.outcome))
        }
        Body::RunFailed(failed) => (Tone::Bad, false, format!("failed: {}", failed.message)),
        Body::RunCancelled(_) => (Tone::Careful, false, "cancelled".to_owned()),
        Body::StepStarted(started) => (Tone::Plain, false, format!("started ({})", started.handler)),
        Body::StepRetried(retried) => {
            let again = if retried.delay_ms == 0 {
                "at once".to_owned()
            } else {
                format!("in {}", duration(retried.delay_ms))
            };
            (Tone::Careful, true, format!("failed, again {again}: {}", error(&retried.error)))
        }
        Body::StepWaiting(waiting) => {
            let prompt = waiting.prompt.as_ref().map_or_else(String::new, |prompt| format!(": {prompt}"));
            (Tone::Careful, true, format!("waits for a person{prompt}"))
        }
        Body::StepCompleted(completed) => match &completed.manual {
            Some(manual) => (Tone::Good, true, format!("completed by {}", manual.actor_user_id)),
            None => (Tone::Good, true, "succeeded".to_owned()),
        },
        Body::StepFailed(failed) => (Tone::Bad, true, format!("failed: {}", error(&failed.error))),
        Body::StepSkipped(skipped) => (Tone::Quiet, true, format!("skipped ({})", skipped.reason)),
        Body::StepCancelled(cancelled) => (Tone::Careful, true, format!("cancelled ({})", cancelled.reason)),
        Body::StepRetryRequested(retry) => {
            (Tone::Careful, true, format!("to be done again ({})", retry.reason))
        }
        Body::CompensationStarted(_) => (Tone::Careful, false, "being undone".to_owned()),
        Body::CompensationCompleted(_) => (Tone::Careful, true, "undone".to_owned()),
        Body::CompensationFailed(failed) => {
            (Tone::Bad, true, format!("could not be undone: {}", error(&failed.error)))
        }
        Body::SignalAccepted(signal) => {
            (Tone::Plain, true, format!("{} by {}", signal.signal_type, signal.actor))
        }
        Body::SignalRejected(signal) => (
            Tone::Careful,
            true,
            format!(
                "{} by {} refused: {} [{}]",
                signal.signal_type, signal.actor, signal.message, signal.code
            ),
        ),
        Body::TimerFired(_) => return None,
        Body::HumanReviewRequested(review) => {
            (Tone::Careful, true, format!("asks for review: {}", review.reason))
        }
        Body::CheckpointCreated(checkpoint) => {
            (Tone::Quiet, true, format!("checkpoint {}", checkpoint.checkpoint_id))
        }
        Body::AlertRaised(alert) => (Tone::Bad, true, format!("alert {}: {}", alert.code, alert.message)),
        _ => return None,
    };
    Some(Telling { tone, text, lasting })
}

fn error(error: &engine_core::event::step::StepError) -> String {
    format!("{} [{}]", error.message, error.code)
}
