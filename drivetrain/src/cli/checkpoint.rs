//! `checkpoint`: stored states of a run.

use engine_core::CheckpointId;
use engine_core::port::store::CheckpointRecord;
use serde_json::json;

use super::arguments::CheckpointCommand;
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::origin::Launch;
use super::output::{Tone, count, size};
use super::session::Session;

pub(super) async fn checkpoint(session: &Session, command: CheckpointCommand) -> Result<Exit> {
    let output = session.output;
    match command {
        CheckpointCommand::List { run, json } => {
            let drivetrain = session.connect().await?;
            let record = session.run(&drivetrain, &run.run).await?;
            let checkpoints = drivetrain.checkpoints(&record.run_id).await?;
            if json {
                checkpoints.iter().for_each(|checkpoint| output.json(&as_json(checkpoint)));
            } else if checkpoints.is_empty() {
                output.line("the run has no checkpoints");
            } else {
                let row = |checkpoint: &CheckpointRecord| {
                    vec![
                        (Tone::Plain, checkpoint.checkpoint_id.to_string()),
                        (Tone::Plain, checkpoint.up_to_seq.to_string()),
                        (Tone::Plain, size(checkpoint.size_bytes)),
                        (Tone::Quiet, checkpoint.created_at.to_string()),
                    ]
                };
                let rows: Vec<_> = checkpoints.iter().map(row).collect();
                output.table(&["CHECKPOINT", "UP TO EVENT", "SIZE", "MADE"], &rows);
            }
        }
        CheckpointCommand::Create { run, name } => {
            let drivetrain = session.connect().await?;
            let record = session.run(&drivetrain, &run.run).await?;
            let id = name.map(CheckpointId::new).transpose()?;
            let checkpoint = drivetrain.checkpoint(&record.run_id, id).await?;
            output.line(format!(
                "checkpoint {} up to event {}",
                checkpoint.checkpoint_id, checkpoint.up_to_seq
            ));
        }
        CheckpointCommand::Restore { run, name, launch } => {
            let mut launch = Launch::new(session, launch).await?;
            let record = session.run(&launch.drivetrain, &run.run).await?;
            let id = match name {
                Some(name) => CheckpointId::new(name)?,
                None => newest(&launch, &record.run_id).await?,
            };
            let started = launch.drivetrain.restore(&record.run_id, id.clone()).await?;
            return launch
                .attend(session, &started, &format!("from checkpoint {id} of {}", record.run_id))
                .await;
        }
        CheckpointCommand::Prune { run, keep } => {
            let drivetrain = session.connect().await?;
            let record = session.run(&drivetrain, &run.run).await?;
            let gone = drivetrain.prune_checkpoints(&record.run_id, keep).await?;
            output.line(format!("{} deleted", count(gone.len(), "checkpoint")));
            gone.iter().for_each(|id| output.line(format!("  {id}")));
        }
    }
    Ok(Exit::Success)
}

async fn newest(launch: &Launch, run_id: &engine_core::RunId) -> Result<CheckpointId> {
    let checkpoints = launch.drivetrain.checkpoints(run_id).await?;
    checkpoints.into_iter().next().map(|checkpoint| checkpoint.checkpoint_id).ok_or_else(|| {
        Complaint::new(Exit::NotFound, format!("run {run_id} has no checkpoints"))
            .hint(format!("make one while it runs: drivetrain checkpoint create {run_id}"))
    })
}

fn as_json(checkpoint: &CheckpointRecord) -> serde_json::Value {
    json!({
        "checkpointId": checkpoint.checkpoint_id,
        "upToSeq": checkpoint.up_to_seq,
        "sizeBytes": checkpoint.size_bytes,
        "sha256": checkpoint.sha256,
        "createdAt": checkpoint.created_at,
    })
}
