//! The outbox: events that the bus has not taken yet.
//!
//! The row of an event is written with the event (BUS-1). A relay claims rows, publishes them, and acknowledges them;
//! a run whose first row fails waits as a whole, so that its events stay in order (BUS-3).

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Event;
use crate::id::{RunId, TenantId};
use crate::time::Timestamp;

/// Events on their way to the bus.
#[async_trait]
pub trait Outbox: Debug + Send + Sync + 'static {
    /// Takes events that wait, oldest first, at most `limit`. All events of a run are the claimant's until it has
    /// acknowledged or failed them or its claim expires.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<Vec<OutboxEntry>>;

    /// The bus has everything of a run up to a place. Gives the claim on the run back.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn acknowledge(&self, delivered: Delivered) -> Result<()>;

    /// The bus did not take an event. Gives the claim on the run back; see [`NextTry`].
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn fail_delivery(&self, failed: FailedDelivery) -> Result<()>;

    /// Events that were given up, oldest first, at most `limit`.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>>;

    /// Puts dead letters of a run back into the outbox, or of every run when none is named; how many. Those of a run
    /// that a relay has at the moment stay.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn replay(&self, run_id: Option<&RunId>) -> Result<u64>;
}

/// Events that a relay wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOutbox {
    /// Who wants them.
    pub relay: String,
    /// At most so many events.
    pub limit: usize,
    /// For how long, in milliseconds.
    pub duration_ms: u64,
}

/// An event that the bus has not taken yet.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEntry {
    /// Who owns its run.
    pub tenant_id: TenantId,
    /// The event.
    pub event: Event,
    /// How often delivering the first event of this run has failed.
    pub failures: u32,
}

/// Events of a run that the bus has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Who delivered them.
    pub relay: String,
    /// The run.
    pub run_id: RunId,
    /// The last of them.
    pub up_to_seq: u64,
}

/// An event that the bus did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDelivery {
    /// Who tried.
    pub relay: String,
    /// The run.
    pub run_id: RunId,
    /// The event; those before it were delivered.
    pub run_seq: u64,
    /// What went wrong.
    pub error: String,
    /// What happens to it.
    pub next: NextTry,
}

/// What happens to an event that the bus did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    /// It, and everything of its run behind it, waits until then.
    At(Timestamp),
    /// It becomes a dead letter, and the run's next events go on.
    Never,
}

/// An event that was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Who owns its run.
    pub tenant_id: TenantId,
    /// The event.
    pub event: Event,
    /// How often it was tried.
    pub failures: u32,
    /// What went wrong the last time.
    pub error: String,
    /// When it was given up.
    pub given_up_at: Timestamp,
}
