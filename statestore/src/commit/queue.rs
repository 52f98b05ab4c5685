//! The writer's loop.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine_core::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::job::{Job, Reply};
use crate::retry::{Backoff, Failure, unavailable};

/// Jobs that may wait; more make their callers wait.
const WAITING: usize = 4096;
/// The most jobs of one transaction.
const GROUP_JOBS: usize = 1024;
/// A transaction takes no further job once it has this much to write.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What the writer does with the jobs of one group.
pub(crate) trait Group: Send + 'static {
    /// What callers hand to it.
    type Job: Job;

    /// Does all jobs in one transaction, and keeps their answers. Returning means that all of it is durable.
    fn commit(&mut self, jobs: &mut [Self::Job]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Gives up whatever was begun.
    fn rollback(&mut self) -> impl Future<Output = ()> + Send;

    /// Ends the connection.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Hands jobs to a writer. Dropping the last one ends the writer after what waits.
pub(crate) struct Queue<J> {
    jobs: mpsc::Sender<J>,
    budget: Duration,
    /// Why the database is away, while it is.
    outage: Arc<Mutex<Option<String>>>,
}

impl<J: Job> Queue<J> {
    /// A queue and its writer, which somebody must run.
    pub(crate) fn new<G: Group<Job = J>>(group: G, budget: Duration) -> (Self, Writer<G>) {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let outage = Arc::default();
        let writer = Writer { group, waiting, outage: Arc::clone(&outage) };
        (Self { jobs, budget, outage }, writer)
    }

    /// Does a job within the write budget.
    ///
    /// # Errors
    /// What the job was refused with. `STORE_UNAVAILABLE` when the database stayed away, `WRITE_BUDGET_EXCEEDED` when
    /// it was there and slow: whether the write happened is open then, and doing it again is harmless.
    pub(crate) async fn submit<T>(&self, job: impl FnOnce(Reply<T>) -> J) -> Result<T> {
        self.submit_within(self.budget, job).await
    }

    /// Does a job within a budget of its own.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub(crate) async fn submit_within<T>(
        &self,
        budget: Duration,
        job: impl FnOnce(Reply<T>) -> J,
    ) -> Result<T> {
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

/// The one that writes.
pub(crate) struct Writer<G: Group> {
    group: G,
    waiting: mpsc::Receiver<G::Job>,
    outage: Arc<Mutex<Option<String>>>,
}

impl<G: Group> Writer<G> {
    /// Writes until the queue is dropped.
    pub(crate) async fn run(mut self) {
        let mut jobs = Vec::new();
        let mut backoff = Backoff::new();
        while self.gather(&mut jobs).await {
            match self.commit(&mut jobs).await {
                Ok(()) => {
                    backoff = Backoff::new();
                    self.note_outage(None);
                    jobs.drain(..).for_each(Job::acknowledge);
                    self.let_others_go_first().await;
                }
                Err(failure) if failure.away => {
                    tracing::warn!(error = %failure.error, "the store is away; its writers wait");
                    self.note_outage(Some(failure.error.message().to_owned()));
                    backoff.wait().await;
                }
                Err(failure) => self.one_by_one(&mut jobs, failure).await,
            }
        }
        self.group.close().await;
    }

    /// Lets those run who were just answered, while they bring more to write: it comes into the next group, not the one
    /// after. Nobody waits for anybody: when nothing came, it goes on.
    async fn let_others_go_first(&self) {
        const ROUNDS: usize = 16;
        for _ in 0..ROUNDS {
            let before = self.waiting.len();
            tokio::task::yield_now().await;
            if self.waiting.len() == before {
                return;
            }
        }
    }

    /// Takes all that waits; waits for the first when there is nothing. `false` when nothing will come any more.
    async fn gather(&mut self, jobs: &mut Vec<G::Job>) -> bool {
        jobs.retain(|job| !job.is_withdrawn());
        if jobs.is_empty() {
            match self.waiting.recv().await {
                Some(job) => jobs.push(job),
                None => return false,
            }
        }
        let mut bytes: usize = jobs.iter().map(Job::bytes).sum();
        while jobs.len() < GROUP_JOBS && bytes < GROUP_BYTES {
            match self.waiting.try_recv() {
                Ok(job) if job.is_withdrawn() => {}
                Ok(job) => {
                    bytes += job.bytes();
                    jobs.push(job);
                }
                Err(_) => break,
            }
        }
        true
    }

    async fn commit(&mut self, jobs: &mut [G::Job]) -> Result<(), Failure> {
        let result = self.group.commit(jobs).await;
        if result.is_err() {
            self.group.rollback().await;
        }
        result
    }

    /// One job that the database cannot take must not keep out the others.
    async fn one_by_one(&mut self, jobs: &mut Vec<G::Job>, failure: Failure) {
        if jobs.len() == 1 {
            tracing::error!(error = %failure.error, "a write failed");
            jobs.drain(..).for_each(|job| job.refuse(copy(&failure.error)));
            return;
        }
        for job in jobs.drain(..) {
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
