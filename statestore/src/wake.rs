//! Wake-ups: who waits for events of a run or for signals is told when some come.
//!
//! A wake-up carries no event, only how far the log goes now, where that is known. Whoever is woken reads the store, so
//! that a wake-up too many costs a read and nothing else, and after a break (a lost connection to Postgres) waking everybody is enough.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine_core::RunId;
use futures_core::stream::BoxStream;
use tokio::sync::{Notify, watch};

/// A place that is not known: whoever waits must look.
pub(crate) const ANYWHERE: u64 = u64::MAX;

/// Everybody who waits.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Up to which place each run may have events, as far as was told.
    tails: HashMap<RunId, watch::Sender<u64>>,
    arrivals: Vec<Weak<Arrivals>>,
}

impl Waiting {
    fn prune(&mut self) {
        self.tails.retain(|_, sender| sender.receiver_count() > 0);
        self.arrivals.retain(|arrivals| arrivals.strong_count() > 0);
    }
}

/// Runs that signals came for, not yet told. A set: however far behind a listener is, each run stands in it once.
#[derive(Debug, Default)]
struct Arrivals {
    runs: Mutex<HashSet<RunId>>,
    news: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeups {
    /// Waits for events of a run from now on.
    pub(crate) fn tail(&self, run_id: &RunId) -> watch::Receiver<u64> {
        let mut waiting = lock(&self.waiting);
        waiting.prune();
        waiting.tails.entry(run_id.clone()).or_insert_with(|| watch::Sender::new(ANYWHERE)).subscribe()
    }

    /// Waits for signals from now on.
    pub(crate) fn arrivals(&self) -> BoxStream<'static, RunId> {
        let arrivals = Arc::new(Arrivals::default());
        let mut waiting = lock(&self.waiting);
        waiting.prune();
        waiting.arrivals.push(Arc::downgrade(&arrivals));
        Box::pin(futures_util::stream::unfold(arrivals, |arrivals| async move {
            loop {
                let news = arrivals.news.notified();
                let next = {
                    let mut runs = lock(&arrivals.runs);
                    let next = runs.iter().next().cloned();
                    next.inspect(|run_id| {
                        runs.remove(run_id);
                    })
                };
                if let Some(run_id) = next {
                    return Some((run_id, arrivals.clone()));
                }
                news.await;
            }
        }))
    }

    /// Whether anybody waits at all.
    pub(crate) fn anybody(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.prune();
        !waiting.tails.is_empty() || !waiting.arrivals.is_empty()
    }

    /// These runs have new events, up to these places.
    pub(crate) fn stored<'a>(&self, runs: impl IntoIterator<Item = (&'a RunId, u64)>) {
        let waiting = lock(&self.waiting);
        if waiting.tails.is_empty() {
            return;
        }
        for (run_id, last) in runs {
            if let Some(sender) = waiting.tails.get(run_id) {
                sender.send_replace(last);
            }
        }
    }

    /// Signals came for these runs.
    pub(crate) fn arrived(&self, runs: &[RunId]) {
        let waiting = lock(&self.waiting);
        for arrivals in waiting.arrivals.iter().filter_map(Weak::upgrade) {
            lock(&arrivals.runs).extend(runs.iter().cloned());
            arrivals.news.notify_one();
        }
    }

    /// Anything may have happened: everybody who waits for events looks.
    pub(crate) fn everybody(&self) {
        for sender in lock(&self.waiting).tails.values() {
            sender.send_replace(ANYWHERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt as _, StreamExt as _};

    fn run(id: &str) -> RunId {
        RunId::new(id).unwrap()
    }

    #[tokio::test]
    async fn a_tail_is_woken_for_its_run_and_no_other() {
        let wakeups = Wakeups::default();
        let mut tail = wakeups.tail(&run("a"));
        wakeups.stored([(&run("b"), 1)]);
        assert!(tail.changed().now_or_never().is_none());
        wakeups.stored([(&run("a"), 1)]);
        assert!(tail.changed().now_or_never().is_some());
        wakeups.everybody();
        assert!(tail.changed().now_or_never().is_some());
    }

    #[tokio::test]
    async fn arrivals_tell_each_run_once_and_lose_none() {
        let wakeups = Wakeups::default();
        let mut arrivals = wakeups.arrivals();
        for id in ["a", "b", "a"] {
            wakeups.arrived(&[run(id)]);
        }
        let mut told = vec![arrivals.next().await.unwrap(), arrivals.next().await.unwrap()];
        told.sort();
        assert_eq!(told, [run("a"), run("b")]);
        assert!(arrivals.next().now_or_never().is_none());
        wakeups.arrived(&[run("c")]);
        assert_eq!(arrivals.next().await, Some(run("c")));
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let wakeups = Wakeups::default();
        let tail = wakeups.tail(&run("a"));
        let arrivals = wakeups.arrivals();
        assert!(wakeups.anybody());
        drop((tail, arrivals));
        assert!(!wakeups.anybody());
    }
}
