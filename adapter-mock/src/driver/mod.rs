//! One run, from lease to end: take the lease, fold the log, and then in turns: wait for something to happen, decide, append
//! once, act.
//!
//! - this file: when a driver waits, and why it leaves its run;
//! - `decide`: what a turn decides; `commit`: storing that, and acting on it;
//! - `record`: the lease and the log of a run.

mod commit;
mod decide;
mod record;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use engine_core::decider::AttemptRef;
use engine_core::event::Event;
use engine_core::port::store::Fence;
use engine_core::{Code, Result, RunId, TenantId, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::task::task_tracker::TaskTrackerToken;
use worker::History;

use crate::claimed::Following;
use crate::engine::Shared;
use crate::flights::{Flights, Input};
use crate::options::Handover;

/// How long to wait when the store is away; it has waited itself before it said so.
const AWAY: Duration = Duration::from_millis(250);

/// How a driver is told something.
pub(crate) struct Post {
    pub(crate) mailbox: UnboundedSender<Input>,
    pub(crate) inputs: UnboundedReceiver<Input>,
}

/// Why somebody attends to a run.
pub(crate) enum Occasion {
    /// It was made just now, with this engine's lease; this is its first event.
    Made(Box<Event>),
    /// There may be a signal, or it is to be started.
    Called,
    /// Nobody drove it. Whoever found it waits until its lease is taken, or cannot be.
    Found(TaskTrackerToken),
}

/// Drives a run until it ends, has nothing to do before somebody calls, or belongs to another.
pub(crate) async fn drive(
    shared: Arc<Shared>,
    tenant_id: TenantId,
    run_id: RunId,
    mut post: Post,
    occasion: Occasion,
) {
    let mut occasion = Some(occasion);
    loop {
        let busy = shared.busy();
        let why = occasion.take().unwrap_or(Occasion::Called);
        let outcome = match Driver::new(&shared, &tenant_id, &run_id, &mut post, why).await {
            Ok(mut driver) => {
                drop(busy);
                let outcome = driver.run().await;
                if outcome.is_err() {
                    driver.give_up().await;
                }
                outcome
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Leave::Crashed) => break,
            Ok(Leave::Ended) => shared.forget(&run_id),
            Ok(Leave::Aside) => {}
            Err(error) if error.code() == Code::LeaseHeld || error.code() == Code::LeaseLost => {
                tracing::debug!(%run_id, %error, "the run belongs to another process");
            }
            Err(error) => {
                tracing::error!(%run_id, %error, "the run cannot be driven by this process");
            }
        }
        // Whoever calls from here on finds no driver and makes one; whoever called before is heard now.
        let mut live = shared.live();
        if post.inputs.is_empty() || shared.stopping.is_cancelled() {
            live.remove(&run_id);
            return;
        }
        drop(live);
        while post.inputs.try_recv().is_ok() {}
    }
    shared.live().remove(&run_id);
}

/// Why a driver leaves its run.
enum Leave {
    /// It has ended.
    Ended,
    /// It waits for somebody to call, or the engine stops.
    Aside,
    /// A fault.
    Crashed,
}

/// What became of a turn.
enum Next {
    /// Something may follow at once.
    Again,
    /// Wait for something to happen, at most until this time.
    Wait(Option<Timestamp>),
    /// The run has ended.
    Ended,
    /// A fault.
    Crash,
}

struct Driver<'a> {
    shared: &'a Arc<Shared>,
    post: &'a mut Post,
    history: History,
    fence: Fence,
    emitted_by: Arc<str>,
    flights: Flights,
    /// What was told and is not in the log yet.
    told: Vec<Input>,
    /// Attempts that this driver knows to be between two tries, or about to begin: nobody was lost with them.
    between_tries: HashSet<AttemptRef>,
    /// Attempts that were handed out and given back, and when to hand them out again.
    not_again_before: HashMap<AttemptRef, Timestamp>,
    /// Hears of what workers write, where they write.
    _following: Option<Following>,
    look_for_signals: bool,
    stopping: bool,
}

impl<'a> Driver<'a> {
    async fn new(
        shared: &'a Arc<Shared>,
        tenant_id: &TenantId,
        run_id: &RunId,
        post: &'a mut Post,
        occasion: Occasion,
    ) -> Result<Self> {
        let look_for_signals = !matches!(occasion, Occasion::Made(_));
        let (fence, history) = match occasion {
            // It was made with this engine's lease, the first there is.
            Occasion::Made(queued) => (Fence(1), record::begin(shared, tenant_id, run_id, &queued).await?),
            occasion => {
                let _permit = shared.reading.acquire().await;
                let fence = record::lease(shared, run_id).await?;
                if let Occasion::Found(waiting) = occasion {
                    drop(waiting);
                }
                match record::load(shared, tenant_id, run_id, fence).await {
                    Ok(history) => (fence, history),
                    Err(error) => {
                        // Another may know what this process does not.
                        let _ = shared.store().release(run_id, fence).await;
                        return Err(error);
                    }
                }
            }
        };
        let emitted_by = Arc::from(shared.worker.name());
        let following = match shared.options.handover {
            Handover::Direct => None,
            Handover::Claimed { .. } => {
                let after = history.run().state().folded_through();
                Some(Following::new(shared, tenant_id, run_id, after, post.mailbox.clone()))
            }
        };
        let mut driver = Self {
            shared,
            post,
            history,
            fence,
            emitted_by,
            flights: Flights::default(),
            told: Vec::new(),
            between_tries: HashSet::new(),
            not_again_before: HashMap::new(),
            _following: following,
            look_for_signals,
            stopping: false,
        };
        let now = driver.now();
        for task in driver.history.run().actions().dispatch {
            if task.not_before.is_some_and(|at| at > now) {
                driver.between_tries.insert(task.attempt);
            }
        }
        Ok(driver)
    }

    fn now(&self) -> Timestamp {
        self.shared.worker.time().now()
    }

    async fn run(&mut self) -> Result<Leave> {
        loop {
            let busy = self.shared.busy();
            self.stopping = self.shared.stopping.is_cancelled();
            self.gather();
            let due = match self.turn().await? {
                Next::Again => continue,
                Next::Wait(due) => due,
                Next::Ended => return Ok(Leave::Ended),
                Next::Crash => return Ok(Leave::Crashed),
            };
            let nothing_to_do = self.flights.is_empty() && self.told.is_empty();
            if nothing_to_do && (self.stopping || (due.is_none() && !self.look_for_signals)) {
                self.leave().await?;
                return Ok(Leave::Aside);
            }
            drop(busy);
            let alarm = async {
                match due {
                    Some(due) => self.shared.worker.time().alarm(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = self.post.inputs.recv() => self.told.extend(input),
                () = self.shared.stopping.cancelled(), if !self.stopping => {}
                () = alarm => {}
            }
        }
    }

    /// Takes all that was told.
    fn gather(&mut self) {
        while let Ok(input) = self.post.inputs.try_recv() {
            self.told.push(input);
        }
    }

    /// Gives a run back that this process cannot go on with: it, or another, tries again soon. Kept, the lease would be
    /// renewed, and nobody would.
    async fn give_up(&self) {
        if let Err(error) = self.shared.store().release(self.history.run_id(), self.fence).await {
            tracing::debug!(run_id = %self.history.run_id(), %error, "the lease is left to run out");
        }
    }

    /// Gives the run back: somebody calls when there is something to do, or, when the engine stops, another takes it.
    async fn leave(&mut self) -> Result<()> {
        let run_id = self.history.run_id();
        let store = self.shared.store();
        if !self.stopping {
            store.acted(run_id, self.history.run().state().watermark()).await?;
        }
        store.release(run_id, self.fence).await
    }
}
