//! What a caller hands to the writer, and how it hears back.

use engine_core::port::store::{Appended, Created};
use engine_core::{Error, Result, Timestamp};
use futures_core::future::BoxFuture;
use tokio::sync::oneshot;

use super::group::CheckpointRow;
use crate::append::{PreparedAppend, PreparedRun};
use crate::retry::Failure;

/// How a caller hears what became of its write.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// One write. `C` is the database's connection.
pub(crate) enum Job<C> {
    Append(AppendJob),
    Create(CreateJob),
    Change(Box<dyn Change<C>>),
}

/// Events for one run, and the checkpoint that they record, if any.
pub(crate) struct AppendJob {
    pub(crate) call: PreparedAppend,
    pub(crate) checkpoint: Option<CheckpointRow>,
    pub(crate) answer: Option<Result<Appended>>,
    pub(crate) reply: Reply<Appended>,
}

/// A run to be made.
pub(crate) struct CreateJob {
    pub(crate) run: PreparedRun,
    pub(crate) answer: Option<Result<Created>>,
    pub(crate) reply: Reply<Created>,
}

/// Any other write: a few statements on what is not the log.
pub(crate) trait Change<C>: Send {
    /// Does it, and keeps the answer. May be called again after a transaction that failed.
    fn apply<'a>(&'a mut self, connection: &'a mut C, now: Timestamp) -> BoxFuture<'a, Result<(), Failure>>;
    /// Whether the statements were in vain: the change was refused and must leave nothing.
    fn is_refused(&self) -> bool;
    /// Tells the caller.
    fn acknowledge(self: Box<Self>);
    /// Tells the caller that it could not be done.
    fn refuse(self: Box<Self>, error: Error);
    /// Whether the caller has stopped waiting.
    fn is_withdrawn(&self) -> bool;
}

/// A change that is a function of the connection and the time.
pub(crate) struct PlainChange<F, T> {
    pub(crate) work: F,
    pub(crate) answer: Option<Result<T>>,
    pub(crate) reply: Reply<T>,
}

impl<C, F, T> Change<C> for PlainChange<F, T>
where
    C: Send,
    F: for<'a> Fn(&'a mut C, Timestamp) -> BoxFuture<'a, Result<T, Failure>> + Send,
    T: Send,
{
    fn apply<'a>(&'a mut self, connection: &'a mut C, now: Timestamp) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.answer = match (self.work)(connection, now).await {
                Ok(value) => Some(Ok(value)),
                Err(failure) if failure.database => return Err(failure),
                Err(failure) => Some(Err(failure.error)),
            };
            Ok(())
        })
    }

    fn is_refused(&self) -> bool {
        matches!(self.answer, Some(Err(_)))
    }

    fn acknowledge(self: Box<Self>) {
        answer(self.reply, self.answer);
    }

    fn refuse(self: Box<Self>, error: Error) {
        answer(self.reply, Some(Err(error)));
    }

    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }
}

impl<C> Job<C> {
    /// Tells the caller what the committed transaction did.
    pub(super) fn acknowledge(self) {
        match self {
            Self::Append(job) => answer(job.reply, job.answer),
            Self::Create(job) => answer(job.reply, job.answer),
            Self::Change(job) => job.acknowledge(),
        }
    }

    /// Tells the caller that it could not be done.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Append(job) => answer(job.reply, Some(Err(error))),
            Self::Create(job) => answer(job.reply, Some(Err(error))),
            Self::Change(job) => job.refuse(error),
        }
    }

    /// Whether the caller has stopped waiting: what has not begun need not be done.
    pub(super) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Append(job) => job.reply.is_closed(),
            Self::Create(job) => job.reply.is_closed(),
            Self::Change(job) => job.is_withdrawn(),
        }
    }

    /// About how much it writes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Append(job) => job.call.entries.iter().map(|entry| entry.payload.len()).sum(),
            Self::Create(job) => job.run.queued.payload.len(),
            Self::Change(_) => 0,
        }
    }
}

fn answer<T>(reply: Reply<T>, answer: Option<Result<T>>) {
    let missing = || Err(Error::new(engine_core::Code::Internal, "a write was committed without an answer"));
    // A caller that has stopped waiting does not hear it.
    let _ = reply.send(answer.unwrap_or_else(missing));
}
