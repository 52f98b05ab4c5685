//! Which runs there are.

use async_trait::async_trait;
use engine_core::port::store::{
    CreateRequest, Created, ForgetRequest, ListRequest, RunPage, RunRecord, RunRegistry,
};
use engine_core::{Result, RunId, TenantId};
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::{Connection, Store, broken, rows};
use crate::append::{PreparedRun, no_such_run};
use crate::commit::{CreateJob, LogJob};
use crate::page::{self, ListPlace, limit};
use crate::retry::Failure;

/// Tables whose rows belong to a run, and go with it.
const BELONGING: [&str; 11] = [
    "claims",
    "signals",
    "snapshots",
    "checkpoints",
    "step_progress",
    "outbox_runs",
    "dead_letters",
    "outbox_repeats",
    "events",
    "run_heads",
    "runs",
];

#[async_trait]
impl RunRegistry for Store {
    async fn create(&self, request: CreateRequest) -> Result<Created> {
        let run = PreparedRun::new(request)?;
        self.creating().submit(|reply| LogJob::Create(CreateJob { run, answer: None, reply })).await
    }

    async fn find(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        self.read(move |connection| {
            let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
            Box::pin(async move {
                let sql = format!(
                    "SELECT {} FROM runs r JOIN run_heads h ON h.run_no = r.run_no
                     WHERE r.run_id = $1 AND r.tenant_id = $2",
                    rows::RECORD
                );
                let row = sqlx::query(AssertSqlSafe(sql))
                    .bind(run_id.as_str())
                    .bind(tenant_id.as_str())
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(broken)?;
                rows::record(&row.ok_or_else(|| no_such_run(run_id.as_str()))?)
            })
        })
        .await
    }

    async fn list(&self, request: ListRequest) -> Result<RunPage> {
        let after = request.after.as_ref().map(ListPlace::from_key).transpose()?;
        let limit = limit(request.limit, page::ROWS);
        if limit == 0 {
            return Ok(RunPage::default());
        }
        self.read(move |connection| {
            let (request, after) = (request.clone(), after.clone());
            Box::pin(async move { list(connection, &request, after.as_ref(), limit).await })
        })
        .await
    }

    async fn forget(&self, request: ForgetRequest) -> Result<Vec<RunId>> {
        let gone = self.write_slowly(move |connection, _| Box::pin(forget(connection, request))).await?;
        self.shared.wakeups.deleted();
        Ok(gone)
    }
}

async fn list(
    connection: &mut Connection,
    request: &ListRequest,
    after: Option<&ListPlace>,
    limit: i64,
) -> Result<RunPage, Failure> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(rows::RECORD);
    query.push(" FROM runs r JOIN run_heads h ON h.run_no = r.run_no WHERE r.tenant_id = ");
    query.push_bind(request.tenant_id.as_str());
    if !request.statuses.is_empty() {
        query.push(" AND r.status IN (");
        let mut statuses = query.separated(", ");
        for status in &request.statuses {
            statuses.push_bind(status.as_str());
        }
        query.push(")");
    }
    if let Some(plan_id) = &request.plan_id {
        query.push(" AND r.plan_id = ").push_bind(plan_id.as_str());
    }
    if let Some(from) = request.from {
        query.push(" AND r.created_at >= ").push_bind(from.as_millis());
    }
    if let Some(until) = request.until {
        query.push(" AND r.created_at < ").push_bind(until.as_millis());
    }
    if let Some(after) = after {
        query.push(" AND (r.created_at, r.run_id) < (").push_bind(after.created_at.as_millis());
        query.push(", ").push_bind(after.run_id.as_str()).push(")");
    }
    // One more than asked for tells whether there is a next page.
    query.push(" ORDER BY r.created_at DESC, r.run_id DESC LIMIT ").push_bind(limit + 1);
    let found = query.build().fetch_all(&mut *connection).await.map_err(broken)?;
    let mut runs = found.iter().map(rows::record).collect::<Result<Vec<RunRecord>, Failure>>()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = runs.len() > limit;
    runs.truncate(limit);
    let place = |run: &RunRecord| ListPlace { created_at: run.created_at, run_id: run.run_id.clone() };
    let next = runs.last().filter(|_| more).map(|run| place(run).to_key());
    Ok(RunPage { runs, next })
}

async fn forget(connection: &mut Connection, request: ForgetRequest) -> Result<Vec<RunId>, Failure> {
    let found = sqlx::query(
        "SELECT r.run_no, r.run_id FROM runs r JOIN run_heads h ON h.run_no = r.run_no
         WHERE r.ended_at < $1 AND h.waiting_since IS NULL
         AND NOT EXISTS (SELECT 1 FROM runs d WHERE d.source_run_id = r.run_id AND d.tenant_id = r.tenant_id)
         ORDER BY r.ended_at LIMIT $2",
    )
    .bind(request.ended_before.as_millis())
    .bind(limit(request.limit, page::ROWS))
    .fetch_all(&mut *connection)
    .await
    .map_err(broken)?;
    let mut gone = Vec::with_capacity(found.len());
    for row in found {
        let run_no: i64 = row.try_get(0).map_err(broken)?;
        for table in BELONGING {
            let sql = format!("DELETE FROM {table} WHERE run_no = $1");
            sqlx::query(AssertSqlSafe(sql)).bind(run_no).execute(&mut *connection).await.map_err(broken)?;
        }
        gone.push(RunId::new(row.try_get::<&str, _>(1).map_err(broken)?)?);
    }
    Ok(gone)
}
