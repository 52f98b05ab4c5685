//! The store port: the append authority, and what engines and workers share through it.
//!
//! Each trait is one concern. A store implements all of them and is then a [`StateStore`]. Every call about a run
//! carries its tenant; another tenant's run is `NOT_FOUND`. When a store is away, writers wait up to the write budget
//! and then get `WRITE_BUDGET_EXCEEDED` or `STORE_UNAVAILABLE`; nothing is acknowledged that is not durable.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use crate::decider::Run;
use crate::error::Result;
use crate::event::run::RunQueued;
use crate::event::{Body, Draft, Event, Kind};
use crate::id::{PlanId, RunId, SignalId, StepId, TenantId};
use crate::machine::RunStatus;
use crate::projection::{ResyncReply, ResyncRequest};
use crate::signal::Signal;
use crate::time::Timestamp;

/// Everything that Drivetrain keeps.
pub trait StateStore: EventLog + RunRegistry + Coordination + SignalInbox + PlanShelf {}

impl<S: EventLog + RunRegistry + Coordination + SignalInbox + PlanShelf> StateStore for S {}

/// The log of every run: the only truth.
#[async_trait]
pub trait EventLog: Debug + Send + Sync + 'static {
    /// Appends to a run's log and gives each event its place. See [`AppendAs`] for what happens when an event's key
    /// or slot is taken. After a run's end only audit events are taken.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` when any event is invalid, `RUN_TERMINAL` when the run has ended, `LEASE_LOST` when
    /// the fence is old; nothing of the call is stored then.
    async fn append(&self, request: AppendRequest) -> Result<Appended>;

    /// Events after a place in the log, in order, at most `limit`.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>>;

    /// The same without an end: events that are there, then each new one as it is stored. Misses none, repeats none.
    fn tail(&self, request: ReadRequest) -> BoxStream<'static, Result<Event>>;

    /// What a reader needs to get back in step.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn resync(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        request: ResyncRequest,
    ) -> Result<ResyncReply>;
}

/// Events for one run.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendRequest {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The events, in order.
    pub drafts: Vec<Draft>,
    /// Who appends.
    pub emitted_by: Arc<str>,
    /// How a conflict is settled.
    pub append_as: AppendAs,
    /// The run lease under which the caller acts; an older one is refused.
    pub fence: Option<Fence>,
}

/// How an append settles conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendAs {
    /// Worker and audit events: each stands alone. One whose key or slot is taken, or that
    /// [comes too late](crate::event::Slot::closed_to) for its attempt, changes nothing, and the stored event that is
    /// in its way is returned in its place; the others are stored.
    Worker,
    /// Decisions: all or nothing. When `expected` decisions are not what the log has, when the log goes on after
    /// `nothing_after`, or when any key or slot is taken, nothing is stored and the call gives
    /// [`Appended::Conflict`].
    Decision {
        /// How many decision events the driver had folded.
        expected: u64,
        /// For what must not be decided on a stale view, as the effects of a signal: the last place in the log.
        nothing_after: Option<u64>,
        /// Up to where the driver has folded everything: a conflict answers with what comes after.
        folded_through: u64,
    },
}

impl AppendAs {
    /// How what `run` decided is appended: decisions all or nothing, and the effects of a signal only on the latest
    /// view; a refusal and what workers tell stand alone.
    #[must_use]
    pub fn of(run: &Run, drafts: &[Draft]) -> Self {
        if !drafts.iter().any(|draft| draft.body.kind() == Kind::Decision) {
            return Self::Worker;
        }
        let of_a_signal = drafts.iter().any(|draft| matches!(draft.body, Body::SignalAccepted(_)));
        let folded_through = run.state().folded_through();
        Self::Decision {
            expected: run.state().decisions(),
            nothing_after: of_a_signal.then_some(folded_through),
            folded_through,
        }
    }
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq)]
pub enum Appended {
    /// One stored event per draft, in order. Fold these, not the drafts.
    Stored(Vec<StoredEvent>),
    /// Somebody else wrote meanwhile. Fold these, every event after the driver's `folded_through`, and decide again.
    Conflict(Vec<Event>),
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// The event.
    pub event: Event,
    /// Whether this call stored it; otherwise it was there before.
    pub fresh: bool,
}

/// A part of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Only events after this place.
    pub after: u64,
    /// At most so many; a tail takes it as the size of a page.
    pub limit: usize,
}

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
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn list(&self, request: ListRequest) -> Result<RunPage>;
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
}

/// A run that was made, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The run.
    pub run_id: RunId,
    /// Whether this call made it.
    pub fresh: bool,
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
    /// At most so many.
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

/// Who works on what.
#[async_trait]
pub trait Coordination: Debug + Send + Sync + 'static {
    /// Takes or renews the lease of a run: one holder at a time decides for it.
    ///
    /// # Errors
    /// `LEASE_HELD` while another holder's lease runs.
    async fn lease(&self, request: LeaseRequest) -> Result<Fence>;

    /// Gives a lease back before it expires. An old fence changes nothing.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn release(&self, run_id: &RunId, fence: Fence) -> Result<()>;

    /// Takes or renews the claim of a worker on an attempt.
    ///
    /// # Errors
    /// `LEASE_HELD` while another worker's claim runs.
    async fn claim(&self, request: ClaimRequest) -> Result<()>;

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

/// Signals on their way to a run's driver.
#[async_trait]
pub trait SignalInbox: Debug + Send + Sync + 'static {
    /// Puts a signal into a run's inbox. The same signal again changes nothing.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()>;

    /// Signals of a run that have no decision in its log yet, in the order they came.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>>;

    /// Takes a decided signal out of the inbox.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()>;

    /// Runs that new signals came for, as they come.
    fn arrivals(&self) -> BoxStream<'static, RunId>;
}

/// Plans by content.
#[async_trait]
pub trait PlanShelf: Debug + Send + Sync + 'static {
    /// Keeps a plan's canonical document under its hash. Keeping it again changes nothing.
    ///
    /// # Errors
    /// `PLAN_HASH_MISMATCH` when the content is not of that hash.
    async fn put_plan(&self, tenant_id: &TenantId, hash: &str, document: &str) -> Result<()>;

    /// The document with this hash.
    ///
    /// # Errors
    /// `PLAN_MISSING` when the tenant has none.
    async fn plan(&self, tenant_id: &TenantId, hash: &str) -> Result<Arc<str>>;
}
