//! The writer's loop.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine_core::{Code, Error, Result, Timestamp};
use futures_core::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::group::{Database, commit};
use super::job::{Job, PlainChange, Reply};
use super::names::Names;
use crate::retry::{Backoff, Failure, unavailable};
use crate::wake::Wakeups;

/// Jobs that may wait; more make their callers wait.
const WAITING: usize = 4096;
/// The most jobs of one transaction.
const GROUP_JOBS: usize = 1024;
/// A transaction takes no further job once it has this much to write.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Hands jobs to the one writer of a database. Dropping the last one ends the writer after what waits.
pub(crate) struct Queue<C> {
    jobs: mpsc::Sender<Job<C>>,
    budget: Duration,
    /// Why the database is away, while it is.
    outage: Arc<Mutex<Option<String>>>,
}

impl<C: Send + 'static> Queue<C> {
    /// Starts the writer.
    pub(crate) fn start<D: Database<Connection = C>>(
        database: D,
        wakeups: Arc<Wakeups>,
        budget: Duration,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let outage = Arc::default();
        let writer =
            Writer { database, waiting, names: Names::default(), wakeups, outage: Arc::clone(&outage) };
        tokio::spawn(writer.run());
        Self { jobs, budget, outage }
    }

    /// Does a job within the write budget.
    ///
    /// # Errors
    /// What the job was refused with. `STORE_UNAVAILABLE` when the database stayed away, `WRITE_BUDGET_EXCEEDED` when
    /// it was there and slow: whether the write happened is open then, and doing it again is harmless.
    pub(crate) async fn submit<T>(&self, job: impl FnOnce(Reply<T>) -> Job<C>) -> Result<T> {
        self.submit_within(self.budget, job).await
    }

    async fn submit_within<T>(&self, budget: Duration, job: impl FnOnce(Reply<T>) -> Job<C>) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = job(reply);
        let done = async {
            // The writer ends only with the store.
            self.jobs.send(job).await.map_err(|_| closed())?;
            answer.await.map_err(|_| closed())?
        };
        match timeout(budget, done).await {
            Ok(result) => result,
            Err(_) => Err(self.too_late(budget)),
        }
    }

    /// Does any other write within `budget`, or the write budget.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub(crate) async fn change<T, F>(&self, budget: Option<Duration>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a mut C, Timestamp) -> BoxFuture<'a, Result<T, Failure>> + Send + 'static,
    {
        let job = |reply| Job::Change(Box::new(PlainChange { work, answer: None, reply }));
        self.submit_within(budget.unwrap_or(self.budget), job).await
    }

    fn too_late(&self, budget: Duration) -> Error {
        let outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match outage {
            Some(cause) => unavailable(cause),
            None => {
                let message = format!("a write was not acknowledged within {} ms", budget.as_millis());
                Error::new(Code::WriteBudgetExceeded, message)
                    .with_hint("it may still be written; do the same again, which is harmless")
            }
        }
    }
}

fn closed() -> Error {
    unavailable("the store was closed")
}

struct Writer<D: Database> {
    database: D,
    waiting: mpsc::Receiver<Job<D::Connection>>,
    names: Names,
    wakeups: Arc<Wakeups>,
    outage: Arc<Mutex<Option<String>>>,
}

impl<D: Database> Writer<D> {
    async fn run(mut self) {
        let mut group = Vec::new();
        let mut backoff = Backoff::new();
        while self.gather(&mut group).await {
            match self.commit(&mut group).await {
                Ok(()) => {
                    backoff = Backoff::new();
                    self.note_outage(None);
                    group.drain(..).for_each(Job::acknowledge);
                    // Whoever was woken goes first: what it writes next comes into the next group, not the one after.
                    tokio::task::yield_now().await;
                }
                Err(failure) if failure.away => {
                    tracing::warn!(error = %failure.error, "the store is away; its writers wait");
                    self.note_outage(Some(failure.error.message().to_owned()));
                    backoff.wait().await;
                }
                Err(failure) => self.one_by_one(&mut group, failure).await,
            }
        }
        self.database.close().await;
    }

    /// Takes all that waits; waits for the first when there is nothing. `false` when nothing will come any more.
    async fn gather(&mut self, group: &mut Vec<Job<D::Connection>>) -> bool {
        group.retain(|job| !job.is_withdrawn());
        if group.is_empty() {
            match self.waiting.recv().await {
                Some(job) => group.push(job),
                None => return false,
            }
        }
        let mut bytes: usize = group.iter().map(Job::bytes).sum();
        while group.len() < GROUP_JOBS && bytes < GROUP_BYTES {
            match self.waiting.try_recv() {
                Ok(job) if job.is_withdrawn() => {}
                Ok(job) => {
                    bytes += job.bytes();
                    group.push(job);
                }
                Err(_) => break,
            }
        }
        true
    }

    async fn commit(&mut self, group: &mut [Job<D::Connection>]) -> Result<(), Failure> {
        match commit(&mut self.database, &mut self.names, group).await {
            Ok(runs) => {
                self.wakeups.stored(&runs);
                Ok(())
            }
            Err(failure) => {
                self.database.rollback().await;
                Err(failure)
            }
        }
    }

    /// One job that the database cannot take must not keep out the others.
    async fn one_by_one(&mut self, group: &mut Vec<Job<D::Connection>>, failure: Failure) {
        if group.len() == 1 {
            tracing::error!(error = %failure.error, "a write failed");
            group.drain(..).for_each(|job| job.refuse(copy(&failure.error)));
            return;
        }
        for job in group.drain(..) {
            let mut alone = [job];
            let result = self.commit(&mut alone).await;
            let [job] = alone;
            match result {
                Ok(()) => job.acknowledge(),
                Err(failure) => job.refuse(failure.error),
            }
        }
    }

    fn note_outage(&self, cause: Option<String>) {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }
}

fn copy(error: &Error) -> Error {
    let copy = Error::new(error.code(), error.message());
    match error.hint() {
        Some(hint) => copy.with_hint(hint),
        None => copy,
    }
}
