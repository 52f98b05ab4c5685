//! Finding runs whose workflow is gone: ended with Temporal's own tools, deleted, or never started because nobody heard
//! the answer. The log gets the end with its cause, or the workflow its start.
//!
//! Two looks. Often: which workflows of ours have closed lately, as Temporal lists them. Now and then: which runs of the
//! store have no open workflow.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use engine_core::decider::AttemptRef;
use engine_core::port::store::RunRecord;
use engine_core::{Code, Result, RunId};
use futures_util::StreamExt as _;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::{
    WorkflowDescribeOptions, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowListOptions,
};
use tokio_util::sync::CancellationToken;

use crate::activities::Desk;
use crate::carried::{Ask, Errand, GivenUp};
use crate::driver::WORKFLOW_TYPE;
use crate::engine::Temporal;
use crate::turn;

/// Runs of the store that are looked at in one go.
const PAGE: usize = 10_000;
/// Temporal's list may lag behind by so much.
const LAG: Duration = Duration::from_secs(60);
/// A run that is younger than this is being started by whoever made it, in milliseconds.
const YOUNG_MS: u64 = 10_000;

/// Looks for lost runs until the engine stops.
pub(crate) async fn attend(engine: Temporal, desk: Desk, every: Duration, stopping: CancellationToken) {
    let mut since = SystemTime::now();
    let mut looks: u32 = 0;
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let now = SystemTime::now();
        // What is in the store and not in Temporal is rare and dear to find: every fourth look.
        let looked = closed_lately(&engine, &desk, since).await;
        let searched = if looks.is_multiple_of(4) { without_workflow(&engine, &desk).await } else { Ok(()) };
        looks = looks.wrapping_add(1);
        match looked.and(searched) {
            Ok(()) => since = now.checked_sub(LAG).unwrap_or(now),
            Err(error) => tracing::warn!(%error, "lost runs cannot be looked for now"),
        }
    }
}

/// Workflows of ours that closed without their run's end in the log.
async fn closed_lately(engine: &Temporal, desk: &Desk, since: SystemTime) -> Result<()> {
    let since = since.checked_sub(LAG).unwrap_or(since);
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let since = engine_core::Timestamp::from_millis(i64::try_from(since).unwrap_or(i64::MAX));
    let query = format!(
        "WorkflowType = '{WORKFLOW_TYPE}' AND TaskQueue = '{}' AND ExecutionStatus IN ('Terminated', 'Canceled', \
         'TimedOut', 'Failed') AND CloseTime >= '{since}'",
        engine.task_queue().replace('\'', "''")
    );
    let mut closed = std::pin::pin!(engine.client().list_workflows(&query, WorkflowListOptions::default()));
    while let Some(workflow) = closed.next().await {
        let Ok(workflow) = workflow else { break };
        let Ok(run_id) = RunId::new(workflow.id()) else { continue };
        match desk.worker.store().identify(&run_id).await {
            Ok(record) if !record.status.is_terminal() => look_after(engine, desk, &record).await?,
            Ok(_) => {}
            // Of another store that shares the task queue.
            Err(error) if error.code() == Code::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Runs of the store that have no open workflow.
async fn without_workflow(engine: &Temporal, desk: &Desk) -> Result<()> {
    let live = desk.worker.store().unattended(PAGE).await?;
    if live.is_empty() {
        return Ok(());
    }
    let query = format!("WorkflowType = '{WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'");
    let mut open = HashSet::new();
    let mut listed = std::pin::pin!(engine.client().list_workflows(&query, WorkflowListOptions::default()));
    while let Some(workflow) = listed.next().await {
        let Ok(workflow) = workflow else { break };
        open.insert(workflow.id().to_owned());
    }
    let now = desk.worker.time().now();
    for record in live {
        let young = now.millis_since(record.created_at) < YOUNG_MS;
        if !young && !open.contains(record.run_id.as_str()) {
            look_after(engine, desk, &record).await?;
        }
    }
    Ok(())
}

/// Asks Temporal about one run, and does what follows.
async fn look_after(engine: &Temporal, desk: &Desk, record: &RunRecord) -> Result<()> {
    let described = engine.handle(&record.run_id).describe(WorkflowDescribeOptions::default()).await;
    match described {
        Ok(description) => match lost(&description) {
            None => Ok(()),
            Some(reason) => bury(desk, record, &reason).await,
        },
        // It was never started, or it was deleted. One that has started has written so into its log.
        Err(WorkflowInteractionError::NotFound(_)) if record.engine_run_ref.is_none() => {
            tracing::info!(run_id = %record.run_id, "a run has no workflow yet; it is started");
            engine.start_workflow(&record.tenant_id, &record.run_id).await
        }
        Err(WorkflowInteractionError::NotFound(_)) => {
            bury(desk, record, "its workflow was deleted in Temporal").await
        }
        Err(error) => {
            tracing::warn!(run_id = %record.run_id, %error, "a run cannot be looked up in Temporal for now");
            Ok(())
        }
    }
}

/// Why a workflow does not drive its run any more.
fn lost(description: &WorkflowExecutionDescription) -> Option<String> {
    let how = match description.status() {
        WorkflowExecutionStatus::Terminated => "was terminated",
        WorkflowExecutionStatus::Canceled => "was cancelled",
        WorkflowExecutionStatus::TimedOut => "timed out",
        WorkflowExecutionStatus::Failed => "failed",
        WorkflowExecutionStatus::Completed => "completed without its run",
        _ => return None,
    };
    Some(format!("its workflow {how} in Temporal"))
}

/// Ends a run that nobody drives any more: it is cancelled, with the cause. What Temporal had in flight is given up, and
/// what has to be undone is undone here.
async fn bury(desk: &Desk, record: &RunRecord, reason: &str) -> Result<()> {
    tracing::warn!(run_id = %record.run_id, reason, "a run is cancelled: nobody drives it any more");
    loop {
        let Some(history) = turn::load(&desk.worker, &record.tenant_id, &record.run_id).await? else {
            return Ok(());
        };
        let before = history.run().state().watermark();
        let actions = history.run().actions();
        if actions.finish.is_some() {
            return Ok(());
        }
        if let Some(task) = actions.compensate {
            let errand = Errand {
                tenant_id: record.tenant_id.clone(),
                run_id: record.run_id.clone(),
                step_id: task.attempt.step.clone(),
                attempt: task.attempt.attempt,
                undo: Some(task.try_number),
            };
            if let Some(at) = task.not_before {
                desk.worker.time().sleep_until(at).await;
            }
            desk.undo_here(&errand, task.try_number).await;
            continue;
        }
        let in_flight = actions.dispatch.iter().map(|task| &task.attempt).chain(&actions.cancel);
        let give_up = |attempt: &AttemptRef| GivenUp::new(attempt, false, None);
        let stops = actions.dispatch.is_empty();
        let ask = Ask {
            of: Some((record.tenant_id.clone(), record.run_id.clone())),
            cancelled: Some(reason.to_owned()),
            // Given up before the CANCEL they would count as failures.
            given_up: if stops { in_flight.map(give_up).collect() } else { Vec::new() },
            ..Ask::default()
        };
        turn::take(&desk.worker, &desk.stops, ask).await?;
        let after = turn::load(&desk.worker, &record.tenant_id, &record.run_id).await?;
        let stuck = after.is_some_and(|history| history.run().state().watermark() == before);
        if stuck {
            tracing::error!(run_id = %record.run_id, "a lost run cannot be brought to its end");
            return Ok(());
        }
    }
}
