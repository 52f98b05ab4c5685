//! Staying with a run until it ends: shows it, and turns Ctrl-C into PAUSE, then CANCEL.

use std::time::Duration;

use engine_core::event::Event;
use engine_core::machine::{RunStatus, RunSubstatus, StepSubstatus};
use engine_core::projection::{Projection, RunSnapshot};
use engine_core::{RunId, Timestamp};
use futures_util::StreamExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::arguments::WatchArguments;
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::{Tone, count, duration};
use super::session::Session;
use super::watch::Watch;
use crate::{Ask, Drivetrain};

/// How often steps' own progress is looked at, for the bars.
const PROGRESS: Duration = Duration::from_millis(500);

/// How long a run must stand still before it counts as waiting: what one decision writes comes one event at a time.
const STILL: Duration = Duration::from_millis(100);

/// How often to look whether somebody still drives the run.
const LOOK: Duration = Duration::from_secs(1);

/// Ctrl-C and its like. Made before a run is started, so that none goes unheard.
pub(super) struct Interrupts {
    keyboard: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(super) fn new() -> Result<Self> {
        let listen = |kind| {
            signal(kind).map_err(|cause| {
                Complaint::new(Exit::Failure, format!("signals of the system cannot be heard: {cause}"))
            })
        };
        Ok(Self { keyboard: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.keyboard.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whether something moves in a run, or somebody must do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Moving,
    Paused,
    NeedsPerson,
    Ended,
}

impl Standing {
    /// Whether only a person can move the run.
    fn waits(self) -> bool {
        matches!(self, Self::Paused | Self::NeedsPerson)
    }
}

fn standing(snapshot: &RunSnapshot) -> Standing {
    match (snapshot.status, snapshot.substatus) {
        (Some(status), _) if status.is_terminal() => Standing::Ended,
        (_, Some(RunSubstatus::WaitingForHuman)) => Standing::NeedsPerson,
        (_, Some(_)) => Standing::Moving,
        // Without a substatus a pause has nothing in flight that it waits for.
        (Some(RunStatus::Paused), None) => Standing::Paused,
        _ => Standing::Moving,
    }
}

/// Shows a run from the place `after` in its log on, until it has ended; with `no_wait` until only a person can move
/// it. What comes before `after` is folded and not shown.
pub(super) async fn attend(
    session: &Session,
    drivetrain: &Drivetrain,
    run_id: &RunId,
    after: u64,
    arguments: &WatchArguments,
    interrupts: &mut Interrupts,
) -> Result<Exit> {
    let plan = drivetrain.plan_of(run_id).await?;
    let mut watch = Watch::new(arguments, session.output, plan.len());
    let mut projection = Projection::new(plan);
    let mut events = drivetrain.observe(run_id, 0).await?;
    let mut interrupted = 0;
    let mut now = Standing::Moving;
    let mut told = Standing::Moving;
    let mut still_at = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval(PROGRESS);
    let mut looks = tokio::time::interval(LOOK);
    let mut alone = 0;
    let exit = loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break None };
                let event: Event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        watch.end();
                        return Err(error.into());
                    }
                };
                projection.apply(&event);
                let snapshot = projection.snapshot(event.emitted_at);
                if event.run_seq > after {
                    watch.event(&event, &projection, &snapshot);
                }
                now = standing(&snapshot);
                still_at = tokio::time::Instant::now() + STILL;
                if now == Standing::Moving {
                    told = now;
                }
            }
            () = tokio::time::sleep_until(still_at), if now.waits() && now != told => {
                if arguments.no_wait || interrupted > 0 {
                    break Some(now);
                }
                told = now;
                let snapshot = projection.snapshot(Timestamp::default());
                for line in advice(session, run_id, &snapshot) {
                    watch.note(session.output, &line);
                }
                watch.note(session.output, "waiting for that; Ctrl-C leaves, and the run stays as it is");
            }
            () = interrupts.next() => {
                interrupted += 1;
                match interrupted {
                    1 if now.waits() => break Some(now),
                    1 => {
                        watch.note(session.output, "pausing: what is in flight finishes first; Ctrl-C again cancels the run");
                        drivetrain.submit(run_id, Ask::pause().because("Ctrl-C")).await?;
                    }
                    2 => {
                        watch.note(session.output, "cancelling; Ctrl-C again leaves at once");
                        drivetrain.submit(run_id, Ask::cancel().because("Ctrl-C twice")).await?;
                    }
                    _ => {
                        watch.end();
                        session.output.note(format!("left; look at it with: drivetrain{} status {run_id}", session.flags()));
                        return Ok(Exit::Left);
                    }
                }
            }
            _ = looks.tick(), if session.drives_itself() => {
                // Looking fails while the store is away; it may come back.
                alone = match session.is_unattended(drivetrain, run_id).await {
                    Ok(true) => alone + 1,
                    _ => 0,
                };
                if alone >= 3 && let Err(complaint) = session.check_abandoned(drivetrain, run_id).await {
                    watch.end();
                    return Err(complaint);
                }
            }
            _ = ticks.tick(), if watch.shows_progress() => {
                if let Ok(progress) = drivetrain.step_progress(run_id).await {
                    watch.progress(&progress);
                }
            }
        }
    };
    watch.end();
    let snapshot = drivetrain.get(run_id).await?;
    if arguments.json {
        // The events have told everything; people read the rest beside it.
        if exit.is_some() {
            advice(session, run_id, &snapshot).iter().for_each(|line| session.output.note(line));
        }
    } else {
        conclude(session, drivetrain, run_id, &snapshot).await?;
    }
    Ok(match exit {
        Some(Standing::NeedsPerson) => Exit::Waiting,
        _ => Exit::of_run(&snapshot),
    })
}

/// Stops driving runs here, unless the person has had enough of waiting.
pub(super) async fn leave(drivetrain: &Drivetrain, exit: &Result<Exit>, interrupts: &mut Interrupts) {
    if matches!(exit, Ok(Exit::Left)) {
        return;
    }
    tokio::select! {
        () = drivetrain.shutdown() => {}
        () = interrupts.next() => {}
    }
}

/// The last words about a run.
async fn conclude(
    session: &Session,
    drivetrain: &Drivetrain,
    run_id: &RunId,
    snapshot: &RunSnapshot,
) -> Result<()> {
    let output = session.output;
    output.line(headline(session, run_id, snapshot));
    if let Some(error) = &snapshot.error {
        output.line(format!("why: {} [{}]", error.message, error.code));
        if let Some(cause) = &snapshot.root_cause
            && let Some(step) = snapshot.steps.iter().find(|step| step.step_id == cause.step_id)
            && let Some(error) = &step.error
        {
            output.line(format!("first: step {} failed: {} [{}]", step.step_id, error.message, error.code));
        }
    }
    let compensation = &snapshot.compensation;
    for (what, steps) in [
        ("undone", &compensation.compensated),
        ("could not be undone", &compensation.failed),
        ("cannot be undone", &compensation.non_compensable),
    ] {
        if !steps.is_empty() {
            let names: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
            output.line(format!("{what}: {}", names.join(", ")));
        }
    }
    if let Some(result) = drivetrain.output(run_id).await? {
        match (result.value, result.artifact) {
            (Some(value), _) => {
                output.line(format!("output: {}", serde_json::to_string_pretty(&value).unwrap_or_default()));
            }
            (None, Some(artifact)) => {
                output.line(format!("output: {} (large, kept as an artifact)", artifact.uri));
            }
            (None, None) => {}
        }
    }
    advice(session, run_id, snapshot).iter().for_each(|line| output.line(line));
    Ok(())
}

/// Run, status and counts in one line.
pub(super) fn headline(session: &Session, run_id: &RunId, snapshot: &RunSnapshot) -> String {
    let status = snapshot.status.map_or("UNKNOWN", RunStatus::as_str);
    let tone = match snapshot.status {
        Some(RunStatus::Completed) => Tone::Good,
        Some(RunStatus::Failed) => Tone::Bad,
        Some(RunStatus::Paused | RunStatus::Cancelled) => Tone::Careful,
        _ => Tone::Strong,
    };
    let word = match &snapshot.outcome {
        Some(outcome) => format!("{status} ({outcome})"),
        None => status.to_owned(),
    };
    let counts = snapshot.progress.counts;
    let counted = [
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (counts.cancelled, "cancelled"),
        (counts.running, "running"),
        (counts.pending, "pending"),
    ];
    let steps: Vec<String> = counted
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    format!(
        "run {run_id} {} after {}: {}: {}",
        session.output.paint(tone, &word),
        duration(snapshot.progress.elapsed_ms),
        count(usize::try_from(counts.total).unwrap_or(usize::MAX), "step"),
        steps.join(", "),
    )
}

/// What a person can type now.
pub(super) fn advice(session: &Session, run_id: &RunId, snapshot: &RunSnapshot) -> Vec<String> {
    let flags = session.flags();
    let command = |words: &str| format!("  drivetrain{flags} {words}");
    let mut lines = Vec::new();
    let waiting = snapshot
        .steps
        .iter()
        .filter(|step| step.substatus == Some(StepSubstatus::WaitingForManualCompletion));
    for step in waiting {
        lines.push(format!("step {} waits for a person; when it is done:", step.step_id));
        lines.push(command(&format!("complete {run_id} {}", step.step_id)));
    }
    for step in snapshot.steps.iter().filter(|step| step.held) {
        lines.push(format!(
            "step {} has failed and holds the run; do it again, or go on without it:",
            step.step_id
        ));
        lines.push(command(&format!("retry {run_id} {}", step.step_id)));
        lines.push(command(&format!("skip {run_id} {}", step.step_id)));
    }
    match (snapshot.status, snapshot.substatus) {
        (Some(RunStatus::Pending), Some(RunSubstatus::WaitingForHuman)) => {
            lines.push("the run waits for approval:".to_owned());
            lines.push(command(&format!("approve {run_id}")));
        }
        (Some(RunStatus::Paused), _) => {
            lines.push("the run is paused; to go on:".to_owned());
            lines.push(command(&format!("resume {run_id}")));
        }
        (Some(RunStatus::Failed), _) => {
            lines.push("to do again what failed, and keep what went well:".to_owned());
            lines.push(command(&format!("rerun {run_id}")));
        }
        _ => {}
    }
    lines
}
