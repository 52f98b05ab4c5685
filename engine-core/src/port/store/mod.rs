//! The store port: the append authority, and what engines and workers share through it.
//!
//! Each trait is one concern; a store implements all of them and is then a [`StateStore`]:
//!
//! - [`log`]: the log of every run, the only truth;
//! - [`registry`]: which runs there are; [`plans`]: their plans by content;
//! - [`coordination`]: leases, claims and who has acted; [`inbox`]: signals on their way to the driver;
//! - [`checkpoint`], [`progress`]: what is kept beside the log;
//! - [`outbox`]: events on their way to the bus; [`requests`]: answers that are given again.
//!
//! Every call about a run carries its tenant; another tenant's run is `NOT_FOUND`. Calls between engines and workers
//! (leases, claims, inbox, progress) name the run alone. When a store is away, writers wait up to the write budget and
//! then get `WRITE_BUDGET_EXCEEDED` or `STORE_UNAVAILABLE`; nothing is acknowledged that is not durable.

pub mod checkpoint;
pub mod coordination;
pub mod inbox;
pub mod log;
pub mod outbox;
pub mod plans;
pub mod progress;
pub mod registry;
pub mod requests;

pub use checkpoint::{Checkpoint, CheckpointRecord, CheckpointShelf, SaveCheckpoint};
pub use coordination::{ClaimRequest, Coordination, Fence, LeaseRequest, UnclaimRequest};
pub use inbox::SignalInbox;
pub use log::{AppendAs, AppendRequest, Appended, EventLog, ReadRequest, StoredEvent};
pub use outbox::{ClaimOutbox, DeadLetter, Delivered, FailedDelivery, NextTry, Outbox, OutboxEntry};
pub use plans::PlanShelf;
pub use progress::{ProgressBoard, StepProgress};
pub use registry::{
    CreateRequest, Created, ForgetRequest, ListRequest, NewLease, PageKey, RunPage, RunRecord, RunRegistry,
};
pub use requests::{ANSWER_KEPT_MS, RequestKey, RequestLedger};

/// Everything that Drivetrain keeps.
pub trait StateStore:
    EventLog
    + RunRegistry
    + PlanShelf
    + Coordination
    + SignalInbox
    + CheckpointShelf
    + ProgressBoard
    + Outbox
    + RequestLedger
{
}

impl<S> StateStore for S where
    S: EventLog
        + RunRegistry
        + PlanShelf
        + Coordination
        + SignalInbox
        + CheckpointShelf
        + ProgressBoard
        + Outbox
        + RequestLedger
{
}
