//! How far steps are that run at the moment.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{RunId, StepId, TenantId};
use crate::time::Timestamp;

/// The latest progress of every step. Not events: only the newest counts, and it may be lost.
#[async_trait]
pub trait ProgressBoard: Debug + Send + Sync + 'static {
    /// Notes how far an attempt is. What is less than before, or of an earlier attempt, changes nothing.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn note_progress(&self, run_id: &RunId, progress: StepProgress) -> Result<()>;

    /// How far the steps of a run are, by step; only steps that told something.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn progress(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<Vec<StepProgress>>;
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq)]
pub struct StepProgress {
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// From 0 to 1.
    pub done: f64,
    /// When it was noted.
    pub at: Timestamp,
}
