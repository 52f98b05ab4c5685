//! Finding runs that nobody drives, keeping the leases of those that this process drives, and hearing of signals.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine_core::{Code, Result, RunId};
use futures_util::StreamExt as _;
use tokio_util::task::TaskTracker;

use crate::driver::Occasion;
use crate::engine::Shared;
use crate::options::Recover;

/// Runs looked at in one go.
const PAGE: usize = 500;
/// How long to wait when the store is away.
const AWAY: Duration = Duration::from_millis(250);

/// Takes what nobody drives, and starts listening.
///
/// # Errors
/// Whatever the store says when it cannot be asked.
pub(crate) async fn open(shared: &Arc<Shared>) -> Result<()> {
    // Before the first look: what comes in between is then heard.
    let arrivals = shared.store().arrivals();
    look(shared).await?;
    let listener = Arc::clone(shared);
    shared.spawn(async move {
        let mut arrivals = arrivals;
        loop {
            let arrived = tokio::select! {
                () = listener.stopping.cancelled() => return,
                arrived = arrivals.next() => arrived,
            };
            let Some(run_id) = arrived else { return };
            if !listener.minds(&run_id) {
                continue;
            }
            called(&listener, &run_id).await;
        }
    });
    let keeper = Arc::clone(shared);
    // Not by virtual time: a lease is kept by a process that lives, whatever its clock shows.
    tokio::spawn(async move {
        let every = keeper.options.lease / 3;
        loop {
            tokio::select! {
                () = keeper.stopping.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            keep(&keeper).await;
        }
    });
    Ok(())
}

/// Renews the leases, then looks for runs that others have left behind.
async fn keep(shared: &Arc<Shared>) {
    let lease_ms = u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX);
    let renewed = match shared.store().renew(&shared.holder, lease_ms).await {
        Ok(_) => look(shared).await,
        Err(error) => Err(error),
    };
    if let Err(error) = renewed {
        tracing::warn!(%error, "the leases of this process cannot be renewed for now");
    }
}

/// Attends to what nobody drives and has something to do.
async fn look(shared: &Arc<Shared>) -> Result<()> {
    let _busy = shared.busy();
    match shared.options.recover {
        Recover::All => recover(shared).await,
        Recover::OnlyAsked => revisit(shared).await,
    }
}

/// Attends to every run that nobody drives and that has something to do.
async fn recover(shared: &Arc<Shared>) -> Result<()> {
    let mut seen = HashSet::new();
    loop {
        let found = shared.store().unattended(PAGE).await?;
        let leases = TaskTracker::new();
        let mut new = 0;
        for run in &found {
            // One that was seen in this look cannot be driven by this process: another may, or a later look.
            if seen.insert(run.run_id.clone()) && !shared.live().contains_key(&run.run_id) {
                shared.attend(&run.tenant_id, &run.run_id, Occasion::Found(leases.token()));
                new += 1;
            }
        }
        if new == 0 || found.len() < PAGE {
            break;
        }
        // Once what was found has its leases, the next page shows what comes after it.
        leases.close();
        leases.wait().await;
    }
    for run_id in shared.store().awaited(PAGE).await? {
        called(shared, &run_id).await;
    }
    Ok(())
}

/// Attends to those that were asked for and that have something to do again: whoever drove them is gone, or a signal
/// went unheard.
async fn revisit(shared: &Arc<Shared>) -> Result<()> {
    for run_id in shared.idle() {
        let record = match shared.store().identify(&run_id).await {
            Err(error) if error.code() == Code::NotFound => {
                shared.forget(&run_id);
                continue;
            }
            record => record?,
        };
        if record.status.is_terminal() {
            shared.forget(&run_id);
        } else if record.last_event_seq > record.acted_seq
            || !shared.store().undecided(&run_id).await?.is_empty()
        {
            shared.attend(&record.tenant_id, &run_id, Occasion::Called);
        }
    }
    Ok(())
}

/// A signal has come for a run.
async fn called(shared: &Arc<Shared>, run_id: &RunId) {
    let _busy = shared.busy();
    loop {
        if let Some(mailbox) = shared.live().get(run_id) {
            let _ = mailbox.send(crate::flights::Input::Look);
            return;
        }
        match shared.store().identify(run_id).await {
            Ok(record) => return shared.attend(&record.tenant_id, run_id, Occasion::Called),
            Err(error) if error.code() == Code::NotFound => return,
            Err(error) => {
                tracing::warn!(%error, %run_id, "a signal has come and its run cannot be read for now");
                tokio::time::sleep(AWAY).await;
            }
        }
        if shared.stopping.is_cancelled() {
            return;
        }
    }
}
