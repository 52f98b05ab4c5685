//! The event bus port: tells others about events, later and at least once.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Event;

/// Publishes stored events. The log is the truth; a bus may be down, and then the outbox waits for it.
///
/// Events of one run come in order. The same event may be published again: consumers recognise it by
/// `(runId, runSeq)`.
#[async_trait]
pub trait EventBus: Debug + Send + Sync + 'static {
    /// Publishes events of one run, in order. Returning means that the bus has them durably.
    ///
    /// # Errors
    /// Any error leaves the events in the outbox; they are tried again with backoff, then put aside as dead letters.
    async fn publish(&self, events: &[Event]) -> Result<()>;
}
