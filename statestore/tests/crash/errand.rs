//! What this program does when it starts itself: appending, appending one by one, or opening.

use std::sync::Arc;
use std::time::Duration;

use engine_core::port::StateStore;
use engine_core::port::store::Appended;
use statestore::Options;
use tokio::task::JoinSet;

use super::acknowledgement::Acknowledgement;
use super::author::{Author, Manner, View, log, request, shared_run};
use super::calls::{Call, CallName, TASKS, Target, alert};
use super::patience::runtime;

/// A store whose writes may take long on a busy machine.
pub(crate) fn patient() -> Options {
    Options { write_budget: Duration::from_secs(60), ..Options::default() }
}

/// Opens a store.
pub(crate) async fn open(url: &str) -> Arc<dyn StateStore> {
    statestore::open(url, patient()).await.expect("the store opens")
}

/// What a process is started for.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// Several tasks append until the process is killed; a line for each acknowledged call.
    Append { url: String, generation: u32 },
    /// Appends one event after another; a line for each.
    OneByOne { url: String, count: u32 },
    /// Opens the store and makes a run; a line with it.
    Open { url: String, number: u32 },
}

impl Errand {
    /// The arguments that [`Errand::from_arguments`] understands.
    pub(crate) fn arguments(&self) -> [String; 3] {
        let (name, url, number) = match self {
            Self::Append { url, generation } => ("--append", url, generation),
            Self::OneByOne { url, count } => ("--append-one-by-one", url, count),
            Self::Open { url, number } => ("--open", url, number),
        };
        [name.to_owned(), url.clone(), number.to_string()]
    }

    /// The errand that these arguments ask for, if they do.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = String>) -> Option<Self> {
        let arguments: Vec<String> = arguments.collect();
        let [name, url, number] = &arguments[..] else { return None };
        let (url, number) = (url.clone(), number.parse().ok()?);
        match name.as_str() {
            "--append" => Some(Self::Append { url, generation: number }),
            "--append-one-by-one" => Some(Self::OneByOne { url, count: number }),
            "--open" => Some(Self::Open { url, number }),
            _ => None,
        }
    }

    pub(crate) fn run(self) {
        runtime().block_on(async {
            match self {
                Self::Append { url, generation } => append(&url, generation).await,
                Self::OneByOne { url, count } => append_one_by_one(&url, count).await,
                Self::Open { url, number } => {
                    let name = CallName { generation: number, task: 0, number: 0 };
                    make_run(&*open(&url).await, name).await.write();
                }
            }
        });
    }
}

async fn append(url: &str, generation: u32) {
    let store = open(url).await;
    let shared = shared_run(&*store).await;
    let view = View::of(&log(&*store, &shared).await);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let known = (shared.clone(), view.clone());
        let mut author = Author::new(Arc::clone(&store), Manner::Steady, (generation, task), known);
        tasks.spawn(async move {
            loop {
                author.call().await.write();
            }
        });
    }
    // None of them ends by itself: a failure must be seen outside.
    let first = tasks.join_next().await;
    panic!("a task that appends has ended: {first:?}");
}

async fn append_one_by_one(url: &str, count: u32) {
    let store = open(url).await;
    let first = CallName { generation: 0, task: 0, number: 0 };
    let made = make_run(&*store, first).await;
    made.write();
    for number in 1..=count {
        let name = CallName { number, ..first };
        let drafts = vec![alert("ONE", number, "look".to_owned())];
        let call = Call::Append { target: Target::Own, decision: false, drafts };
        let request = request(name, &made.run_id, &call, &View::default());
        let appended = store.append(request).await.expect("appended");
        let Appended::Stored(stored) = appended else { panic!("a conflict") };
        let places = stored.iter().map(|stored| (stored.event.run_seq, stored.event.event_id)).collect();
        Acknowledgement { call: name, run_id: made.run_id.clone(), places }.write();
    }
}

/// Makes the run that the first call of a task makes.
pub(crate) async fn make_run(store: &dyn StateStore, name: CallName) -> Acknowledgement {
    let Call::Create(request) = Call::of(name) else { panic!("{name} makes no run") };
    let created = store.create(*request).await.expect("a run");
    Acknowledgement { call: name, run_id: created.run_id, places: Vec::new() }
}
