//! `status`: where a run stands, step by step.

use engine_core::machine::StepStatus;
use engine_core::port::store::StepProgress;
use engine_core::projection::StepSnapshot;

use super::arguments::StatusArguments;
use super::attend::{advice, headline};
use super::complaint::Result;
use super::exit::Exit;
use super::output::{Tone, duration};
use super::session::Session;

pub(super) async fn status(session: &Session, arguments: &StatusArguments) -> Result<Exit> {
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, &arguments.run.run).await?;
    let snapshot = drivetrain.get(&record.run_id).await?;
    let output = session.output;
    if arguments.json {
        output.json_document(&snapshot);
        return Ok(Exit::Success);
    }
    let progress = drivetrain.step_progress(&record.run_id).await?;
    output.line(headline(session, &record.run_id, &snapshot));
    output.line(format!("plan {} {}; {}", record.plan_id, record.plan_version, snapshot.message));
    if let Some(left) = snapshot.progress.estimated_remaining_ms.filter(|left| *left > 0) {
        output.line(format!("{:.0} % done, about {} left", snapshot.progress.percent, duration(left)));
    }
    if let Some(error) = &snapshot.error {
        output.line(output.paint(Tone::Bad, &format!("{} [{}]", error.message, error.code)));
    }
    output.line("");
    let rows: Vec<_> = snapshot.steps.iter().map(|step| row(step, &progress)).collect();
    output.table(&["STEP", "STATUS", "ATTEMPT", "TOOK", ""], &rows);
    let lines = advice(session, &record.run_id, &snapshot);
    if !lines.is_empty() {
        output.line("");
        lines.iter().for_each(|line| output.line(line));
    }
    if !record.status.is_terminal()
        && session.drives_itself()
        && session.is_unattended(&drivetrain, &record.run_id).await?
    {
        output.line("");
        output
            .line(format!("nobody drives this run now; a worker does: drivetrain{} worker", session.flags()));
    }
    Ok(Exit::Success)
}

fn row(step: &StepSnapshot, progress: &[StepProgress]) -> Vec<(Tone, String)> {
    let tone = match step.status {
        StepStatus::Success => Tone::Good,
        StepStatus::Failed => Tone::Bad,
        StepStatus::Cancelled => Tone::Careful,
        StepStatus::Skipped => Tone::Quiet,
        StepStatus::Pending | StepStatus::Running => Tone::Plain,
    };
    let took = match (step.started_at, step.completed_at) {
        (Some(started), Some(completed)) => duration(completed.millis_since(started)),
        _ => String::new(),
    };
    vec![
        (Tone::Plain, step.step_id.to_string()),
        (tone, step.status.to_string()),
        (Tone::Plain, step.logical_attempt_id.to_string()),
        (Tone::Plain, took),
        (Tone::Quiet, about(step, progress)),
    ]
}

/// What else there is to say about a step.
fn about(step: &StepSnapshot, progress: &[StepProgress]) -> String {
    let mut said: Vec<String> = Vec::new();
    if let Some(substatus) = step.substatus {
        said.push(substatus.as_str().to_lowercase().replace('_', " "));
    }
    let same = |told: &&StepProgress| told.step_id == step.step_id && told.attempt == step.logical_attempt_id;
    if step.status == StepStatus::Running
        && let Some(told) = progress.iter().find(same)
    {
        said.push(format!("{:.0} %", told.done * 100.0));
    }
    if let Some(latest) = step.attempts.last().filter(|latest| latest.retries > 0) {
        said.push(super::output::count(latest.retries as usize, "retry").replace("retrys", "retries"));
    }
    if let Some(reason) = &step.skip_reason {
        said.push(reason.to_string());
    }
    if let Some(by) = &step.resolved_by {
        said.push(format!("{by} stood in"));
    }
    if !step.blocked_by.is_empty() {
        let names: Vec<&str> = step.blocked_by.iter().map(|id| id.as_str()).collect();
        said.push(format!("blocked by {}", names.join(", ")));
    }
    if step.reused {
        said.push("taken over".to_owned());
    }
    if step.held {
        said.push("holds the run".to_owned());
    }
    if let Some(error) = &step.error {
        said.push(format!("{} [{}]", error.message, error.code));
    }
    said.join("; ")
}
