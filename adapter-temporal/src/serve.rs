//! Temporal's workers in this process: one for the task queue of runs, one for each agent that is served.
//!
//! A worker of the SDK runs on a thread of its own, because workflows are not sent between threads; attempts are spawned
//! on the runtime that the engine was opened in.

use std::thread::JoinHandle;
use std::time::Duration;

use engine_core::{Code, Error, Result};
use temporalio_client::Client;
use temporalio_common::worker::WorkerDeploymentOptions;
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::activities::Desk;
use crate::driver::{INTERPRETER_VERSION, Interpreter};
use crate::options::Options;

/// How long until a worker is made again that gave up.
const AGAIN: Duration = Duration::from_secs(2);

/// Workers that run.
#[derive(Debug)]
pub(crate) struct Serving {
    desk: Desk,
    /// Lets nothing new come in.
    closing: CancellationToken,
    /// As if the process had been killed.
    gone: CancellationToken,
    threads: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Serving {
    /// Starts the workers; returns when all of them poll.
    pub(crate) async fn start(client: &Client, options: &Options, desk: Desk) -> Result<Self> {
        let (closing, gone) = (CancellationToken::new(), CancellationToken::new());
        let mut queues = vec![(options.task_queue.clone(), true)];
        for agent in &options.serves {
            let queue = options.agent_queues.get(agent).cloned().ok_or_else(|| {
                Error::new(Code::Unsupported, format!("agent {agent} is served and has no task queue"))
                    .with_hint("give it one, or do not list it: steps of other agents use the common queue")
            })?;
            if !queues.iter().any(|(known, _)| *known == queue) {
                queues.push((queue, false));
            }
        }
        let mut threads = Vec::new();
        for (queue, drives) in queues {
            let post = Post {
                client: client.clone(),
                options: options.clone(),
                desk: desk.clone(),
                queue: queue.clone(),
                drives,
                closing: closing.clone(),
                gone: gone.clone(),
            };
            let (ready, is_ready) = oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            let thread = std::thread::Builder::new()
                .name(format!("temporal {queue}"))
                .spawn(move || runtime.block_on(post.keep(ready)))
                .map_err(|cause| {
                    Error::new(Code::Internal, "a thread for Temporal's worker cannot be started")
                        .with_source(cause)
                })?;
            threads.push(thread);
            is_ready.await.map_err(|_| {
                Error::new(Code::Internal, format!("the worker of task queue {queue} ended at once"))
            })??;
        }
        Ok(Self { desk, closing, gone, threads: std::sync::Mutex::new(threads) })
    }

    /// Lets nothing new come in, waits for handlers that run, and lets go of those that take longer than `grace`.
    pub(crate) async fn shutdown(&self, grace: Duration) {
        self.closing.cancel();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let ended = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        tokio::pin!(ended);
        if tokio::time::timeout(grace, &mut ended).await.is_err() {
            tracing::warn!("handlers still run after the grace of the shutdown; they are given back");
            self.desk.stopping.cancel();
            if tokio::time::timeout(Duration::from_secs(10), &mut ended).await.is_err() {
                self.gone.cancel();
                let _ = ended.await;
            }
        }
    }

    /// Fires when nothing new is let in.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Drops everything at once, as if the process had been killed. For tests: what the workers had spawned ends with the
    /// runtime that they were started in.
    pub(crate) fn abandon(&self) {
        self.gone.cancel();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.closing.cancel();
        self.desk.stopping.cancel();
    }
}

/// What one worker thread needs.
struct Post {
    client: Client,
    options: Options,
    desk: Desk,
    queue: String,
    drives: bool,
    closing: CancellationToken,
    gone: CancellationToken,
}

impl Post {
    /// Keeps a worker until it is told to end.
    async fn keep(self, ready: oneshot::Sender<Result<()>>) {
        let mut ready = Some(ready);
        while !self.closing.is_cancelled() && !self.gone.is_cancelled() {
            let ended = match self.make() {
                Ok((_runtime, mut worker)) => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(Ok(()));
                    }
                    let shut = worker.shutdown_handle();
                    let closing = self.closing.clone();
                    let closer = tokio::spawn(async move {
                        closing.cancelled().await;
                        shut();
                    });
                    let ended = tokio::select! {
                        ended = worker.run() => ended.map_err(|cause| cause.to_string()),
                        () = self.gone.cancelled() => Ok(()),
                    };
                    closer.abort();
                    ended
                }
                Err(error) => match ready.take() {
                    // The caller hears of it and decides.
                    Some(ready) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                    None => Err(error.to_string()),
                },
            };
            let Err(why) = ended else { return };
            tracing::error!(queue = self.queue, why, "a worker of Temporal gave up; it is made again");
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.closing.cancelled() => {}
                () = self.gone.cancelled() => {}
            }
        }
    }

    fn make(&self) -> Result<(Runtime, Worker)> {
        let failed = |cause: &dyn std::fmt::Display| {
            Error::new(
                Code::EngineUnavailable,
                format!("the worker of {} cannot be made: {cause}", self.queue),
            )
        };
        let runtime = Runtime::from_current_tokio(Default::default()).map_err(|cause| failed(&cause))?;
        let slots = FixedSizeSlotSupplier::new(self.options.attempts_at_once);
        let tuner = TunerHolder::builder()
            .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(100))
            .activity_task_slot_supplier(slots)
            .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(
                self.options.attempts_at_once.max(100),
            ))
            .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(1))
            .build();
        let mut options = WorkerOptions::new(self.queue.clone())
            .deployment_options(WorkerDeploymentOptions::from_build_id(format!(
                "drivetrain-interpreter-{INTERPRETER_VERSION}"
            )))
            .max_cached_workflows(self.options.runs_cached)
            // A dead worker's runs are handed to others after so long.
            .sticky_queue_schedule_to_start_timeout(Duration::from_secs(5))
            .tuner(tuner)
            .build();
        options.register_activities(self.desk.clone());
        if self.drives {
            options.register_workflow::<Interpreter>().map_err(|cause| failed(&cause))?;
        }
        let worker = Worker::new(&runtime, self.client.clone(), options).map_err(|cause| failed(&cause))?;
        Ok((runtime, worker))
    }
}
