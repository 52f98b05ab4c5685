//! The run's state machine.

use super::{Edge, edge, status};
use crate::error::Result;
use crate::event::EventType;

status! {
    /// Where a run stands.
    pub enum RunStatus {
        /// Queued; waiting for approval.
        Pending = "PENDING",
        /// Approved; waiting for capacity and its engine.
        Approved = "APPROVED",
        /// Steps are released.
        Running = "RUNNING",
        /// Nothing new is released.
        Paused = "PAUSED",
        /// Ended; everything was done or skipped.
        Completed = "COMPLETED",
        /// Ended by a failure.
        Failed = "FAILED",
        /// Ended by a person.
        Cancelled = "CANCELLED",
    }
}

status! {
    /// What a run is busy with, finer than its status.
    pub enum RunSubstatus {
        /// Approved, waiting for capacity.
        Queued = "QUEUED",
        /// The plan is being checked before the run is approved.
        Validating = "VALIDATING",
        /// Paused, and steps are still in flight.
        Draining = "DRAINING",
        /// A person must act.
        WaitingForHuman = "WAITING_FOR_HUMAN",
        /// Steps in flight are being cancelled.
        Cancelling = "CANCELLING",
        /// Finished steps are being undone.
        Compensating = "COMPENSATING",
    }
}

impl RunStatus {
    /// Whether the run has ended; a terminal status never changes.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

use EventType as On;
use RunStatus::{Approved, Cancelled, Completed, Failed, Paused, Pending, Running};

/// Every legal edge. There is none from PAUSED to FAILED: a paused run is rescued or resumed first.
pub const EDGES: &[Edge<RunStatus>] = &[
    edge(None, On::RunQueued, Pending),
    edge(Some(Pending), On::RunApproved, Approved),
    edge(Some(Pending), On::RunFailed, Failed),
    edge(Some(Pending), On::RunCancelled, Cancelled),
    edge(Some(Approved), On::RunStarted, Running),
    edge(Some(Approved), On::RunFailed, Failed),
    edge(Some(Approved), On::RunCancelled, Cancelled),
    edge(Some(Running), On::RunPaused, Paused),
    edge(Some(Running), On::RunCompleted, Completed),
    edge(Some(Running), On::RunFailed, Failed),
    edge(Some(Running), On::RunCancelled, Cancelled),
    edge(Some(Paused), On::RunDrained, Paused),
    edge(Some(Paused), On::RunResumed, Running),
    edge(Some(Paused), On::RunCompleted, Completed),
    edge(Some(Paused), On::RunCancelled, Cancelled),
];

/// The status after `event`, or an error that names both states.
///
/// # Errors
/// `ILLEGAL_TRANSITION` when the table has no such edge.
pub fn next(from: Option<RunStatus>, event: EventType) -> Result<RunStatus> {
    super::next(EDGES, from, event, "a run that does not exist")
}

/// The status that an event of this type leads to, wherever it is legal; `None` when it changes none.
#[must_use]
pub fn status_after(event: EventType) -> Option<RunStatus> {
    EDGES.iter().find(|edge| edge.on == event).map(|edge| edge.to)
}

/// The machine as Markdown: a table and a drawing.
#[must_use]
pub fn markdown() -> String {
    super::markdown(EDGES)
}
