//! The log.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::event::Event;
use engine_core::port::store::{AppendRequest, Appended, EventLog, ReadRequest, StoredEvent};
use engine_core::projection::{ProjectionRecord, ResyncReply, ResyncRequest};
use engine_core::{Result, RunId, TenantId, Timestamp};
use futures_core::stream::BoxStream;

use super::{MemoryStore, Run, State};
use crate::append::{Changes, Placement, PreparedAppend, Ruling, no_such_run, rule};
use crate::wake::ANYWHERE;
use crate::{content, page, tail};

/// How many snapshots of a run are kept.
const SNAPSHOTS: usize = 3;

impl State {
    /// Appends a prepared call.
    pub(super) fn append(&mut self, call: PreparedAppend, now: Timestamp, outbox: bool) -> Result<Appended> {
        let run = self.runs.get_mut(&call.run_id).ok_or_else(|| no_such_run(call.run_id.as_str()))?;
        let placements = match rule(&call, &mut run.head, &mut run.taken) {
            Ruling::Stored(placements) => placements,
            Ruling::Conflict { after } => return Ok(Appended::Conflict(run.after(after).to_vec())),
            Ruling::Refused(error) => return Err(error),
        };
        let mut stored = Vec::with_capacity(placements.len());
        for (entry, placement) in call.entries.into_iter().zip(placements) {
            match placement {
                Placement::New { run_seq, key } => {
                    let mut changes = Changes::default();
                    changes.note(&entry, now);
                    let event = entry.into_event(&run.head, run_seq, key, &call.emitted_by, now);
                    run.keep(event.clone(), changes);
                    if outbox {
                        self.outbox.add(&run.head.run_id, run_seq);
                    }
                    stored.push(StoredEvent { event, fresh: true });
                }
                Placement::Known { run_seq } | Placement::Own { run_seq } => {
                    let event = run.after(run_seq - 1)[0].clone();
                    stored.push(StoredEvent { event, fresh: matches!(placement, Placement::Own { .. }) });
                }
            }
        }
        Ok(Appended::Stored(stored))
    }
}

impl Run {
    /// Adds a stored event and what it changes.
    pub(super) fn keep(&mut self, event: Event, changes: Changes) {
        if self.acted_seq + 1 == event.run_seq {
            self.ahead_since = event.emitted_at;
        }
        self.status = changes.status.unwrap_or(self.status);
        self.ended_at = self.ended_at.or(changes.ended_at);
        self.engine_run_ref = changes.engine_run_ref.or(self.engine_run_ref.take());
        self.events.push(event);
    }
}

#[async_trait]
impl EventLog for MemoryStore {
    async fn append(&self, request: AppendRequest) -> Result<Appended> {
        let call = PreparedAppend::new(request)?;
        let run_id = call.run_id.clone();
        let appended = self.state().append(call, self.now(), self.shared.outbox)?;
        self.shared.wakeups.stored([(&run_id, ANYWHERE)]);
        Ok(appended)
    }

    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>> {
        let mut state = self.state();
        let run = state.run_of(&request.tenant_id, &request.run_id)?;
        let limit = request.limit.min(page::EVENTS);
        Ok(run.after(request.after).iter().take(limit).cloned().collect())
    }

    fn tail(&self, request: ReadRequest) -> BoxStream<'static, Result<Event>> {
        let store = self.clone();
        let read = Box::new(move |request| {
            let store = store.clone();
            Box::pin(async move { store.read(request).await }) as _
        });
        tail::follow(request, &Arc::clone(&self.shared.wakeups), read)
    }

    async fn resync(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        request: ResyncRequest,
    ) -> Result<ResyncReply> {
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        let snapshot: Option<ProjectionRecord> = match request {
            ResyncRequest::Full => None,
            ResyncRequest::FromSnapshot { snapshot_seq } => run
                .snapshots
                .range(..=snapshot_seq)
                .next_back()
                .and_then(|(_, content)| serde_json::from_str(content).ok()),
        };
        let after = snapshot.as_ref().map_or(0, ProjectionRecord::last_event_seq);
        Ok(ResyncReply { snapshot, events: run.after(after).to_vec() })
    }

    async fn keep_snapshot(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        snapshot: &ProjectionRecord,
    ) -> Result<()> {
        let content = content::write_projection(&format!("the snapshot of run {run_id}"), snapshot)?;
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        run.snapshots.insert(snapshot.last_event_seq(), content);
        while run.snapshots.len() > SNAPSHOTS {
            run.snapshots.pop_first();
        }
        Ok(())
    }
}
