//! Wake-ups: who waits for events of a run or for signals is told when some come.
//!
//! A wake-up says how far the log goes now, where that is known, and brings the events that this process has just stored.
//! Whoever has missed something reads the store, so that a wake-up too many costs a read and nothing else, and after a
//! break (a lost connection to Postgres) waking everybody is enough.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use engine_core::event::Event;
use engine_core::{RunId, TenantId};
use futures_core::stream::BoxStream;
use tokio::sync::{Notify, watch};

/// A place that is not known: whoever waits must look.
pub(crate) const ANYWHERE: u64 = u64::MAX;

/// The most events of a run that are kept for who follows it; whoever is further behind reads the store.
const RECENT: usize = 64;

/// How many runs that were just made are remembered, and for how long: who makes a run often follows it at once.
const MADE: usize = 1024;
const JUST: Duration = Duration::from_secs(1);

/// What is new in the log of a run.
#[derive(Debug)]
pub(crate) struct News {
    /// Up to which place there may be events.
    pub(crate) told: u64,
    /// The last that this process stored, in order.
    recent: VecDeque<Arc<Event>>,
}

impl News {
    fn nothing_known() -> Self {
        Self { told: ANYWHERE, recent: VecDeque::new() }
    }

    /// Events that follow a place without a gap, as far as they are here.
    pub(crate) fn after(&self, place: u64) -> VecDeque<Event> {
        let mut last = place;
        let mut found = VecDeque::new();
        for event in self.recent.iter().filter(|event| event.run_seq > place) {
            if event.run_seq != last + 1 {
                break;
            }
            last = event.run_seq;
            found.push_back(Event::clone(event));
        }
        found
    }

    /// Notes how far the log goes; whether that is new.
    fn note(&mut self, last: u64) -> bool {
        let is_news = self.told == ANYWHERE || self.told < last;
        if is_news {
            self.told = last;
        }
        is_news
    }
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Runs that somebody follows.
    tails: HashMap<RunId, watch::Sender<News>>,
    arrivals: Vec<Weak<Arrivals>>,
    /// Runs that this process made just now.
    made: HashMap<RunId, Made>,
}

#[derive(Debug)]
struct Made {
    tenant_id: TenantId,
    /// Up to which place there may be events.
    told: u64,
    at: Instant,
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
    /// Waits for events of a run from now on. Of a run that this process made for the tenant just now it is known that it
    /// is there, and up to which place it goes.
    pub(crate) fn tail(&self, tenant_id: &TenantId, run_id: &RunId) -> (watch::Receiver<News>, Option<u64>) {
        let mut waiting = lock(&self.waiting);
        waiting.prune();
        let made = waiting.made.remove(run_id);
        let known = made.filter(|made| made.tenant_id == *tenant_id && made.at.elapsed() < JUST);
        let new = || watch::Sender::new(News::nothing_known());
        let news = waiting.tails.entry(run_id.clone()).or_insert_with(new).subscribe();
        (news, known.map(|made| made.told))
    }

    /// This process has made a run, durably; so far it has one event.
    pub(crate) fn made(&self, tenant_id: &TenantId, run_id: &RunId) {
        let mut waiting = lock(&self.waiting);
        if waiting.made.len() >= MADE {
            waiting.made.clear();
        }
        let made = Made { tenant_id: tenant_id.clone(), told: 1, at: Instant::now() };
        waiting.made.insert(run_id.clone(), made);
    }

    /// Runs may be gone.
    pub(crate) fn deleted(&self) {
        lock(&self.waiting).made.clear();
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

    /// These runs have events up to these places. Nobody is woken for a place that was told of before: who stores tells,
    /// and so does who looks for what others store.
    pub(crate) fn stored<'a>(&self, runs: impl IntoIterator<Item = (&'a RunId, u64)>) {
        let mut waiting = lock(&self.waiting);
        if waiting.tails.is_empty() && waiting.made.is_empty() {
            return;
        }
        for (run_id, last) in runs {
            if let Some(sender) = waiting.tails.get(run_id) {
                sender.send_if_modified(|news| news.note(last));
            }
            if let Some(made) = waiting.made.get_mut(run_id) {
                made.told = made.told.max(last);
            }
        }
    }

    /// Whether somebody follows this run.
    pub(crate) fn is_followed(&self, run_id: &RunId) -> bool {
        lock(&self.waiting).tails.contains_key(run_id)
    }

    /// These events of a run are stored, durably and in this order.
    pub(crate) fn hand_out(&self, run_id: &RunId, events: Vec<Arc<Event>>) {
        let waiting = lock(&self.waiting);
        let (Some(sender), Some(last)) = (waiting.tails.get(run_id), events.last()) else { return };
        let last = last.run_seq;
        sender.send_if_modified(|news| {
            news.recent.extend(events);
            let surplus = news.recent.len().saturating_sub(RECENT);
            news.recent.drain(..surplus);
            news.note(last)
        });
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
        let mut waiting = lock(&self.waiting);
        waiting.made.clear();
        for sender in waiting.tails.values() {
            sender.send_modify(|news| news.told = ANYWHERE);
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

    fn tenant(id: &str) -> TenantId {
        TenantId::new(id).unwrap()
    }

    #[tokio::test]
    async fn a_tail_is_woken_for_its_run_and_no_other() {
        let wakeups = Wakeups::default();
        let (mut tail, _) = wakeups.tail(&tenant("t"), &run("a"));
        wakeups.stored([(&run("b"), 1)]);
        assert!(tail.changed().now_or_never().is_none());
        wakeups.stored([(&run("a"), 1)]);
        assert!(tail.changed().now_or_never().is_some());
        wakeups.stored([(&run("a"), 1)]);
        assert!(tail.changed().now_or_never().is_none(), "that was told");
        wakeups.stored([(&run("a"), ANYWHERE)]);
        assert!(tail.changed().now_or_never().is_some());
        wakeups.everybody();
        assert!(tail.changed().now_or_never().is_some());
    }

    #[test]
    fn how_far_a_run_goes_is_known_to_who_made_it_once() {
        let wakeups = Wakeups::default();
        let known = |tenant_id: &str| wakeups.tail(&tenant(tenant_id), &run("a")).1;
        assert_eq!(known("t"), None, "nobody made it");
        wakeups.made(&tenant("t"), &run("a"));
        assert_eq!(known("t"), Some(1));
        assert_eq!(known("t"), None, "that is for who comes first");
        wakeups.made(&tenant("t"), &run("a"));
        wakeups.stored([(&run("a"), 3)]);
        wakeups.stored([(&run("a"), 2)]);
        assert_eq!(known("t"), Some(3), "however late the older place is told");
        wakeups.made(&tenant("t"), &run("a"));
        assert_eq!(known("other"), None, "it is not theirs");
        for lost in [Wakeups::everybody, Wakeups::deleted] {
            wakeups.made(&tenant("t"), &run("a"));
            lost(&wakeups);
            assert_eq!(known("t"), None);
        }
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
        let tail = wakeups.tail(&tenant("t"), &run("a"));
        let arrivals = wakeups.arrivals();
        assert!(wakeups.anybody());
        drop((tail, arrivals));
        assert!(!wakeups.anybody());
    }
}
