//! What this program does when it starts itself: drive runs until it is killed, or until its input ends.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adapter_mock::{InProcess, Options};
use engine_core::port::StateStore;
use worker::Worker;

use super::diary::Diary;
use super::patience::runtime;
use super::plans::PLANS;
use super::runs::start;
use super::script::handlers;

/// Short, so that the next process takes over soon.
const LEASE: Duration = Duration::from_millis(300);

/// How long a write may take.
const PATIENT: Duration = Duration::from_secs(60);

/// Opens a store whose writes may take long on a busy machine.
pub(crate) async fn open(url: &str) -> Arc<dyn StateStore> {
    let options = statestore::Options { write_budget: PATIENT, ..statestore::Options::default() };
    statestore::open(url, options).await.expect("the store opens")
}

/// An engine whose handlers write a diary.
pub(crate) async fn engine(store: &Arc<dyn StateStore>, diary: &Path, generation: u32) -> InProcess {
    let handlers = handlers(store, Diary::open(diary, generation));
    let worker = Worker::builder(Arc::clone(store), handlers)
        .name(format!("generation-{generation}"))
        .write_budget(PATIENT)
        .build()
        .expect("a worker");
    InProcess::open(worker, Options { lease: LEASE, ..Options::default() }).await.expect("the engine opens")
}

/// What a process is started for: to drive all runs, and to start those of some generations.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) url: String,
    pub(crate) diary: PathBuf,
    /// The first generation whose runs it starts.
    pub(crate) first: u32,
    /// The last, which is its own.
    pub(crate) generation: u32,
}

impl Errand {
    /// The arguments that [`Errand::from_arguments`] understands.
    pub(crate) fn arguments(&self) -> [String; 5] {
        let Self { url, diary, first, generation } = self;
        let diary = diary.display().to_string();
        ["--drive".to_owned(), url.clone(), diary, first.to_string(), generation.to_string()]
    }

    /// The errand that these arguments ask for, if they do.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = String>) -> Option<Self> {
        let arguments: Vec<String> = arguments.collect();
        let [name, url, diary, first, generation] = &arguments[..] else { return None };
        (name == "--drive").then_some(())?;
        let (first, generation) = (first.parse().ok()?, generation.parse().ok()?);
        Some(Self { url: url.clone(), diary: diary.into(), first, generation })
    }

    pub(crate) fn run(self) {
        // A task that panics would only be missed; whoever watches must see it.
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tell(panic);
            std::process::exit(101);
        }));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = stop.send(());
        });
        runtime().block_on(async {
            let store = open(&self.url).await;
            let engine = engine(&store, &self.diary, self.generation).await;
            tell_starter();
            for generation in self.first..=self.generation {
                for plan in PLANS {
                    start(&*store, &engine, plan, generation).await;
                }
            }
            tell_starter();
            let _ = stopped.await;
            engine.shutdown().await;
        });
    }
}

/// Who started this process waits for a byte: one when it drives runs, one when it has started all of its own.
fn tell_starter() {
    std::io::stdout().write_all(b"\n").and_then(|()| std::io::stdout().flush()).expect("told");
}
