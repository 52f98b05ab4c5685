//! The whole way of one delivery: log, claim, StepStarted, handler, end.
//!
//! - `visit`: what is done in which order; `telling`: what goes into the log, and when it is late;
//! - `reviews`: review requests on their way into the log.

mod reviews;
mod telling;
mod visit;

use std::sync::Arc;

use engine_core::event::Event;
use engine_core::port::StepObserver;
use engine_core::{Code, Result, RunId, StepId, TenantId};
use tokio_util::sync::CancellationToken;

use crate::claim::Claim;
use crate::worker::Worker;
use visit::Visit;

/// An attempt that an engine hands to a worker. Ids, never payloads (DATA-5).
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Who owns the run.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// The engine's own counter, if it has one.
    pub engine_attempt: Option<u32>,
    /// The run's driver itself handed the attempt out; its word counts (WORKER-19).
    pub released_by_driver: bool,
    /// Fires when the attempt must stop: the run is cancelled, or this worker shuts down.
    pub cancellation: CancellationToken,
    /// Takes log lines and progress. Review requests go into the log, and it hears of them once they stand there.
    pub observer: Option<Arc<dyn StepObserver>>,
}

impl Delivery {
    /// A delivery that nobody stops or listens to.
    #[must_use]
    pub fn new(tenant_id: TenantId, run_id: RunId, step_id: StepId, attempt: u32) -> Self {
        Self {
            tenant_id,
            run_id,
            step_id,
            attempt,
            engine_attempt: None,
            released_by_driver: false,
            cancellation: CancellationToken::new(),
            observer: None,
        }
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Where the attempt stands.
    pub standing: Standing,
    /// Every event of the log about the attempt, in order: for a driver that folds what its workers return.
    pub events: Vec<Event>,
}

/// Where an attempt stands after a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has ended, now or before; its end is the last of the events that ends an attempt.
    Ended,
    /// Its handler is done, and a person must complete it.
    Waiting,
    /// A try failed; deliver it again after at least so many milliseconds.
    TryAgain {
        /// The delay.
        delay_ms: u64,
    },
    /// Another worker has it, or took it over, or this worker is shutting down: deliver it again later. The handler of
    /// this delivery does not run any more.
    GivenBack,
    /// The log does not tell of its release; deliver it again once it does.
    NotReleased,
    /// The run has ended without it.
    RunEnded,
}

impl Worker {
    /// Does a delivered attempt from the first look into the log to the record of its end.
    ///
    /// An attempt that has ended is not done again; one that another worker holds is given back. A `StepStarted` that
    /// cannot be written in time does not stop the handler; an end that cannot is written again until it is (BUDGET-2 to
    /// BUDGET-6).
    ///
    /// # Errors
    /// What keeps the log from being read or written: deliver it again.
    pub async fn attempt(&self, delivery: Delivery) -> Result<Outcome> {
        let mut visit = Visit::open(self, delivery).await?;
        if let Some(standing) = visit.settled() {
            return Ok(visit.outcome(standing));
        }
        let stop = visit.delivery.cancellation.child_token();
        let claim = match Claim::take(&self.shared.store, &self.shared.time, visit.claim(), stop.clone())
            .await
        {
            Ok(claim) => claim,
            // WORKER-7.
            Err(error) if error.code() == Code::LeaseHeld => return Ok(visit.outcome(Standing::GivenBack)),
            Err(error) => return Err(error),
        };
        let standing = visit.work(&claim, &stop).await;
        claim.give_back().await;
        Ok(visit.outcome(standing?))
    }
}
