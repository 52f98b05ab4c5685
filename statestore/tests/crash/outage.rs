//! The server goes away under load and comes back.
//!
//! Three handles, as three processes have them: a patient one, whose writers just wait; a hasty one, whose writers are
//! told in time and try again; and one elsewhere, whose news the patient one must hear although it could not listen for
//! a while. Nothing acknowledged is lost, and nothing is stored twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dev_servers::postgres::Cluster;
use engine_core::RunId;
use engine_core::port::StateStore;
use sqlx::ConnectOptions as _;
use statestore::Options;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::author::{Manner, by_code, shared_run};
use super::calls::{EVERYBODY, TASKS, creation, tenant};
use super::crew::{Crew, refused_in_time};
use super::ledger::{Ledger, outbox_has_all};
use super::patience::{runtime, soon, until};
use super::place::Place;
use super::proxy::Proxy;
use super::watcher::{Watcher, resume};

const HASTY: Duration = Duration::from_millis(500);
const PATIENT: Duration = Duration::from_secs(30);

/// Runs that signals are sent to, in each phase.
const SIGNALS: usize = 10;

pub(crate) fn stopped_for_ten_seconds() {
    through(Cluster::stop, Duration::from_secs(10));
}

pub(crate) fn crashed() {
    through(Cluster::kill, Duration::from_secs(2));
}

fn through(end: fn(&mut Cluster) -> anyhow::Result<()>, away: Duration) {
    let mut cluster = Cluster::start().expect("a cluster");
    let (runtime, mut ledger) = (runtime(), Ledger::default());
    let open = |budget| {
        let options = Options { write_budget: budget, ..Options::default() };
        runtime.block_on(statestore::open(&cluster.url(), options)).expect("opened")
    };
    let (patient, hasty, elsewhere) = (open(PATIENT), open(HASTY), open(PATIENT));
    let shared = runtime.block_on(shared_run(&*elsewhere));
    let watcher = Watcher::start(&runtime, "patient", &patient, std::slice::from_ref(&shared));
    let [steady, insistent, others] =
        [(1, &patient, Manner::Steady), (2, &hasty, Manner::Insistent), (3, &elsewhere, Manner::Steady)]
            .map(|(generation, store, manner)| Crew::start(&runtime, store, manner, generation, &shared));
    let everybody_goes_on =
        || [&steady, &insistent, &others].iter().for_each(|crew| crew.until_calls(&crew.calls(), 10));
    everybody_goes_on();
    let mut signalled = arrive(&runtime, send_signals(&runtime, &elsewhere, "before"));

    end(&mut cluster).expect("it ends");
    let meanwhile = send_signals(&runtime, &elsewhere, "meanwhile");
    // The outage itself.
    std::thread::sleep(away);
    let refused = insistent.refusals();
    let was_refused = |task| refused.iter().any(|refusal| refusal.call.task == task);
    assert!((0..TASKS).all(was_refused), "every hasty task was told that the store is away: {refused:?}");
    cluster.start_again().expect("it starts again");

    everybody_goes_on();
    signalled.extend(arrive(&runtime, meanwhile));
    signalled.extend(arrive(&runtime, send_signals(&runtime, &elsewhere, "after")));
    let [steady, insistent, others] =
        [steady, insistent, others].map(|crew| crew.finish(&runtime, &mut ledger));
    assert!(steady.is_empty() && others.is_empty(), "a steady crew is refused nothing");
    refused_in_time(&insistent, HASTY);

    let logs = runtime.block_on(ledger.check(&*patient));
    runtime.block_on(outbox_has_all(&*patient, &logs));
    watcher.has_followed(&shared, &logs[&shared]);
    watcher.has_heard_of(&signalled);
    let (calls, refused) = (ledger.calls(), by_code(&insistent));
    eprintln!(
        "away for {away:?}: {calls} calls acknowledged, each stored once; refused in time: {refused:?}"
    );
}

/// The server has committed, and the answer is lost with the connection: nobody is refused, the repeat finds its own
/// events, and they count as stored by this call.
pub(crate) fn answers_are_lost() {
    const LOSSES: u32 = 20;
    let (place, runtime, mut ledger) = (Place::database(), runtime(), Ledger::default());
    let Place::Database(server) = &place else { panic!("a server is needed") };
    let proxy = Proxy::start((server.get_host().to_owned(), server.get_port()));
    let url = server.as_ref().clone().host("127.0.0.1").port(proxy.port()).to_url_lossy();
    let options = Options { write_budget: PATIENT, ..Options::default() };
    let store = runtime.block_on(statestore::open(url.as_str(), options)).expect("opened");
    let shared = runtime.block_on(shared_run(&*store));
    let crew = Crew::start(&runtime, &store, Manner::Steady, 1, &shared);
    for lost in 0..LOSSES {
        crew.until_calls(&crew.calls(), 1);
        proxy.lose_an_answer();
        until("an answer to be lost", || proxy.lost() > lost);
    }
    crew.until_calls(&crew.calls(), 5);
    let refusals = crew.finish(&runtime, &mut ledger);
    assert!(refusals.is_empty(), "a steady crew is refused nothing");
    let logs = runtime.block_on(ledger.check(&*store));
    runtime.block_on(outbox_has_all(&*store, &logs));
    eprintln!("{} answers lost, {} calls acknowledged, each stored once", proxy.lost(), ledger.calls());
}

/// Sends a signal to each of some new runs.
fn send_signals(runtime: &Runtime, store: &Arc<dyn StateStore>, phase: &str) -> Vec<JoinHandle<RunId>> {
    let send = |number| {
        let (store, request) = (Arc::clone(store), creation(&format!("{phase}-{number}"), EVERYBODY));
        runtime.spawn(async move {
            let run_id = store.create(request).await.expect("a run").run_id;
            store.submit(&tenant(), &run_id, resume("signal")).await.expect("submitted");
            run_id
        })
    };
    (0..SIGNALS).map(send).collect()
}

/// Waits until signals were taken; the runs that have them.
fn arrive(runtime: &Runtime, signals: Vec<JoinHandle<RunId>>) -> BTreeSet<RunId> {
    let taken = |signal: JoinHandle<RunId>| {
        runtime.block_on(soon("a signal to be taken", signal)).expect("no task failed")
    };
    signals.into_iter().map(taken).collect()
}
