//! Whoever waits for news hears all of it, also what others wrote in the moment in which the server came back and
//! nobody listened yet.
//!
//! Many handles try to write all the time while the server is away, so that some write before the listener listens; then
//! nobody writes any more, and no later news can make good for what was missed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dev_servers::postgres::Cluster;
use engine_core::RunId;
use engine_core::port::StateStore;
use statestore::Options;
use tokio::runtime::Runtime;

use super::author::{View, log, request};
use super::calls::{Call, CallName, EVERYBODY, Target, alert, creation, tenant};
use super::patience::{runtime, soon};
use super::watcher::{Watcher, resume};

/// Outages in a row. Who comes first is a matter of chance.
const OUTAGES: u32 = 3;

/// Handles that write.
const WRITERS: u32 = 8;

/// A handle with this budget asks for the server every few milliseconds.
const RESTLESS: Duration = Duration::from_millis(100);

/// Longer than the hasty budget, shorter than the patient one.
const AWAY: Duration = Duration::from_millis(1500);
const HASTY: Duration = Duration::from_millis(500);
const PATIENT: Duration = Duration::from_secs(30);

pub(crate) fn of_signals_after_an_outage_within_the_budget() {
    of_signals(PATIENT);
}

pub(crate) fn of_signals_after_an_outage_longer_than_the_budget() {
    of_signals(HASTY);
}

pub(crate) fn of_events_after_an_outage_within_the_budget() {
    of_events(PATIENT);
}

pub(crate) fn of_events_after_an_outage_longer_than_the_budget() {
    of_events(HASTY);
}

/// The server, who waits for news, and who has some.
struct Stage {
    cluster: Cluster,
    runtime: Runtime,
    listener: Arc<dyn StateStore>,
    /// Makes the runs.
    patient: Arc<dyn StateStore>,
    writers: Vec<Arc<dyn StateStore>>,
}

impl Stage {
    fn new(budget: Duration) -> Self {
        let (cluster, runtime) = (Cluster::start().expect("a cluster"), runtime());
        let open = |budget| {
            let options = Options { write_budget: budget, readers: 1, ..Options::default() };
            runtime.block_on(statestore::open(&cluster.url(), options))
        };
        let (patient, listener) = (open(PATIENT).expect("opened"), open(budget).expect("opened"));
        // On a busy machine the budget of a restless handle may not be enough to open it.
        let restless = |_| std::iter::repeat_with(|| open(RESTLESS)).find_map(Result::ok).expect("opened");
        let writers = (0..WRITERS).map(restless).collect();
        Self { cluster, runtime, listener, patient, writers }
    }

    /// A new run for each writer.
    fn runs(&self, name: &str) -> Vec<RunId> {
        let run = |number| {
            let request = creation(&format!("{name}-{number}"), EVERYBODY);
            self.runtime.block_on(self.patient.create(request)).expect("a run").run_id
        };
        (0..WRITERS).map(run).collect()
    }

    /// One outage. Every writer writes to its run as soon as it can.
    fn go_through<F>(&mut self, runs: &[RunId], write: impl Fn(Arc<dyn StateStore>, RunId) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.cluster.stop().expect("it stops");
        let begin = |(store, run_id): (&Arc<dyn StateStore>, &RunId)| {
            self.runtime.spawn(write(Arc::clone(store), run_id.clone()))
        };
        let tasks: Vec<_> = self.writers.iter().zip(runs).map(begin).collect();
        // The outage itself.
        std::thread::sleep(AWAY);
        self.cluster.start_again().expect("it starts again");
        for task in tasks {
            self.runtime.block_on(soon("a writer", task)).expect("no task failed");
        }
    }
}

fn of_signals(budget: Duration) {
    let mut stage = Stage::new(budget);
    let watcher = Watcher::start(&stage.runtime, "listening", &stage.listener, &[]);
    for outage in 1..=OUTAGES {
        // A run that was told stays told: each outage has runs of its own.
        let runs = stage.runs(&outage.to_string());
        stage.go_through(&runs, |store, run_id| async move {
            while store.submit(&tenant(), &run_id, resume("signal")).await.is_err() {}
        });
        watcher.has_heard_of(&BTreeSet::from_iter(runs));
    }
}

fn of_events(budget: Duration) {
    let mut stage = Stage::new(budget);
    let runs = stage.runs("followed");
    let watcher = Watcher::start(&stage.runtime, "listening", &stage.listener, &runs);
    for outage in 1..=OUTAGES {
        stage.go_through(&runs, |store, run_id| async move {
            let name = CallName { generation: 0, task: 0, number: outage };
            let drafts = vec![alert("NEWS", outage, "look".to_owned())];
            let call = Call::Append { target: Target::Own, decision: false, drafts };
            let request = request(name, &run_id, &call, &View::default());
            while store.append(request.clone()).await.is_err() {}
        });
        for run_id in &runs {
            let log = stage.runtime.block_on(log(&*stage.patient, run_id));
            assert_eq!(log.len() as u32, outage + 1, "one event an outage, besides the first");
            watcher.has_followed(run_id, &log);
        }
    }
}
