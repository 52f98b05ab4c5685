//! Somebody who waits for news, from before an outage until after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_core::RunId;
use engine_core::event::Event;
use engine_core::port::StateStore;
use engine_core::port::store::ReadRequest;
use engine_core::signal::{Command, Signal};
use futures_util::StreamExt as _;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::calls::{signal_id, tenant};
use super::patience::{until, until_all};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A signal.
pub(crate) fn resume(id: &str) -> Signal {
    Signal { signal_id: signal_id(id), actor: "ops".into(), reason: None, command: Command::Resume }
}

/// Somebody who follows the logs of some runs and waits for signals.
#[derive(Debug)]
pub(crate) struct Watcher {
    name: &'static str,
    tails: BTreeMap<RunId, Tail>,
    arrived: Arc<Mutex<BTreeSet<RunId>>>,
}

/// What a tail gave.
#[derive(Clone, Debug, Default)]
struct Tail {
    events: Arc<Mutex<Vec<(u64, Uuid)>>>,
    ended: Arc<Mutex<Option<String>>>,
}

impl Watcher {
    /// Begins to wait.
    pub(crate) fn start(
        runtime: &Runtime,
        name: &'static str,
        store: &Arc<dyn StateStore>,
        runs: &[RunId],
    ) -> Self {
        let (arrived, mut arrivals) = (Arc::<Mutex<BTreeSet<RunId>>>::default(), store.arrivals());
        let told = Arc::clone(&arrived);
        runtime.spawn(async move {
            while let Some(run_id) = arrivals.next().await {
                lock(&told).insert(run_id);
            }
        });
        let tails = runs.iter().map(|run_id| (run_id.clone(), Tail::start(runtime, store, run_id))).collect();
        Self { name, tails, arrived }
    }

    /// Every run with a signal was told.
    pub(crate) fn has_heard_of(&self, signalled: &BTreeSet<RunId>) {
        let what = format!("the {} handle to hear of all {} runs with signals", self.name, signalled.len());
        until_all(&what, || signalled.difference(&lock(&self.arrived)).cloned().collect());
    }

    /// The tail of a run gave its log, each event once.
    pub(crate) fn has_followed(&self, run_id: &RunId, log: &[Event]) {
        let (name, tail) = (self.name, &self.tails[run_id]);
        until(&format!("the {name} handle's tail to give {} events", log.len()), || {
            let ended = lock(&tail.ended).clone();
            assert!(ended.is_none(), "the {name} handle's tail ended: {ended:?}");
            lock(&tail.events).len() >= log.len()
        });
        let log: Vec<(u64, Uuid)> = log.iter().map(|event| (event.run_seq, event.event_id)).collect();
        assert_eq!(*lock(&tail.events), log, "the {name} handle's tail gives the log, each event once");
    }
}

impl Tail {
    fn start(runtime: &Runtime, store: &Arc<dyn StateStore>, run_id: &RunId) -> Self {
        let tail = Self::default();
        let request = ReadRequest { tenant_id: tenant(), run_id: run_id.clone(), after: 0, limit: 100 };
        let (mut events, gave) = (store.tail(request), tail.clone());
        runtime.spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => lock(&gave.events).push((event.run_seq, event.event_id)),
                    Err(error) => *lock(&gave.ended) = Some(error.to_string()),
                }
            }
            lock(&gave.ended).get_or_insert("nothing more comes".to_owned());
        });
        tail
    }
}
