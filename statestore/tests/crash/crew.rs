//! Several authors at work in this process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use engine_core::RunId;
use engine_core::port::StateStore;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::acknowledgement::Acknowledgement;
use super::author::{Author, Manner, Refusal, Refusals, View};
use super::calls::TASKS;
use super::ledger::Ledger;
use super::patience::until;

/// Authors that append until they are told to stop.
#[derive(Debug)]
pub(crate) struct Crew {
    generation: u32,
    members: Vec<Member>,
    refusals: Refusals,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Member {
    calls: Arc<AtomicU32>,
    task: JoinHandle<Vec<Acknowledgement>>,
}

impl Crew {
    /// Puts a crew to work; it shares the run `shared`, about which nobody knows anything yet.
    pub(crate) fn start(
        runtime: &Runtime,
        store: &Arc<dyn StateStore>,
        manner: Manner,
        generation: u32,
        shared: &RunId,
    ) -> Self {
        let (refusals, stop) = (Refusals::default(), Arc::<AtomicBool>::default());
        let member = |task| {
            let known = (shared.clone(), View::default());
            let mut author =
                Author::new(Arc::clone(store), manner, (generation, task), known).telling(&refusals);
            let calls = Arc::<AtomicU32>::default();
            let (counted, stop) = (Arc::clone(&calls), Arc::clone(&stop));
            let task = runtime.spawn(async move {
                let mut acknowledged = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    acknowledged.push(author.call().await);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                acknowledged
            });
            Member { calls, task }
        };
        let members = (0..TASKS).map(member).collect();
        Self { generation, members, refusals, stop }
    }

    /// How many calls of each member were acknowledged.
    pub(crate) fn calls(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.calls.load(Ordering::Relaxed)).collect()
    }

    /// Waits until each member has had so many calls acknowledged since.
    pub(crate) fn until_calls(&self, since: &[u32], more: u32) {
        until(&format!("{more} more acknowledgements for each task of crew {}", self.generation), || {
            let ended = self.members.iter().any(|member| member.task.is_finished());
            assert!(!ended, "a task of crew {} has failed; its message is above", self.generation);
            self.calls().iter().zip(since).all(|(now, since)| *now >= since + more)
        });
    }

    /// Waits until calls of each member were refused so often, not counting the first `since` refusals.
    pub(crate) fn until_refused(&self, since: usize, times: usize) {
        until(&format!("{times} refusals for each task of crew {}", self.generation), || {
            let refusals = self.refusals().split_off(since);
            let of = |task| refusals.iter().filter(|refusal| refusal.call.task == task).count();
            (0..TASKS).all(|task| of(task) >= times)
        });
    }

    /// All calls that were not acknowledged in time.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets everybody finish the call at hand, and enters all that was acknowledged into the ledger.
    pub(crate) fn finish(self, runtime: &Runtime, ledger: &mut Ledger) -> Vec<Refusal> {
        self.stop.store(true, Ordering::Relaxed);
        let refusals = self.refusals.clone();
        for member in self.members {
            let acknowledged =
                runtime.block_on(super::patience::soon("the last calls of a crew", member.task));
            acknowledged.expect("no task failed").into_iter().for_each(|call| ledger.acknowledge(call));
        }
        ledger.close(self.generation);
        refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Nobody waited longer than the budget and a second.
pub(crate) fn refused_in_time(refusals: &[Refusal], budget: Duration) {
    for refusal in refusals {
        let bound = budget + Duration::from_secs(1);
        assert!(refusal.took <= bound, "{} was refused after {:?}", refusal.call, refusal.took);
        assert!(refusal.took >= budget / 2, "{} was not waited for: {:?}", refusal.call, refusal.took);
    }
}
