//! Reading runs: snapshots, lists, live events, waiting for the end. Everything comes from the log, nothing from the
//! engine.

use std::sync::Arc;

use engine_core::event::{Body, Event};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::Operation;
use engine_core::port::store::{ListRequest, PageKey, ReadRequest, RunPage, RunRecord, StepProgress};
use engine_core::projection::{Projection, RunSnapshot};
use engine_core::{Code, Error, PlanId, Result, RunId, Timestamp};
use futures_core::stream::BoxStream;
use futures_util::StreamExt as _;

use crate::Client;

/// Events that are read at once.
pub(crate) const PAGE: usize = 1000;

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only these statuses; empty: all.
    pub statuses: Vec<RunStatus>,
    /// Only runs of this plan.
    pub plan_id: Option<PlanId>,
    /// Only runs made at or after this time.
    pub from: Option<Timestamp>,
    /// Only runs made before this time.
    pub until: Option<Timestamp>,
    /// Continue after the page that gave this.
    pub after: Option<PageKey>,
    /// At most so many; 0 is 50.
    pub limit: usize,
}

impl Client {
    /// A run as it stands now.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn get(&self, run_id: &RunId) -> Result<RunSnapshot> {
        Ok(self.projection(run_id).await?.snapshot(self.0.clock.now()))
    }

    /// What is known about a run without its log.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn find(&self, run_id: &RunId) -> Result<RunRecord> {
        self.authorize(&self.0.actor, Operation::Read(run_id.clone())).await?;
        self.0.store.find(self.tenant(), run_id).await
    }

    /// How far the steps are that tell it, each from 0 to 1. One that succeeded is at 1, whatever it told last
    /// (STEP-8); one that failed or was cancelled keeps what it had.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn step_progress(&self, run_id: &RunId) -> Result<Vec<StepProgress>> {
        self.authorize(&self.0.actor, Operation::Read(run_id.clone())).await?;
        let mut told = self.0.store.progress(self.tenant(), run_id).await?;
        if told.iter().any(|step| step.done < 1.0) {
            let projection = self.projection(run_id).await?;
            for step in &mut told {
                let latest = projection.run().attempt(step.step_id.as_str());
                if let Some(latest) = latest.filter(|latest| latest.status == StepStatus::Success) {
                    (step.attempt, step.done) = (latest.attempt, 1.0);
                }
            }
        }
        Ok(told)
    }

    /// Runs, newest first, a page at a time.
    ///
    /// # Errors
    /// `INVALID_ID` when the page key is none of this store's.
    pub async fn list(&self, filter: ListFilter) -> Result<RunPage> {
        self.authorize(&self.0.actor, Operation::List).await?;
        self.0
            .store
            .list(ListRequest {
                tenant_id: self.tenant().clone(),
                statuses: filter.statuses,
                plan_id: filter.plan_id,
                from: filter.from,
                until: filter.until,
                after: filter.after,
                limit: if filter.limit == 0 { 50 } else { filter.limit },
            })
            .await
    }

    /// The plan of a run.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run, `PLAN_MISSING` when its plan is gone.
    pub async fn plan_of(&self, run_id: &RunId) -> Result<Arc<CompiledPlan>> {
        let record = self.find(run_id).await?;
        self.stored_plan(&record.plan_hash).await
    }

    async fn stored_plan(&self, hash: &str) -> Result<Arc<CompiledPlan>> {
        let text = self.0.store.plan(self.tenant(), hash).await?;
        let plan: Plan = serde_json::from_str(&text).map_err(|cause| {
            Error::new(Code::PlanInvalid, format!("the stored plan {hash} cannot be read")).with_source(cause)
        })?;
        Ok(Arc::new(CompiledPlan::new(plan)?))
    }

    /// The projection of a run: its snapshot, and the run behind it.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn projection(&self, run_id: &RunId) -> Result<Projection> {
        let mut projection = Projection::new(self.plan_of(run_id).await?);
        self.each_event(run_id, |event| {
            projection.apply(event);
        })
        .await?;
        Ok(projection)
    }

    /// Hands every event that is in the log now to `see`, in order.
    pub(crate) async fn each_event(&self, run_id: &RunId, mut see: impl FnMut(&Event)) -> Result<()> {
        let mut after = 0;
        loop {
            let events = self.events(run_id, after, PAGE).await?;
            let Some(last) = events.last() else { return Ok(()) };
            after = last.run_seq;
            events.iter().for_each(&mut see);
        }
    }

    /// Events after a place in the log, in order, at most `limit`.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn events(&self, run_id: &RunId, after: u64, limit: usize) -> Result<Vec<Event>> {
        self.authorize(&self.0.actor, Operation::Read(run_id.clone())).await?;
        let request = ReadRequest { tenant_id: self.tenant().clone(), run_id: run_id.clone(), after, limit };
        self.0.store.read(request).await
    }

    /// Every event of a run after a place in its log, then each new one as it is stored, until the run has ended. It
    /// misses none and repeats none, also when the store was away meanwhile.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn observe(&self, run_id: &RunId, after: u64) -> Result<BoxStream<'static, Result<Event>>> {
        let record = self.find(run_id).await?;
        let request =
            ReadRequest { tenant_id: self.tenant().clone(), run_id: run_id.clone(), after, limit: PAGE };
        let tail = self.0.store.tail(request);
        // What is in the log of an ended run already is all that is told of it.
        let last = record.status.is_terminal().then_some(record.last_event_seq);
        if last.is_some_and(|last| last <= after) {
            return Ok(futures_util::stream::empty().boxed());
        }
        let stream = futures_util::stream::unfold((tail, false), move |(mut tail, done)| async move {
            if done {
                return None;
            }
            let event = tail.next().await?;
            let done = match (&event, last) {
                (Err(_), _) => true,
                (Ok(event), Some(last)) => event.run_seq >= last,
                (Ok(event), None) => ends_a_run(event),
            };
            Some((event, (tail, done)))
        });
        Ok(stream.boxed())
    }

    /// Waits until a run has ended.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn wait(&self, run_id: &RunId) -> Result<RunSnapshot> {
        self.wait_until(run_id, |snapshot| snapshot.status.is_some_and(RunStatus::is_terminal)).await
    }

    /// Waits until a run is as `enough` wants it, or has ended.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn wait_until(
        &self,
        run_id: &RunId,
        mut enough: impl FnMut(&RunSnapshot) -> bool + Send,
    ) -> Result<RunSnapshot> {
        let mut projection = Projection::new(self.plan_of(run_id).await?);
        let mut events = self.observe(run_id, 0).await?;
        while let Some(event) = events.next().await {
            projection.apply(&event?);
            let snapshot = projection.snapshot(self.0.clock.now());
            if enough(&snapshot) {
                return Ok(snapshot);
            }
        }
        Ok(projection.snapshot(self.0.clock.now()))
    }

    /// The output of a completed run; `None` when it has none or has not completed.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn output(&self, run_id: &RunId) -> Result<Option<engine_core::event::step::StepOutput>> {
        let record = self.find(run_id).await?;
        if record.status != RunStatus::Completed {
            return Ok(None);
        }
        let mut output = None;
        self.each_event(run_id, |event| {
            if let Body::RunCompleted(completed) = &event.body {
                output.clone_from(&completed.output);
            }
        })
        .await?;
        Ok(output)
    }
}

/// Whether nothing but audit events can follow.
#[must_use]
pub fn ends_a_run(event: &Event) -> bool {
    matches!(event.body, Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_))
}
