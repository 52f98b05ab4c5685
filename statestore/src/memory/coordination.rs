//! Leases, claims and who has acted.

use async_trait::async_trait;
use engine_core::port::store::{ClaimRequest, Coordination, Fence, LeaseRequest, RunRecord, UnclaimRequest};
use engine_core::{Result, RunId, Timestamp};

use super::{MemoryStore, Run};
use crate::content;
use crate::page;

#[async_trait]
impl Coordination for MemoryStore {
    async fn lease(&self, request: LeaseRequest) -> Result<Fence> {
        content::check_name("holder", &request.holder)?;
        let now = self.now();
        let mut state = self.state();
        let run = state.run(&request.run_id)?;
        let until = now.plus_millis(request.duration_ms);
        match &run.lease {
            Some((holder, _)) if *holder == request.holder => {}
            Some((holder, until)) if *until > now => {
                return Err(content::lease_held(&request.run_id, holder, *until));
            }
            _ => run.head.fence += 1,
        }
        run.lease = Some((request.holder, until));
        Ok(Fence(run.head.fence))
    }

    async fn renew(&self, holder: &str, duration_ms: u64) -> Result<u64> {
        let until = self.now().plus_millis(duration_ms);
        let mut renewed = 0;
        for run in self.state().runs.values_mut().filter(|run| !run.head.ended) {
            if let Some(lease) = run.lease.as_mut().filter(|(held_by, _)| held_by == holder) {
                lease.1 = until;
                renewed += 1;
            }
        }
        Ok(renewed)
    }

    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()> {
        if let Ok(run) = self.state().run(run_id)
            && run.head.fence == fence.0
        {
            run.lease = None;
        }
        Ok(())
    }

    async fn claim(&self, request: ClaimRequest) -> Result<()> {
        content::check_name("worker", &request.worker)?;
        let now = self.now();
        let mut state = self.state();
        let run = state.run(&request.run_id)?;
        let key = (request.step_id.clone(), request.attempt);
        if let Some((worker, until)) = run.claims.get(&key)
            && *worker != request.worker
            && *until > now
        {
            return Err(content::claim_held(&request, worker, *until));
        }
        run.claims.insert(key, (request.worker, now.plus_millis(request.duration_ms)));
        Ok(())
    }

    async fn unclaim(&self, request: UnclaimRequest) -> Result<()> {
        let key = (request.step_id, request.attempt);
        if let Ok(run) = self.state().run(&request.run_id)
            && run.claims.get(&key).is_some_and(|(worker, _)| *worker == request.worker)
        {
            run.claims.remove(&key);
        }
        Ok(())
    }

    async fn acted(&self, run_id: &RunId, seq: u64) -> Result<()> {
        if let Ok(run) = self.state().run(run_id) {
            run.acted_seq = run.acted_seq.max(seq.min(run.head.last_seq));
            if let Some(next) = run.after(run.acted_seq).first() {
                run.ahead_since = next.emitted_at;
            }
            run.open &= !(run.head.ended && run.acted_seq >= run.head.last_seq);
        }
        Ok(())
    }

    async fn neglected(&self, since: Timestamp, limit: usize) -> Result<Vec<RunRecord>> {
        let neglected = |run: &Run| run.open && run.head.last_seq > run.acted_seq && run.ahead_since < since;
        Ok(self.oldest(limit, neglected))
    }

    async fn unattended(&self, limit: usize) -> Result<Vec<RunRecord>> {
        let now = self.now();
        let free = |run: &Run| run.lease.as_ref().is_none_or(|(_, until)| *until <= now);
        Ok(self.oldest(limit, |run| !run.head.ended && run.head.last_seq > run.acted_seq && free(run)))
    }

    async fn identify(&self, run_id: &RunId) -> Result<RunRecord> {
        self.state().run(run_id).map(|run| run.record())
    }
}

impl MemoryStore {
    fn oldest(&self, limit: usize, wanted: impl Fn(&Run) -> bool) -> Vec<RunRecord> {
        let state = self.state();
        let mut found: Vec<&Run> = state.runs.values().filter(|run| wanted(run)).collect();
        found.sort_by_key(|run| run.head.run_no);
        found.into_iter().take(limit.min(page::ROWS)).map(Run::record).collect()
    }
}
