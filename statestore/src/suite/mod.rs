//! What every store must do, as cases that run against any of them.
//!
//! A store's tests say how an empty store is had (a [`Harness`]) and run all cases in one line:
//!
//! ```ignore
//! statestore::store_suite!(MyHarness::new());
//! ```
//!
//! Every case is handed a harness of its own and opens one store with it, and where the data can be shared a second
//! handle on the same data. Cases are grouped by concern, a file each:
//!
//! - the log: [`append`], [`decision`], [`refusal`], [`racing`], [`long`], [`reading`], [`tailing`], [`resync`];
//! - which runs there are: [`runs`], [`record`], [`listing`], [`retention`], [`plans`];
//! - who works on what: [`leases`], [`claims`], [`coordination`], [`inbox`];
//! - beside the log: [`checkpoints`], [`progress`], [`outbox`], [`delivery`], [`requests`];
//! - [`hostile`], [`zero`]: what a caller could send to break it.
//!
//! What the cases are made with: `cases` is the list of all of them, [`clock`] the time that they set, `handle` a store
//! and the calls that cases make, `drafts` and `samples` the events that they append, `verdict` what they expect, and
//! `race` many writers at once. Time is the [`ManualClock`]'s alone: a store that asks another clock fails.

pub mod append;
mod cases;
pub mod checkpoints;
pub mod claims;
pub mod clock;
pub mod coordination;
pub mod decision;
pub mod delivery;
mod drafts;
mod handle;
pub mod hostile;
pub mod inbox;
pub mod leases;
pub mod listing;
pub mod long;
pub mod outbox;
pub mod plans;
pub mod progress;
mod race;
pub mod racing;
pub mod reading;
pub mod record;
pub mod refusal;
pub mod requests;
pub mod resync;
pub mod retention;
pub mod runs;
mod samples;
pub mod tailing;
mod verdict;
pub mod zero;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::{Clock, StateStore};
use engine_core::{CheckpointId, RunId};

pub use clock::ManualClock;

/// How a store is had for one case. Cases run at the same time: two harnesses must not share data.
///
/// Give the store a write budget of a minute, if it has one: sixteen writers at once are slow on a small machine, and
/// an append that gives up is no answer to what a case asks. What fails in a harness panics.
#[async_trait]
pub trait Harness: Debug + Send + Sync + 'static {
    /// An empty store that takes the time from `clock`.
    async fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore>;

    /// Another handle on the data of that store, as another process has it; `None` when the data cannot be shared.
    async fn reopen(&self, clock: Arc<dyn Clock>) -> Option<Arc<dyn StateStore>>;

    /// Damages the stored content of a checkpoint behind the store's back.
    async fn damage_checkpoint(&self, run_id: &RunId, checkpoint_id: &CheckpointId);
}
