//! The state machine of one logical attempt of a step.

use super::{Edge, edge, status};
use crate::error::Result;
use crate::event::EventType;

status! {
    /// Where a logical attempt of a step stands.
    pub enum StepStatus {
        /// Not started.
        Pending = "PENDING",
        /// Started; between tries and while waiting for a person too.
        Running = "RUNNING",
        /// Ended well.
        Success = "SUCCESS",
        /// Failed for good.
        Failed = "FAILED",
        /// Not done, and not needed any more.
        Skipped = "SKIPPED",
        /// Given up.
        Cancelled = "CANCELLED",
    }
}

status! {
    /// What a step is busy with, finer than its status.
    pub enum StepSubstatus {
        /// Released, not started yet.
        Queued = "QUEUED",
        /// A try failed; the next one follows.
        Retrying = "RETRYING",
        /// The handler is done and a person must complete the step.
        WaitingForManualCompletion = "WAITING_FOR_MANUAL_COMPLETION",
        /// Asked to stop.
        Cancelling = "CANCELLING",
    }
}

impl StepStatus {
    /// Whether the attempt has ended; a terminal attempt never changes.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

use EventType as On;
use StepStatus::{Cancelled, Failed, Pending, Running, Skipped, Success};

/// Every legal edge of one attempt. StepRetryRequested makes the next attempt; the one before stays.
pub const EDGES: &[Edge<StepStatus>] = &[
    edge(None, On::StepRetryRequested, Pending),
    edge(Some(Pending), On::StepStarted, Running),
    edge(Some(Pending), On::StepSkipped, Skipped),
    edge(Some(Pending), On::StepCancelled, Cancelled),
    edge(Some(Running), On::StepRetried, Running),
    edge(Some(Running), On::StepWaiting, Running),
    edge(Some(Running), On::StepCompleted, Success),
    edge(Some(Running), On::StepFailed, Failed),
    edge(Some(Running), On::StepCancelled, Cancelled),
];

/// The status after `event`, or an error that names both states.
///
/// # Errors
/// `ILLEGAL_TRANSITION` when the table has no such edge.
pub fn next(from: Option<StepStatus>, event: EventType) -> Result<StepStatus> {
    super::next(EDGES, from, event, "an attempt that does not exist")
}

/// The machine as Markdown: a table and a drawing.
#[must_use]
pub fn markdown() -> String {
    super::markdown(EDGES)
}
