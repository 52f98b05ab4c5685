//! `list`: runs, newest first.

use engine_core::PlanId;
use engine_core::machine::RunStatus;
use engine_core::port::store::RunRecord;
use serde_json::json;

use super::arguments::ListArguments;
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::{Tone, duration};
use super::session::Session;
use crate::facade::read::ListFilter;

pub(super) async fn list(session: &Session, arguments: ListArguments) -> Result<Exit> {
    let statuses = arguments.status.iter().map(|text| read_status(text)).collect::<Result<Vec<_>>>()?;
    let plan_id = arguments.plan.as_deref().map(PlanId::new).transpose()?;
    let mut runs: Vec<RunRecord> = Vec::new();
    if !session.nothing_yet() {
        let drivetrain = session.connect().await?;
        let mut after = None;
        while runs.len() < arguments.limit {
            let filter = ListFilter {
                statuses: statuses.clone(),
                plan_id: plan_id.clone(),
                after,
                limit: arguments.limit - runs.len(),
                ..ListFilter::default()
            };
            let page = drivetrain.list(filter).await?;
            runs.extend(page.runs);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let output = session.output;
    if arguments.json {
        runs.iter().for_each(|run| output.json(&as_json(run)));
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        output.line("no runs; start one with: drivetrain run PLAN");
        return Ok(Exit::Success);
    }
    let row = |run: &RunRecord| {
        let took =
            run.ended_at.map_or_else(String::new, |ended| duration(ended.millis_since(run.created_at)));
        vec![
            (Tone::Plain, run.run_id.to_string()),
            (tone(run.status), run.status.to_string()),
            (Tone::Plain, format!("{} {}", run.plan_id, run.plan_version)),
            (Tone::Quiet, run.created_at.to_string()),
            (Tone::Plain, took),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    output.table(&["RUN", "STATUS", "PLAN", "MADE", "TOOK"], &rows);
    Ok(Exit::Success)
}

fn read_status(text: &str) -> Result<RunStatus> {
    RunStatus::parse(&text.to_uppercase()).ok_or_else(|| {
        let known: Vec<&str> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
        Complaint::usage(format!("there is no status {text:?}"))
            .hint(format!("use one of {}", known.join(", ")))
    })
}

pub(super) fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Completed => Tone::Good,
        RunStatus::Failed => Tone::Bad,
        RunStatus::Paused | RunStatus::Cancelled => Tone::Careful,
        RunStatus::Pending | RunStatus::Approved | RunStatus::Running => Tone::Plain,
    }
}

fn as_json(run: &RunRecord) -> serde_json::Value {
    json!({
        "runId": run.run_id,
        "tenantId": run.tenant_id,
        "planId": run.plan_id,
        "planVersion": run.plan_version,
        "planHash": run.plan_hash,
        "status": run.status,
        "lastEventSeq": run.last_event_seq,
        "engineRunRef": run.engine_run_ref,
        "createdAt": run.created_at,
        "endedAt": run.ended_at,
    })
}
