//! Signals on their way to the driver.

use async_trait::async_trait;
use engine_core::port::store::SignalInbox;
use engine_core::signal::Signal;
use engine_core::{Result, RunId, SignalId, TenantId};
use futures_core::stream::BoxStream;

use super::{MemoryStore, Run};
use crate::{content, page};

impl Run {
    fn is_decided(&self, signal_id: &SignalId) -> bool {
        self.taken.contains_key(content::decision_slot(signal_id).as_str())
    }
}

#[async_trait]
impl SignalInbox for MemoryStore {
    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()> {
        content::write_signal(&signal)?;
        let mut state = self.state();
        let run = state.run_of(tenant_id, run_id)?;
        let known = run.signals.iter().any(|known| known.signal_id == signal.signal_id);
        if known || run.is_decided(&signal.signal_id) {
            return Ok(());
        }
        run.signals.push(signal);
        drop(state);
        self.shared.wakeups.arrived(std::slice::from_ref(run_id));
        Ok(())
    }

    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>> {
        let mut state = self.state();
        let Ok(run) = state.run(run_id) else { return Ok(Vec::new()) };
        Ok(run.signals.iter().filter(|signal| !run.is_decided(&signal.signal_id)).cloned().collect())
    }

    async fn awaited(&self, limit: usize) -> Result<Vec<RunId>> {
        let state = self.state();
        let awaited = |run: &&Run| run.signals.iter().any(|signal| !run.is_decided(&signal.signal_id));
        let mut waiting: Vec<&Run> = state.runs.values().filter(awaited).collect();
        waiting.sort_by_key(|run| run.head.run_no);
        Ok(waiting.into_iter().take(limit.min(page::ROWS)).map(|run| run.head.run_id.clone()).collect())
    }

    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()> {
        if let Ok(run) = self.state().run(run_id) {
            run.signals.retain(|signal| signal.signal_id != *signal_id);
        }
        Ok(())
    }

    fn arrivals(&self) -> BoxStream<'static, RunId> {
        self.shared.wakeups.arrivals()
    }
}
