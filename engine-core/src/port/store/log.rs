//! The log of every run: appending to it, reading it, and getting back in step with it.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::stream::BoxStream;

use super::coordination::Fence;
use crate::decider::Run;
use crate::error::Result;
use crate::event::{Body, Draft, Event, Kind};
use crate::id::{RunId, TenantId};
use crate::projection::{ProjectionRecord, ResyncReply, ResyncRequest};

/// The log of every run: the only truth.
#[async_trait]
pub trait EventLog: Debug + Send + Sync + 'static {
    /// Appends to a run's log and gives each event its place. See [`AppendAs`] for what happens when an event's key
    /// or slot is taken. After a run's end only audit events are taken.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` when any event is invalid, `PAYLOAD_TOO_LARGE` when one is over the limit,
    /// `RUN_TERMINAL` when the run has ended, `LEASE_LOST` when the fence is old; nothing of the call is stored then.
    /// `WRITE_BUDGET_EXCEEDED` and `STORE_UNAVAILABLE` leave open whether it was stored: append the same again.
    async fn append(&self, request: AppendRequest) -> Result<Appended>;

    /// Events after a place in the log, in order, at most `limit`, and fewer only when there are no more; a page has at
    /// most 10,000, whatever was asked for.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    async fn read(&self, request: ReadRequest) -> Result<Vec<Event>>;

    /// The same without an end: events that are there, then each new one as it is stored. Misses none, repeats none. A
    /// store that is away is waited for; `NOT_FOUND` ends it.
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

    /// Keeps a projection of a run, so that [`EventLog::resync`] need not begin at the first event. A store keeps the
    /// newest few and may forget all of them: they can be made again.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run, `PAYLOAD_TOO_LARGE` when it is over the limit.
    async fn keep_snapshot(
        &self,
        tenant_id: &TenantId,
        run_id: &RunId,
        snapshot: &ProjectionRecord,
    ) -> Result<()>;
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
    /// How what `run` decided is appended, see [`AppendAs::on`].
    #[must_use]
    pub fn of(run: &Run, drafts: &[Draft]) -> Self {
        Self::on(run.state().decisions(), run.state().folded_through(), drafts)
    }

    /// How what was decided on a view is appended, by whoever had folded so many decisions, through that place.
    ///
    /// Decisions are all or nothing, and so is a start with the end that it follows from: the attempt may have ended
    /// otherwise. The effects of a signal need the latest view, and so does the end of a failed run, which names places in
    /// the log (RUN-26, RUN-27). A refusal and what workers tell stand alone.
    #[must_use]
    pub fn on(decisions: u64, folded_through: u64, drafts: &[Draft]) -> Self {
        let mut after_an_end = drafts
            .iter()
            .skip_while(|draft| !matches!(draft.body, Body::StepCompleted(_) | Body::StepFailed(_)));
        let follows = after_an_end.any(|draft| matches!(draft.body, Body::StepStarted(_)));
        if !follows && !drafts.iter().any(|draft| draft.body.kind() == Kind::Decision) {
            return Self::Worker;
        }
        let on_the_latest =
            drafts.iter().any(|draft| matches!(draft.body, Body::SignalAccepted(_) | Body::RunFailed(_)));
        Self::Decision {
            expected: decisions,
            nothing_after: on_the_latest.then_some(folded_through),
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
