//! Which runs there are: making, finding, listing and forgetting them.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Event;
use crate::event::run::RunQueued;
use crate::id::{PlanId, PlanVersion, RunId, TenantId};
use crate::machine::RunStatus;
use crate::time::Timestamp;

/// Which runs there are.
#[async_trait]
pub trait RunRegistry: Debug + Send + Sync + 'static {
    /// Makes a run with its RunQueued event, or returns the one that the same request made before.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` or `PAYLOAD_TOO_LARGE`; nothing is stored then.
    async fn create(&self, request: CreateRequest) -> Result<Created>;

    /// What is known about a run without its log.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn find(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<RunRecord>;

    /// Runs by filter, newest first, a page at a time.
    ///
    /// # Errors
    /// `INVALID_ID` when the page key is none of this store's; `STORE_UNAVAILABLE` when the store is away.
    async fn list(&self, request: ListRequest) -> Result<RunPage>;

    /// Deletes runs that have ended before a time, with everything that belongs to them, at most `limit` of them, and
    /// says which. A run stays while another takes outputs from it, and while its events wait in the outbox.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn forget(&self, request: ForgetRequest) -> Result<Vec<RunId>>;
}

/// A run to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRequest {
    /// Its first event; `identity` in it makes the request unique.
    pub queued: RunQueued,
    /// Ties its events to the request that caused it.
    pub correlation_id: Arc<str>,
    /// Who makes it.
    pub emitted_by: Arc<str>,
    /// Who drives it from the first moment on.
    pub lease: Option<NewLease>,
}

/// The lease that a run is made with. Its fence is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// Who has it.
    pub holder: String,
    /// For how long, in milliseconds.
    pub duration_ms: u64,
}

/// A run that was made, now or before.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The run.
    pub run_id: RunId,
    /// Whether this call made it.
    pub fresh: bool,
    /// Its first event, when this call made it and has it at hand.
    pub queued: Option<Box<Event>>,
}

/// What is known about a run without its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Who owns it.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Its plan.
    pub plan_id: PlanId,
    /// The version of that plan.
    pub plan_version: PlanVersion,
    /// The hash of its plan's content.
    pub plan_hash: String,
    /// Where it stands.
    pub status: RunStatus,
    /// The last place in its log.
    pub last_event_seq: u64,
    /// Up to which place somebody has acted on its log.
    pub acted_seq: u64,
    /// The engine's own name for it, once it has started.
    pub engine_run_ref: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Whose runs.
    pub tenant_id: TenantId,
    /// Only these statuses; empty: all.
    pub statuses: Vec<RunStatus>,
    /// Only runs of this plan.
    pub plan_id: Option<PlanId>,
    /// Only runs made at or after this time.
    pub from: Option<Timestamp>,
    /// Only runs made before this time.
    pub until: Option<Timestamp>,
    /// Continue after the page that gave this.
    pub after: Option<PageKey>,
    /// At most so many; a store may give fewer, and gives at least one while there are more.
    pub limit: usize,
}

/// Which ended runs to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgetRequest {
    /// Runs that ended before this time.
    pub ended_before: Timestamp,
    /// At most so many in one call.
    pub limit: usize,
}

/// A page of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// How to get the next page; `None` when this is the last.
    pub next: Option<PageKey>,
}

/// Where a page ended. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey(pub String);
