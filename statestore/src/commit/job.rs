//! What a caller hands to the writer, and how it hears back.

use engine_core::port::store::{Appended, Created};
use engine_core::{Error, Result};
use tokio::sync::oneshot;

use super::group::CheckpointRow;
use crate::append::{PreparedAppend, PreparedRun};

/// How a caller hears what became of its write.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// One write, as the writer's loop sees it.
pub(crate) trait Job: Send + 'static {
    /// Tells the caller what the committed transaction did.
    fn acknowledge(self);
    /// Tells the caller that it could not be done.
    fn refuse(self, error: Error);
    /// Whether the caller has stopped waiting: what has not begun need not be done.
    fn is_withdrawn(&self) -> bool;
    /// About how much it writes.
    fn bytes(&self) -> usize;
}

/// A write to the log.
pub(crate) enum LogJob {
    Append(AppendJob),
    Create(CreateJob),
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

impl Job for LogJob {
    fn acknowledge(self) {
        match self {
            Self::Append(job) => answer(job.reply, job.answer),
            Self::Create(job) => answer(job.reply, job.answer),
        }
    }

    fn refuse(self, error: Error) {
        match self {
            Self::Append(job) => answer(job.reply, Some(Err(error))),
            Self::Create(job) => answer(job.reply, Some(Err(error))),
        }
    }

    fn is_withdrawn(&self) -> bool {
        match self {
            Self::Append(job) => job.reply.is_closed(),
            Self::Create(job) => job.reply.is_closed(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Append(job) => job.call.bytes,
            Self::Create(job) => job.run.queued.payload.len(),
        }
    }
}

/// Gives a caller its answer.
pub(crate) fn answer<T>(reply: Reply<T>, answer: Option<Result<T>>) {
    let missing = || Err(Error::new(engine_core::Code::Internal, "a write was committed without an answer"));
    // A caller that has stopped waiting does not hear it.
    let _ = reply.send(answer.unwrap_or_else(missing));
}
