//! Attempts that are handed out with claims, as a server does it: [`crate::Handover::Claimed`]. The worker writes what
//! becomes of them; the driver follows the log.

use std::pin::pin;
use std::sync::Arc;

use engine_core::port::store::ReadRequest;
use engine_core::{Result, RunId, TenantId};
use futures_util::StreamExt as _;
use futures_util::future::{join, join_all, poll_immediate};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use worker::{Delivery, Outcome, Standing};

use crate::engine::Shared;
use crate::flights::Input;

/// More events than are written at once.
const PAGE: usize = 1000;

/// Hands an attempt out, `copies` times while the first is at work, and once more when the attempt has ended. `false` when
/// nothing came of it, and it has to be handed out again later.
pub(crate) async fn deliver(shared: &Shared, delivery: &Delivery, copies: usize) -> bool {
    let mut first = pin!(shared.worker.attempt(delivery.clone()));
    let mut outcomes = Vec::new();
    match poll_immediate(first.as_mut()).await {
        // It was done before anybody could come in between.
        Some(outcome) => outcomes.push(outcome),
        None => {
            let others = join_all((1..copies).map(|_| shared.worker.attempt(delivery.clone())));
            let (one, others) = join(first, others).await;
            outcomes.push(one);
            outcomes.extend(others);
        }
    }
    let standings: Vec<Standing> = outcomes.into_iter().filter_map(standing).collect();
    if copies > 1 && standings.contains(&Standing::Ended) {
        let _ = shared.worker.attempt(delivery.clone()).await;
    }
    !standings.iter().all(|standing| matches!(standing, Standing::GivenBack | Standing::NotReleased))
}

fn standing(outcome: Result<Outcome>) -> Option<Standing> {
    match outcome {
        Ok(outcome) => Some(outcome.standing),
        Err(error) => {
            tracing::warn!(%error, "an attempt was handed out and nothing came of it");
            None
        }
    }
}

/// Tells a driver whenever its run's log has grown, until it is dropped.
#[derive(Debug)]
pub(crate) struct Following(AbortHandle);

impl Following {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        tenant_id: &TenantId,
        run_id: &RunId,
        after: u64,
        mailbox: UnboundedSender<Input>,
    ) -> Self {
        let request =
            ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after, limit: PAGE };
        let mut events = shared.store().tail(request);
        Self(shared.spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                if mailbox.send(Input::Grown(event.run_seq)).is_err() {
                    return;
                }
            }
        }))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}
