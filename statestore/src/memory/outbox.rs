//! Events on their way to the bus.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use engine_core::port::store::{
    ClaimOutbox, DeadLetter, Delivered, FailedDelivery, NextTry, Outbox, OutboxEntry,
};
use engine_core::{Result, RunId, Timestamp};

use super::{MemoryStore, State};
use crate::{content, page};

/// What waits, by position, and the runs that a relay has or that wait after a failure.
#[derive(Default)]
pub(super) struct Rows {
    waiting: BTreeMap<u64, (RunId, u64)>,
    runs: HashMap<RunId, RunState>,
    dead: BTreeMap<u64, Dead>,
}

#[derive(Clone, Debug, Default)]
struct RunState {
    relay: Option<String>,
    claimed_until: Timestamp,
    not_before: Timestamp,
    failures: u32,
    /// The first event that waits; the failures are its.
    first: u64,
}

#[derive(Debug)]
struct Dead {
    run_id: RunId,
    run_seq: u64,
    failures: u32,
    error: String,
    given_up_at: Timestamp,
}

impl Rows {
    pub(super) fn add(&mut self, position: u64, run_id: &RunId, run_seq: u64) {
        self.waiting.insert(position, (run_id.clone(), run_seq));
    }

    pub(super) fn has(&self, run_id: &RunId) -> bool {
        self.waiting.values().any(|(waiting, _)| waiting == run_id)
    }

    pub(super) fn forget(&mut self, run_id: &RunId) {
        self.waiting.retain(|_, (waiting, _)| waiting != run_id);
        self.dead.retain(|_, dead| dead.run_id != *run_id);
        self.runs.remove(run_id);
    }

    fn delivered(&mut self, run_id: &RunId, up_to_seq: u64) {
        self.waiting.retain(|_, (waiting, run_seq)| waiting != run_id || *run_seq > up_to_seq);
    }
}

impl State {
    fn entry(&self, run_id: &RunId, run_seq: u64, failures: u32) -> Option<OutboxEntry> {
        let run = self.runs.get(run_id)?;
        let event = run.after(run_seq - 1).first()?.clone();
        Some(OutboxEntry { tenant_id: run.head.tenant_id.clone(), event, failures })
    }
}

#[async_trait]
impl Outbox for MemoryStore {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<Vec<OutboxEntry>> {
        content::check_name("relay", &request.relay)?;
        let now = self.now();
        let mut state = self.state();
        let free = |run_id: &RunId| {
            let run = state.outbox.runs.get(run_id);
            run.is_none_or(|run| run.claimed_until <= now && run.not_before <= now)
        };
        let limit = request.limit.min(page::ROWS);
        let rows: Vec<(RunId, u64)> =
            state.outbox.waiting.values().filter(|(run_id, _)| free(run_id)).take(limit).cloned().collect();
        let mut entries = Vec::with_capacity(rows.len());
        for (run_id, run_seq) in rows {
            let run = state.outbox.runs.entry(run_id.clone()).or_default();
            // The rows come in order: the first of a run is the one that takes the claim.
            if run.relay.as_ref() != Some(&request.relay) || run.claimed_until <= now {
                run.first = run_seq;
            }
            run.relay = Some(request.relay.clone());
            run.claimed_until = now.plus_millis(request.duration_ms);
            let failures = run.failures;
            entries.extend(state.entry(&run_id, run_seq, failures));
        }
        Ok(entries)
    }

    async fn acknowledge(&self, delivered: Delivered) -> Result<()> {
        let mut state = self.state();
        let relay = state.outbox.runs.get(&delivered.run_id).and_then(|run| run.relay.as_ref());
        if relay == Some(&delivered.relay) {
            state.outbox.delivered(&delivered.run_id, delivered.up_to_seq);
            state.outbox.runs.remove(&delivered.run_id);
        }
        Ok(())
    }

    async fn fail_delivery(&self, failed: FailedDelivery) -> Result<()> {
        let now = self.now();
        let mut guard = self.state();
        let outbox = &mut guard.outbox;
        let Some(run) = outbox.runs.get_mut(&failed.run_id) else { return Ok(()) };
        if run.relay.as_ref() != Some(&failed.relay) {
            return Ok(());
        }
        // Another event than the first one begins anew.
        let failures = if failed.run_seq == run.first { run.failures + 1 } else { 1 };
        let before = failed.run_seq.saturating_sub(1);
        match failed.next {
            NextTry::At(time) => {
                *run = RunState { not_before: time, failures, first: failed.run_seq, ..RunState::default() };
                outbox.delivered(&failed.run_id, before);
            }
            NextTry::Never => {
                outbox.runs.remove(&failed.run_id);
                outbox.delivered(&failed.run_id, before);
                let given_up = (failed.run_id.clone(), failed.run_seq);
                let position =
                    outbox.waiting.iter().find(|(_, row)| **row == given_up).map(|(place, _)| *place);
                if let Some(position) = position {
                    outbox.waiting.remove(&position);
                    let (run_id, run_seq) = given_up;
                    let error = content::without_nul(&failed.error);
                    outbox.dead.insert(position, Dead { run_id, run_seq, failures, error, given_up_at: now });
                }
            }
        }
        Ok(())
    }

    async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>> {
        let state = self.state();
        let letters = state.outbox.dead.values().take(limit.min(page::ROWS)).filter_map(|dead| {
            let OutboxEntry { tenant_id, event, failures } =
                state.entry(&dead.run_id, dead.run_seq, dead.failures)?;
            let (error, given_up_at) = (dead.error.clone(), dead.given_up_at);
            Some(DeadLetter { tenant_id, event, failures, error, given_up_at })
        });
        Ok(letters.collect())
    }

    async fn replay(&self, run_id: Option<&RunId>) -> Result<u64> {
        let now = self.now();
        let mut guard = self.state();
        let outbox = &mut guard.outbox;
        let dead = std::mem::take(&mut outbox.dead);
        let mut replayed = 0;
        for (position, letter) in dead {
            // Not while a relay has the run: it would acknowledge what it was never given.
            let claimed = outbox.runs.get(&letter.run_id).is_some_and(|run| run.claimed_until > now);
            if !claimed && run_id.is_none_or(|run_id| letter.run_id == *run_id) {
                outbox.add(position, &letter.run_id, letter.run_seq);
                replayed += 1;
            } else {
                outbox.dead.insert(position, letter);
            }
        }
        Ok(replayed)
    }
}
