//! Every write that is not to the log: a few statements of `sql`, on a connection of their own, several in one
//! transaction.

use std::sync::Arc;
use std::time::Duration;

use engine_core::port::Clock;
use engine_core::{Error, Result, Timestamp};
use futures_core::future::BoxFuture;
use sqlx::Connection as _;

use super::turn::Turn;
use super::{Connection, broken, time};
use crate::commit::{Group, Job, Queue, Reply, answer};
use crate::retry::Failure;

/// A change that waits for the writer.
pub(super) type Waiting = Box<dyn Change>;

/// Hands a change to its writer.
///
/// # Errors
/// What it was refused with, or as [`Queue::submit`].
pub(super) async fn submit<T, F>(queue: &Queue<Waiting>, budget: Duration, work: F) -> Result<T>
where
    T: Send + 'static,
    F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send + 'static,
{
    queue.submit_within(budget, |reply| Box::new(Planned { work, answer: None, reply }) as Waiting).await
}

/// A write that is not to the log.
pub(super) trait Change: Send {
    /// Does it, and keeps the answer. May be called again after a transaction that failed.
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut Connection,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Failure>>;
    /// Whether the statements were in vain: the change was refused and must leave nothing.
    fn is_refused(&self) -> bool;
    /// See [`Job::acknowledge`].
    fn acknowledge(self: Box<Self>);
    /// See [`Job::refuse`].
    fn refuse(self: Box<Self>, error: Error);
    /// See [`Job::is_withdrawn`].
    fn is_withdrawn(&self) -> bool;
}

impl Job for Waiting {
    fn acknowledge(self) {
        Change::acknowledge(self);
    }

    fn refuse(self, error: Error) {
        Change::refuse(self, error);
    }

    fn is_withdrawn(&self) -> bool {
        self.as_ref().is_withdrawn()
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// A change that is a function of the connection and the time.
struct Planned<F, T> {
    work: F,
    answer: Option<Result<T>>,
    reply: Reply<T>,
}

impl<F, T> Change for Planned<F, T>
where
    F: for<'c> Fn(&'c mut Connection, Timestamp) -> BoxFuture<'c, Result<T, Failure>> + Send,
    T: Send,
{
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut Connection,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Failure>> {
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

/// The connection that changes are made on.
pub(super) struct Changes {
    connection: Connection,
    clock: Option<Arc<dyn Clock>>,
    turn: Turn,
}

impl Changes {
    pub(super) fn new(connection: Connection, clock: Option<Arc<dyn Clock>>, turn: Turn) -> Self {
        Self { connection, clock, turn }
    }

    async fn execute(&mut self, sql: &'static str) -> Result<(), Failure> {
        sqlx::query(sql).execute(&mut self.connection).await.map_err(broken)?;
        Ok(())
    }
}

impl Group for Changes {
    type Job = Waiting;

    async fn commit(&mut self, jobs: &mut [Waiting]) -> Result<(), Failure> {
        self.turn.take().await;
        self.execute("BEGIN IMMEDIATE").await?;
        let now = time(self.clock.as_deref());
        for change in jobs {
            self.execute("SAVEPOINT change").await?;
            change.apply(&mut self.connection, now).await?;
            if change.is_refused() {
                self.execute("ROLLBACK TO change").await?;
            }
            self.execute("RELEASE change").await?;
        }
        self.execute("COMMIT").await?;
        self.turn.give_back();
        Ok(())
    }

    async fn rollback(&mut self) {
        // It fails when nothing was begun, and then there is nothing to give up.
        let _ = self.execute("ROLLBACK").await;
        self.turn.give_back();
    }

    async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::debug!(%error, "closing the connection for changes failed");
        }
    }
}
