//! The writer's loop.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// The commit before.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// How many callers it answered.
    answered: usize,
    took: Duration,
}

impl<G: Group> Writer<G> {
    /// Writes until the queue is dropped.
    pub(crate) async fn run(mut self) {
        let mut jobs = Vec::new();
        let mut backoff = Backoff::new();
        let mut last = Last::default();
        while self.gather(&mut jobs, std::mem::take(&mut last)).await {
            let began = Instant::now();
            match self.commit(&mut jobs).await {
                Ok(()) => {
                    backoff = Backoff::new();
                    self.note_outage(None);
                    last = Last { answered: jobs.len(), took: began.elapsed() };
                    jobs.drain(..).for_each(Job::acknowledge);
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

    /// Takes all that waits; waits for the first when there is nothing. `false` when nothing will come any more.
    ///
    /// Those who were just answered together often come back together. The first to come back would have a commit to
    /// itself, and all others would wait for its end: so they are taken as long as they keep coming. Who wrote alone
    /// waits for nobody, and nobody longer than half of what the last commit took.
    async fn gather(&mut self, jobs: &mut Vec<G::Job>, last: Last) -> bool {
        /// When nobody came for so long, nobody is on the way.
        const GAP: Duration = Duration::from_micros(60);
        jobs.retain(|job| !job.is_withdrawn());
        // Those who came meanwhile are not those who come back.
        let expected = jobs.len() + self.waiting.len() + last.answered;
        if jobs.is_empty() {
            match self.waiting.recv().await {
                Some(job) => jobs.push(job),
                None => return false,
            }
        }
        self.take_what_waits(jobs);
        let began = Instant::now();
        let mut at = began;
        while last.answered > 1 && jobs.len() < expected {
            // One is for writers that share their thread with the callers, the other for those with one of their own.
            tokio::task::yield_now().await;
            std::thread::yield_now();
            let (before, now) = (jobs.len(), Instant::now());
            self.take_what_waits(jobs);
            if jobs.len() > before {
                at = now;
            } else if now - at > GAP || now - began > last.took / 2 {
                break;
            }
        }
        true
    }

    /// Takes what waits, as much as one transaction has room for.
    fn take_what_waits(&mut self, jobs: &mut Vec<G::Job>) {
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
