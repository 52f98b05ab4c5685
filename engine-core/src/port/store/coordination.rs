//! Who works on what: leases of runs, claims on attempts, and how far somebody has acted.

use std::fmt::Debug;

use async_trait::async_trait;

use super::registry::RunRecord;
use crate::error::Result;
use crate::id::{RunId, StepId};
use crate::time::Timestamp;

/// Who works on what.
#[async_trait]
pub trait Coordination: Debug + Send + Sync + 'static {
    /// Takes or renews the lease of a run: one holder at a time decides for it.
    ///
    /// # Errors
    /// `LEASE_HELD` while another holder's lease runs; `NOT_FOUND` when there is no such run.
    async fn lease(&self, request: LeaseRequest) -> Result<Fence>;

    /// Renews every lease that a holder has, and says how many these are. What it has lost to another stays lost.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn renew(&self, holder: &str, duration_ms: u64) -> Result<u64>;

    /// Gives a lease back before it expires. An old fence changes nothing.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()>;

    /// Takes or renews the claim of a worker on an attempt.
    ///
    /// # Errors
    /// `LEASE_HELD` while another worker's claim runs; `NOT_FOUND` when there is no such run.
    async fn claim(&self, request: ClaimRequest) -> Result<()>;

    /// Gives a claim back before it expires. Another worker's claim stays.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn unclaim(&self, request: UnclaimRequest) -> Result<()>;

    /// Remembers that everything up to `seq` has been acted on.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn acted(&self, run_id: &RunId, seq: u64) -> Result<()>;

    /// Runs whose log has been ahead of what was acted on since before `since`: whoever acted on them is gone.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn neglected(&self, since: Timestamp, limit: usize) -> Result<Vec<RunRecord>>;

    /// Runs that have not ended, that nobody holds a running lease of, and whose log is ahead of what was acted on,
    /// oldest first: whoever recovers takes them.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn unattended(&self, limit: usize) -> Result<Vec<RunRecord>>;

    /// A run by its id alone, for whoever is told of it so.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such run.
    async fn identify(&self, run_id: &RunId) -> Result<RunRecord>;
}

/// The number of a lease. A later holder's is higher, and what an earlier one writes is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// A lease to be taken or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The run.
    pub run_id: RunId,
    /// Who wants it.
    pub holder: String,
    /// For how long, in milliseconds.
    pub duration_ms: u64,
}

/// A claim to be taken or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// Who wants it.
    pub worker: String,
    /// For how long, in milliseconds.
    pub duration_ms: u64,
}

/// A claim to be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnclaimRequest {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// Who has it.
    pub worker: String,
}
