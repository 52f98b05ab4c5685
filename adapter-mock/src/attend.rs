//! Finding runs that nobody drives, keeping the leases of those that this process drives, and hearing of signals.

use std::sync::Arc;
use std::time::Duration;

use engine_core::event::Slot;
use engine_core::port::store::ReadRequest;
use engine_core::{Code, Result, RunId};
use futures_util::StreamExt as _;

use crate::engine::Shared;

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

/// Attends to every run that nobody drives and that has something to do.
async fn look(shared: &Arc<Shared>) -> Result<()> {
    let _busy = shared.busy();
    loop {
        let found = shared.store().unattended(PAGE).await?;
        let new: Vec<_> = found.iter().filter(|run| !shared.live().contains_key(&run.run_id)).collect();
        for run in &new {
            shared.attend(&run.tenant_id, &run.run_id, None);
        }
        // What was just found has its leases soon; then the next page shows what comes after it.
        if new.is_empty() || found.len() < PAGE {
            break;
        }
        let last: RunId = found[found.len() - 1].run_id.clone();
        while shared.store().unattended(PAGE).await?.iter().any(|run| run.run_id == last) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for run_id in shared.store().awaited(PAGE).await? {
        if shared.store().undecided(&run_id).await?.is_empty() {
            take_out_decided(shared, &run_id).await?;
        } else {
            called(shared, &run_id).await;
        }
    }
    Ok(())
}

/// Whoever decided these signals was gone before it took them out. Left there, they would bring somebody to look at the
/// run again and again, and hide other runs behind them.
async fn take_out_decided(shared: &Arc<Shared>, run_id: &RunId) -> Result<()> {
    let store = shared.store();
    let tenant_id = store.identify(run_id).await?.tenant_id;
    let mut after = 0;
    loop {
        let request =
            ReadRequest { tenant_id: tenant_id.clone(), run_id: run_id.clone(), after, limit: PAGE };
        let events = store.read(request).await?;
        let Some(last) = events.last() else { return Ok(()) };
        after = last.run_seq;
        for event in &events {
            if let Some(Slot::SignalDecision(signal_id)) = Slot::of(event.subject.as_ref(), &event.body) {
                store.decided(run_id, &signal_id).await?;
            }
        }
    }
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
            Ok(record) => return shared.attend(&record.tenant_id, run_id, None),
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
