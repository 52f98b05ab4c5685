//! Which runs there are.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::port::store::{
    CreateRequest, Created, ForgetRequest, ListRequest, RunPage, RunRecord, RunRegistry,
};
use engine_core::{Code, Error, Result, RunId, TenantId};

use super::{MemoryStore, Run};
use crate::append::{Changes, Holder, PreparedRun, Taken};
use crate::page::{self, ListPlace};

#[async_trait]
impl RunRegistry for MemoryStore {
    async fn create(&self, request: CreateRequest) -> Result<Created> {
        let prepared = PreparedRun::new(request)?;
        let now = self.now();
        let mut state = self.state();
        if let Some(run_id) = state.by_identity.get(&prepared.identity()) {
            return Ok(Created { run_id: run_id.clone(), fresh: false, queued: None });
        }
        state.made += 1;
        let head = prepared.head(i64::try_from(state.made).unwrap_or(i64::MAX));
        let (run_id, identity) = (prepared.run_id.clone(), prepared.identity());
        let Body::RunQueued(queued) = &prepared.queued.draft.body else {
            return Err(Error::new(Code::Internal, "a run begins with RunQueued"));
        };
        let plan_ref = queued.plan_ref.clone();
        let holder = Holder { run_seq: 1, event_id: prepared.queued.event_id };
        let taken = Taken::from([(prepared.queued.takes.clone(), holder)]);
        let key = prepared.queued.key(&head);
        let event = prepared.queued.into_event(&head, 1, key, &prepared.emitted_by, now);
        let mut run = Run {
            head,
            taken,
            events: Vec::new(),
            identity: prepared.identity.clone(),
            plan_ref,
            source_run_id: prepared.source_run_id,
            status: RunStatus::Pending,
            engine_run_ref: None,
            created_at: now,
            ended_at: None,
            ahead_since: now,
            acted_seq: 0,
            open: true,
            lease: prepared.lease.map(|lease| (lease.holder, now.plus_millis(lease.duration_ms))),
            claims: HashMap::new(),
            signals: Vec::new(),
            snapshots: BTreeMap::new(),
            checkpoints: Vec::new(),
            progress: BTreeMap::new(),
        };
        let queued = event.clone();
        run.keep(event, Changes::default());
        state.by_identity.insert(identity, run_id.clone());
        state.runs.insert(run_id.clone(), run);
        if self.shared.outbox {
            state.outbox.add(&run_id, 1);
        }
        Ok(Created { run_id, fresh: true, queued: Some(Box::new(queued)) })
    }

    async fn find(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<RunRecord> {
        Ok(self.state().run_of(tenant_id, run_id)?.record())
    }

    async fn list(&self, request: ListRequest) -> Result<RunPage> {
        let after = request.after.as_ref().map(ListPlace::from_key).transpose()?;
        let place = |run: &Run| ListPlace { created_at: run.created_at, run_id: run.head.run_id.clone() };
        let state = self.state();
        let mut found: Vec<&Run> = state
            .runs
            .values()
            .filter(|run| {
                run.head.tenant_id == request.tenant_id
                    && (request.statuses.is_empty() || request.statuses.contains(&run.status))
                    && request.plan_id.as_ref().is_none_or(|plan_id| run.plan_ref.plan_id == *plan_id)
                    && request.from.is_none_or(|from| run.created_at >= from)
                    && request.until.is_none_or(|until| run.created_at < until)
                    && after.as_ref().is_none_or(|after| place(run) < *after)
            })
            .collect();
        found.sort_by_key(|run| std::cmp::Reverse(place(run)));
        let limit = request.limit.min(page::ROWS);
        let more = limit > 0 && found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|run| place(run).to_key());
        Ok(RunPage { runs: found.into_iter().map(Run::record).collect(), next })
    }

    async fn forget(&self, request: ForgetRequest) -> Result<Vec<RunId>> {
        let mut state = self.state();
        let is_needed = |run: &Run| {
            let uses = |other: &Run| {
                other.source_run_id.as_ref() == Some(&run.head.run_id)
                    && other.head.tenant_id == run.head.tenant_id
            };
            state.runs.values().any(uses) || state.outbox.has(&run.head.run_id)
        };
        let mut old: Vec<&Run> = state
            .runs
            .values()
            .filter(|run| run.ended_at.is_some_and(|ended_at| ended_at < request.ended_before))
            .filter(|run| !is_needed(run))
            .collect();
        old.sort_by_key(|run| run.ended_at);
        let gone: Vec<RunId> =
            old.iter().take(request.limit.min(page::ROWS)).map(|run| run.head.run_id.clone()).collect();
        for run_id in &gone {
            if let Some(run) = state.runs.remove(run_id) {
                state.by_identity.remove(&(run.head.tenant_id, run.identity));
            }
            state.outbox.forget(run_id);
        }
        Ok(gone)
    }
}
