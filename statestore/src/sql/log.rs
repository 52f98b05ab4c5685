//! The log: appending goes to the one writer, reading to the readers.

use async_trait::async_trait;
use engine_core::event::Event;
use engine_core::port::store::{AppendRequest, Appended, EventLog, ReadRequest};
use engine_core::projection::{ProjectionRecord, ResyncReply, ResyncRequest};
use engine_core::{Result, RunId, TenantId};
use futures_core::stream::BoxStream;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Connection, Store, broken, rows};
use crate::append::{PreparedAppend, no_such_run};
use crate::commit::{AppendJob, LogJob};
use crate::page::{self, limit, place};
use crate::retry::Failure;
use crate::stored::{EVENT, Facts};
use crate::{content, tail};

/// How many snapshots of a run are kept.
const SNAPSHOTS: i64 = 3;

#[async_trait]
impl EventLog for Store {
    async fn append(&self, request: AppendRequest) -> Result<Appended> {
        let call = PreparedAppend::new(request)?;
        let job = |reply| LogJob::Append(AppendJob { call, checkpoint: None, answer: None, reply });
        self.shared.queue.submit(job).await
    }

    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>> {
        let known = self.shared.facts.get(&request.tenant_id, &request.run_id);
        let (facts, events) = self
            .read(move |connection| {
                let (request, known) = (request.clone(), known.clone());
                Box::pin(async move {
                    let most = limit(request.limit, page::EVENTS);
                    if let Some(known) = known {
                        let events = page_of(connection, &known, request.after, most).await?;
                        // No event may also mean that the run is gone.
                        if !events.is_empty() {
                            return Ok((known, events));
                        }
                    }
                    let facts = facts(connection, &request.tenant_id, &request.run_id).await?;
                    let events = page_of(connection, &facts, request.after, most).await?;
                    Ok((facts, events))
                })
            })
            .await?;
        self.shared.facts.keep(&facts);
        Ok(events)
    }

    fn tail(&self, request: ReadRequest) -> BoxStream<'static, Result<Event>> {
        let store = self.clone();
        let read = Box::new(move |request| {
            let store = store.clone();
            Box::pin(async move { EventLog::read(&store, request).await }) as _
        });
        tail::follow(request, &self.shared.wakeups, read)
    }

    async fn resync(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        request: ResyncRequest,
    ) -> Result<ResyncReply> {
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        self.read(move |connection| {
            let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                let snapshot = match request {
                    ResyncRequest::Full => None,
                    ResyncRequest::FromSnapshot { snapshot_seq } => {
                        snapshot(connection, facts.run_no, snapshot_seq).await?
                    }
                };
                let after = snapshot.as_ref().map_or(0, ProjectionRecord::last_event_seq);
                let events = page_of(connection, &facts, after, i64::MAX).await?;
                Ok(ResyncReply { snapshot, events })
            })
        })
        .await
    }

    async fn keep_snapshot(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        snapshot: &ProjectionRecord,
    ) -> Result<()> {
        let content = content::write_projection(&format!("the snapshot of run {run_id}"), snapshot)?;
        let (tenant_id, run_id) = (tenant_id.clone(), run_id.clone());
        let run_seq = place(snapshot.last_event_seq());
        self.write(move |connection, _| {
            let (tenant_id, run_id, content) = (tenant_id.clone(), run_id.clone(), content.clone());
            Box::pin(async move {
                let facts = facts(connection, &tenant_id, &run_id).await?;
                sqlx::query(
                    "INSERT INTO snapshots (run_no, run_seq, content) VALUES ($1, $2, $3)
                     ON CONFLICT (run_no, run_seq) DO UPDATE SET content = excluded.content",
                )
                .bind(facts.run_no)
                .bind(run_seq)
                .bind(content)
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                sqlx::query(
                    "DELETE FROM snapshots WHERE run_no = $1 AND run_seq NOT IN
                     (SELECT run_seq FROM snapshots WHERE run_no = $1 ORDER BY run_seq DESC LIMIT $2)",
                )
                .bind(facts.run_no)
                .bind(SNAPSHOTS)
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }
}

/// What every event of a tenant's run has in common (START-6).
pub(super) async fn facts(
    connection: &mut Connection,
    tenant_id: &TenantId,
    run_id: &RunId,
) -> Result<Facts, Failure> {
    let sql = format!("SELECT {} FROM runs r WHERE r.run_id = $1", rows::FACTS);
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(run_id.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(broken)?;
    match row.as_ref().map(|row| rows::facts(row, 0)).transpose()? {
        Some(facts) if facts.tenant_id == *tenant_id => Ok(facts),
        _ => Err(no_such_run(run_id.as_str()).into()),
    }
}

/// Events of a run after a place, in order.
pub(super) async fn page_of(
    connection: &mut Connection,
    facts: &Facts,
    after: u64,
    limit: i64,
) -> Result<Vec<Event>, Failure> {
    let sql = format!(
        "SELECT {} FROM events e WHERE e.run_no = $1 AND e.run_seq > $2 ORDER BY e.run_seq LIMIT $3",
        EVENT
    );
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(facts.run_no)
        .bind(place(after))
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .map_err(broken)?;
    found.iter().map(|row| rows::event(row, facts)).collect()
}

/// The latest snapshot up to a place. One that this version cannot read counts as none: the log has everything.
async fn snapshot(
    connection: &mut Connection,
    run_no: i64,
    up_to: u64,
) -> Result<Option<ProjectionRecord>, Failure> {
    let row = sqlx::query(
        "SELECT content FROM snapshots WHERE run_no = $1 AND run_seq <= $2 ORDER BY run_seq DESC LIMIT 1",
    )
    .bind(run_no)
    .bind(place(up_to))
    .fetch_optional(&mut *connection)
    .await
    .map_err(broken)?;
    let Some(row) = row else { return Ok(None) };
    let content: &str = row.try_get(0).map_err(broken)?;
    Ok(serde_json::from_str(content).ok())
}
