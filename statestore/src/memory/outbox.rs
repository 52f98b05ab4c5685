//! Events on their way to the bus.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use engine_core::port::store::{
    ClaimOutbox, DeadLetter, Delivered, FailedDelivery, NextTry, Outbox, OutboxEntry,
};
use engine_core::{Result, RunId, Timestamp};

use super::{MemoryStore, State};
use crate::{content, page};

/// What waits, and what was given up, oldest first.
#[derive(Default)]
pub(super) struct Rows {
    waiting: HashMap<RunId, Waiting>,
    runs: HashMap<RunId, RunState>,
    dead: Vec<Dead>,
    /// So many times a run went to the end of the queue.
    queued: u64,
}

/// A run with events that wait.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// Its place in the queue.
    turn: u64,
    /// Its places in the log, in order.
    events: BTreeSet<u64>,
}

/// A run that a relay has or that waits after a failure.
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
    pub(super) fn add(&mut self, run_id: &RunId, run_seq: u64) {
        self.queued += 1;
        let turn = self.queued;
        let waiting = self.waiting.entry(run_id.clone()).or_insert(Waiting { turn, ..Waiting::default() });
        waiting.events.insert(run_seq);
    }

    pub(super) fn has(&self, run_id: &RunId) -> bool {
        self.waiting.contains_key(run_id)
    }

    pub(super) fn forget(&mut self, run_id: &RunId) {
        self.waiting.remove(run_id);
        self.dead.retain(|dead| dead.run_id != *run_id);
        self.runs.remove(run_id);
    }

    /// Takes events out; a run of which more waits goes to the end of the queue. Whether the last of them was there.
    fn delivered(&mut self, run_id: &RunId, up_to_seq: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(run_id) else { return false };
        let there = waiting.events.contains(&up_to_seq);
        waiting.events.retain(|run_seq| *run_seq > up_to_seq);
        self.queued += 1;
        waiting.turn = self.queued;
        if waiting.events.is_empty() {
            self.waiting.remove(run_id);
        }
        there
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
        let mut queue: Vec<(&RunId, &Waiting)> =
            state.outbox.waiting.iter().filter(|(run_id, _)| free(run_id)).collect();
        queue.sort_unstable_by_key(|(_, waiting)| waiting.turn);
        let rows: Vec<(RunId, u64)> = queue
            .into_iter()
            .flat_map(|(run_id, waiting)| waiting.events.iter().map(|run_seq| (run_id.clone(), *run_seq)))
            .take(request.limit.min(page::ROWS))
            .collect();
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
                if outbox.delivered(&failed.run_id, failed.run_seq) {
                    let (run_id, run_seq) = (failed.run_id, failed.run_seq);
                    let error = content::without_nul(&failed.error);
                    outbox.dead.push(Dead { run_id, run_seq, failures, error, given_up_at: now });
                }
            }
        }
        Ok(())
    }

    async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>> {
        let state = self.state();
        let letters = state.outbox.dead.iter().take(limit.min(page::ROWS)).filter_map(|dead| {
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
        for letter in dead {
            // Not while a relay has the run: it would acknowledge what it was never given.
            let claimed = outbox.runs.get(&letter.run_id).is_some_and(|run| run.claimed_until > now);
            if !claimed && run_id.is_none_or(|run_id| letter.run_id == *run_id) {
                outbox.add(&letter.run_id, letter.run_seq);
                replayed += 1;
            } else {
                outbox.dead.push(letter);
            }
        }
        Ok(replayed)
    }
}
