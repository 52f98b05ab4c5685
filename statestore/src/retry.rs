//! Waiting for a store that is away: again and again with growing pauses, up to a budget.

use std::future::Future;
use std::time::Duration;

use engine_core::{Code, Error, Result};
use tokio::time::Instant;

/// Why a database did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Whether the database is away or busy: the same may succeed later.
    pub(crate) away: bool,
    /// Whether it is the database that failed. Otherwise the request was refused, and the database is fine.
    pub(crate) database: bool,
    /// Whether it is only what was remembered that is no longer true: the same succeeds at once after a look.
    pub(crate) stale: bool,
    pub(crate) error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { away: false, database: false, stale: false, error }
    }
}

impl Failure {
    /// The database is away or busy.
    pub(crate) fn away(cause: impl std::fmt::Display) -> Self {
        Self { away: true, database: true, stale: false, error: unavailable(cause) }
    }

    /// What was remembered of the database is no longer true.
    pub(crate) fn stale() -> Self {
        Self { stale: true, ..Self::away("another process has written meanwhile") }
    }

    /// The database cannot do what it was asked, and never will.
    pub(crate) fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        let error = Error::new(Code::Internal, format!("the database refused a statement: {cause}"));
        Self { away: false, database: true, stale: false, error: error.with_source(cause) }
    }
}

/// Pauses that grow, with some chance in them so that waiting processes do not come back all at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(250);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(Self::LONGEST);
        // The last byte of a random UUID is as random as is needed here.
        let chance = u32::from(uuid::Uuid::new_v4().as_bytes()[15]);
        pause / 2 + pause * chance / 512
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.pause()).await;
    }
}

/// Does something until it succeeds, fails for another reason than an absent database, or the budget is used up.
///
/// # Errors
/// What it failed with; `STORE_UNAVAILABLE` when the database stayed away.
pub(crate) async fn within<T, F>(budget: Duration, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T, Failure>>,
{
    let deadline = Instant::now() + budget;
    let mut backoff = Backoff::new();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) if failure.away && Instant::now() < deadline => backoff.wait().await,
            Err(failure) => return Err(failure.error),
        }
    }
}

/// The database is away.
pub(crate) fn unavailable(cause: impl std::fmt::Display) -> Error {
    Error::new(Code::StoreUnavailable, format!("the store cannot be reached: {cause}"))
        .with_hint("see that the database runs and accepts connections, then do the same again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..20).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= Backoff::FIRST);
        assert!(pauses.iter().all(|pause| *pause <= Backoff::LONGEST && *pause > Duration::ZERO));
        assert!(pauses[19] >= Backoff::LONGEST / 2);
    }

    #[tokio::test]
    async fn an_absent_store_is_waited_for_and_a_refusal_is_not() {
        let tries = Cell::new(0);
        let attempt = || async {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(Failure::away("no route")) } else { Ok(7) }
        };
        assert_eq!(within(Duration::from_secs(60), attempt).await.unwrap(), 7);
        assert_eq!(tries.get(), 3);
        let refused = within(Duration::from_secs(60), || async {
            Err::<(), _>(Failure::from(Error::new(Code::NotFound, "no")))
        });
        assert_eq!(refused.await.unwrap_err().code(), Code::NotFound);
    }

    #[tokio::test]
    async fn a_budget_that_is_used_up_is_a_typed_error() {
        let away = || async { Err::<(), _>(Failure::away("no route")) };
        assert_eq!(within(Duration::ZERO, away).await.unwrap_err().code(), Code::StoreUnavailable);
    }
}
