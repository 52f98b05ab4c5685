//! Holding an attempt while it runs, so that no other worker takes it (WORKER-5, WORKER-6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine_core::port::store::{ClaimRequest, UnclaimRequest};
use engine_core::port::{StateStore, Timekeeper};
use engine_core::{Code, Result, Timestamp};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A claim that renews itself. Dropping it ends the renewals and leaves the claim to expire.
#[derive(Debug)]
pub(crate) struct Claim {
    store: Arc<dyn StateStore>,
    request: ClaimRequest,
    taken_at: Timestamp,
    lost: Arc<AtomicBool>,
    renewals: JoinHandle<()>,
}

impl Claim {
    /// Takes the claim. `stop` fires when it is lost.
    ///
    /// # Errors
    /// `LEASE_HELD` while another's claim runs, and whatever the store says.
    pub(crate) async fn take(
        store: &Arc<dyn StateStore>,
        time: &Arc<dyn Timekeeper>,
        request: ClaimRequest,
        stop: CancellationToken,
    ) -> Result<Self> {
        // Counted from before the call: by then nobody has it for longer than we believe.
        let taken_at = time.now();
        store.claim(request.clone()).await?;
        let lost = Arc::new(AtomicBool::new(false));
        let renewals = tokio::spawn(renew(
            Renewals {
                store: store.clone(),
                time: time.clone(),
                request: request.clone(),
                renewed_at: taken_at,
            },
            lost.clone(),
            stop,
        ));
        Ok(Self { store: store.clone(), request, taken_at, lost, renewals })
    }

    /// Until when it holds if it is not renewed.
    pub(crate) fn until(&self) -> Timestamp {
        self.taken_at.plus_millis(self.request.duration_ms)
    }

    /// Whether another worker may have the attempt by now.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Gives the claim back, so that the next delivery need not wait for it to expire.
    pub(crate) async fn give_back(self) {
        self.renewals.abort();
        let ClaimRequest { run_id, step_id, attempt, worker, .. } = self.request.clone();
        let request = UnclaimRequest { run_id, step_id, attempt, worker };
        if let Err(error) = self.store.unclaim(request).await {
            tracing::debug!(%error, "a claim was not given back and will expire");
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.renewals.abort();
    }
}

struct Renewals {
    store: Arc<dyn StateStore>,
    time: Arc<dyn Timekeeper>,
    request: ClaimRequest,
    renewed_at: Timestamp,
}

async fn renew(mut renewals: Renewals, lost: Arc<AtomicBool>, stop: CancellationToken) {
    let third = renewals.request.duration_ms / 3;
    let mut next = renewals.renewed_at.plus_millis(third);
    loop {
        // Beside the work that it keeps: virtual time does not pass for its sake.
        renewals.time.alarm(next).await;
        let now = renewals.time.now();
        let over = renewals.renewed_at.plus_millis(renewals.request.duration_ms);
        match renewals.store.claim(renewals.request.clone()).await {
            Ok(()) => {
                renewals.renewed_at = now;
                next = now.plus_millis(third);
            }
            // A store that is away gives the claim to nobody else either, as long as it has not expired.
            Err(error) if error.is_retryable() && error.code() != Code::LeaseHeld && now < over => {
                next = now.plus_millis((third / 4).max(1));
            }
            Err(error) => {
                tracing::warn!(run_id = %renewals.request.run_id, step_id = %renewals.request.step_id, %error,
                    "the claim on an attempt is lost");
                lost.store(true, Ordering::Release);
                stop.cancel();
                return;
            }
        }
    }
}
