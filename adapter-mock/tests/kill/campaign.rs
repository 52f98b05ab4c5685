//! A process that drives runs is killed at any moment and started again, many times, while somebody sends signals; the
//! last one may finish. Then every run has ended as it would have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine_core::RunId;
use engine_core::event::{Event, Slot};
use engine_core::port::StateStore;
use tokio::sync::Notify;

use super::counts::Counts;
use super::diary::{Diary, by_run};
use super::ending::Ending;
use super::entries;
use super::errand::{Errand, open};
use super::lawful::Lawful;
use super::operator::{Operator, list};
use super::patience::{LIMIT, chance, runtime};
use super::place::Place;
use super::plans::{PLANS, plan};
use super::process::Process;
use super::reference::endings;
use super::runs::log;

/// The longest that a process drives runs before it is killed; by then the leases of the one before have run out.
const LONGEST_DRIVE_MS: u64 = 800;
/// The longest that one lives whose first moments are what is tried out: it opens the store and the engine meanwhile.
const LONGEST_START_MS: u64 = 150;

fn kills() -> u32 {
    match std::env::var("DRIVETRAIN_TORTURE_KILLS") {
        Ok(text) => text.parse().expect("DRIVETRAIN_TORTURE_KILLS is a number"),
        Err(_) => 50,
    }
}

pub(crate) fn every_run_ends_as_it_would_have(database: &str, place: &Place) {
    let (runtime, kills, began) = (runtime(), kills(), Instant::now());
    let endings = runtime.block_on(endings());
    let store = runtime.block_on(open(&place.url()));
    let hints = Arc::<Hints>::default();
    let operating = runtime.spawn(operate(Arc::clone(&store), kills, Arc::clone(&hints)));
    let errand = |first, generation| Errand { url: place.url(), diary: place.diary(), first, generation };
    for generation in 1..=kills {
        let process = Process::start(&errand(generation.saturating_sub(1).max(1), generation));
        let longest_ms = if chance(5) == 0 {
            LONGEST_START_MS
        } else {
            process.until_open();
            hints.runs.notify_one();
            LONGEST_DRIVE_MS
        };
        // The moment of the kill is what is tried out; nothing is waited for.
        std::thread::sleep(Duration::from_micros(chance(longest_ms * 1000)));
        process.kill();
    }
    let process = Process::start(&errand(1, kills + 1));
    process.until_open();
    process.until_started();
    hints.last.store(true, Ordering::Relaxed);
    hints.runs.notify_one();
    let operator = runtime.block_on(operating).expect("the operator saw all runs end");
    process.stop();
    let counts = runtime.block_on(check(&*store, place, &operator, &endings));
    let took = began.elapsed().as_secs();
    eprintln!("{database}: {kills} kills in {took} s; {counts}");
    if kills >= 50 {
        counts.assert_met();
    }
}

/// What an operator cannot see in the logs of runs that it knows.
#[derive(Debug, Default)]
struct Hints {
    /// There may be new runs.
    runs: Notify,
    /// All runs are there, and the process that drives them now is not killed.
    last: AtomicBool,
}

/// Sends signals until the last process has ended all runs and decided about all signals.
async fn operate(store: Arc<dyn StateStore>, kills: u32, hints: Arc<Hints>) -> Operator {
    let mut operator = Operator::new(Arc::clone(&store), true);
    let runs = PLANS.len() * (kills as usize + 1);
    let mut since = Instant::now();
    loop {
        let is_last = hints.last.load(Ordering::Relaxed);
        if !is_last {
            since = Instant::now();
        }
        let open = operator.round().await;
        if is_last && open.is_empty() && store.awaited(1).await.expect("an answer").is_empty() {
            let made = list(&*store, &[]).await;
            if made.len() == runs && made.iter().all(|run| run.status.is_terminal()) {
                return operator;
            }
        }
        let news = async {
            tokio::select! {
                () = operator.news() => {}
                () = hints.runs.notified() => {}
            }
        };
        if tokio::time::timeout(LIMIT.saturating_sub(since.elapsed()), news).await.is_err() {
            for run in &open {
                let events = log(&*store, &run.run_id, 0).await.expect("the log can be read");
                let run = engine_core::decider::Run::new(plan(run.plan_id.as_str()));
                eprintln!("open: {}", Lawful { events: &events, run });
            }
            let awaited = store.awaited(10).await;
            panic!("{} runs are open after {LIMIT:?}, and signals wait for {awaited:?}", open.len());
        }
    }
}

async fn check(
    store: &dyn StateStore,
    place: &Place,
    operator: &Operator,
    endings: &BTreeMap<String, Ending>,
) -> Counts {
    let (lines, mut counts) = (by_run(Diary::read(&place.diary())), Counts::default());
    let mut logs: BTreeMap<RunId, Vec<Event>> = BTreeMap::new();
    for record in list(store, &[]).await {
        let events = log(store, &record.run_id, 0).await.expect("the log can be read");
        let name = record.plan_id.as_str();
        let log = Lawful::check(&plan(name), &events);
        let lines = &lines[&record.run_id];
        entries::check(&log, lines);
        Ending::of(&log).assert_as(endings[name].clone(), &log);
        counts.log(&events);
        counts.diary(lines);
        logs.insert(record.run_id, events);
    }
    for (run_id, seen) in &operator.seen {
        assert_eq!(*seen, logs[run_id][..seen.len()], "what somebody has seen is not there any more");
    }
    for (run_id, signal_id) in &operator.sent {
        let decision = Slot::SignalDecision(signal_id.clone());
        let decided = logs[run_id]
            .iter()
            .any(|event| Slot::of(event.subject.as_ref(), &event.body).as_ref() == Some(&decision));
        assert!(decided, "nobody decided about {signal_id} of {run_id}");
    }
    counts
}
