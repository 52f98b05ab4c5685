//! A process that serves the task queue until it is killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use adapter_temporal::{Connect, Options, Temporal};
use engine_core::port::StateStore;
use serde_json::Value;
use worker::{Handlers, Worker};

use crate::diary::Diary;

/// Where a worker process works; without it this program is the test.
const PLACE: &str = "DRIVETRAIN_KILL_PLACE";
const ADDRESS: &str = "DRIVETRAIN_KILL_TEMPORAL";
const CUT: &str = "DRIVETRAIN_KILL_CUT";

pub(crate) fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(Into::into)
}

/// Starts one.
pub(crate) fn spawn(folder: &Path, address: &str, cut: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .env(PLACE, folder)
        .env(ADDRESS, address)
        .env(CUT, if cut { "yes" } else { "" })
        // It ends with the test, whatever ends that.
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) async fn store(folder: &Path) -> Arc<dyn StateStore> {
    let url = format!("sqlite://{}/log.db", folder.display());
    statestore::open(&url, statestore::Options::default()).await.unwrap()
}

pub(crate) fn options(address: &str, cut: bool) -> Options {
    Options {
        connect: Connect::to(address),
        task_queue: "kill".to_owned(),
        longest_history: cut.then_some(30),
        ..Options::default()
    }
}

/// Serves until standard input ends.
pub(crate) fn run(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let address = std::env::var(ADDRESS).unwrap();
        let cut = std::env::var(CUT).is_ok_and(|cut| !cut.is_empty());
        let diary = Diary::at(folder);
        let mut handlers = Handlers::new();
        handlers
            .register_fn("work", move |context, millis: u64| {
                let diary = diary.clone();
                async move {
                    diary.note(context.run_id.as_str(), context.step_id.as_str());
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    Ok(Value::Null)
                }
            })
            .unwrap();
        let claim = Duration::from_secs(15);
        let worker = Worker::builder(store(folder).await, handlers).claim(claim).build().unwrap();
        let _engine = Temporal::open(worker, options(&address, cut)).await.unwrap();
        let ended =
            tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        let _ = ended.await;
        std::process::exit(0);
    });
}
