//! Signals on their way to whoever decides.

use std::fmt::Debug;

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use crate::error::Result;
use crate::id::{RunId, SignalId, TenantId};
use crate::signal::Signal;

/// Signals on their way to a run's driver.
#[async_trait]
pub trait SignalInbox: Debug + Send + Sync + 'static {
    /// Puts a signal into a run's inbox. The same signal again, or one that has its decision, changes nothing.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()>;

    /// Signals of a run that have no decision in its log yet, in the order they came.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>>;

    /// Runs that have signals without a decision in their log: whoever was away looks here.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn awaited(&self, limit: usize) -> Result<Vec<RunId>>;

    /// Takes a decided signal out of the inbox.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()>;

    /// Runs that new signals came for, from now on, also from other processes. One item may stand for several
    /// signals; what was there before is found with [`SignalInbox::undecided`].
    fn arrivals(&self) -> BoxStream<'static, RunId>;
}
