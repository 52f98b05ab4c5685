//! What a run's driver has handed out: activities that have not returned.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use engine_core::decider::AttemptRef;
use temporalio_sdk::{ActivityExecutionError, WorkflowCancellationToken};

use crate::carried::Done;

/// What an activity comes back with.
pub(crate) type Landed = Result<Done, ActivityExecutionError>;

/// Which errand an activity is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) attempt: AttemptRef,
    /// Which try at undoing it this is.
    pub(crate) undo: Option<u32>,
}

/// Activities that have not returned, in the order in which they were handed out: a driver must always look at them in
/// the same order.
#[derive(Default)]
pub(crate) struct Flights<'a> {
    flying: Vec<Flight<'a>>,
}

struct Flight<'a> {
    purpose: Purpose,
    stop: WorkflowCancellationToken,
    local: bool,
    future: Pin<Box<dyn Future<Output = Landed> + 'a>>,
}

impl Flight<'_> {
    /// Asks it to stop. A local one is in this process and hears of it otherwise, see [`crate::stops`]; and Temporal must
    /// not be asked: cancelling a local activity that has just returned, unheard as yet, breaks the workflow.
    fn cancel(&self, reason: &str) {
        if !self.local && !self.stop.is_cancelled() {
            self.stop.cancel_with_reason(reason);
        }
    }
}

impl<'a> Flights<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Whether any of them runs beside the workflow itself.
    pub(crate) fn has_local(&self) -> bool {
        self.flying.iter().any(|flight| flight.local)
    }

    pub(crate) fn has(&self, purpose: &Purpose) -> bool {
        self.flying.iter().any(|flight| flight.purpose == *purpose)
    }

    pub(crate) fn launch(
        &mut self,
        purpose: Purpose,
        stop: WorkflowCancellationToken,
        local: bool,
        future: impl Future<Output = Landed> + 'a,
    ) {
        self.flying.push(Flight { purpose, stop, local, future: Box::pin(future) });
    }

    /// Asks an activity to stop; `false` when there is none.
    pub(crate) fn cancel(&self, attempt: &AttemptRef) -> bool {
        let flight = self.flying.iter().find(|flight| flight.purpose.attempt == *attempt);
        flight.inspect(|flight| flight.cancel("the run stops it")).is_some()
    }

    /// Lets go of what is not wanted any more: it is asked to stop, and nobody waits for it.
    pub(crate) fn keep(&mut self, mut wanted: impl FnMut(&Purpose) -> bool) {
        self.flying.retain(|flight| {
            let keep = wanted(&flight.purpose);
            if !keep {
                flight.cancel("the log has its end");
            }
            keep
        });
    }

    /// Everything that has come back.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Vec<(Purpose, Landed)> {
        let mut landed = Vec::new();
        let mut place = 0;
        while let Some(flight) = self.flying.get_mut(place) {
            match flight.future.as_mut().poll(context) {
                Poll::Ready(result) => landed.push((self.flying.remove(place).purpose, result)),
                Poll::Pending => place += 1,
            }
        }
        landed
    }
}
