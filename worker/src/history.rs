//! What a worker knows of a run: the fold of its log and what its steps left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine_core::decider::{Run, origin};
use engine_core::event::run::{Origin, RunContext, RunQueued};
use engine_core::event::step::StepOutput;
use engine_core::event::{Body, Event, Subject};
use engine_core::plan::compiled::StepIndex;
use engine_core::port::StateStore;
use engine_core::port::store::ReadRequest;
use engine_core::{Code, Error, Result, RunId, StepId, TenantId};
use serde_json::Value;

use crate::code::{PlanCode, Plans};

/// How many events are read at once.
const PAGE: usize = 1000;

/// What a worker knows of a run.
#[derive(Debug)]
pub struct History {
    tenant_id: TenantId,
    run_id: RunId,
    code: Arc<PlanCode>,
    run: Run,
    queued: Option<Arc<RunQueued>>,
    context: Option<Arc<RunContext>>,
    left: Vec<Left>,
    /// Outputs of steps that were taken over from another run, once somebody looked at them.
    taken_over: Mutex<HashMap<StepIndex, Arc<StepOutput>>>,
    /// The run's input, when it had to be fetched from the artifact store.
    input: OnceLock<Value>,
}

/// What the attempts of one step left.
#[derive(Clone, Debug, Default)]
struct Left {
    /// Of the latest success, and of which attempt that is.
    success: Option<(u32, Arc<StepOutput>)>,
    /// Of an attempt that waits for a person; its output unless the person brings another.
    waiting: Option<(u32, Arc<StepOutput>)>,
}

impl History {
    /// A run whose log is empty.
    #[must_use]
    pub fn new(tenant_id: TenantId, run_id: RunId, code: Arc<PlanCode>) -> Self {
        let run = Run::new(code.plan.clone());
        Self::with_run(tenant_id, run_id, code, run)
    }

    fn with_run(tenant_id: TenantId, run_id: RunId, code: Arc<PlanCode>, run: Run) -> Self {
        let left = vec![Left::default(); code.plan.len()];
        Self {
            tenant_id,
            run_id,
            code,
            run,
            queued: None,
            context: None,
            left,
            taken_over: Mutex::default(),
            input: OnceLock::new(),
        }
    }

    /// The run that its log tells of, read from the store.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run; `PLAN_MISSING`, `PLAN_HASH_MISMATCH` and `UNKNOWN_DECIDER_VERSION`
    /// when this process must leave the run alone; whatever the store says when it is away.
    pub async fn load(
        store: &dyn StateStore,
        plans: &Plans,
        tenant_id: &TenantId,
        run_id: &RunId,
    ) -> Result<Self> {
        Self::read(store, plans, tenant_id, run_id, |_| {}).await
    }

    /// The same, and `see` is shown every event.
    pub(crate) async fn read(
        store: &dyn StateStore,
        plans: &Plans,
        tenant_id: &TenantId,
        run_id: &RunId,
        mut see: impl FnMut(&Event),
    ) -> Result<Self> {
        let events = read_after(store, tenant_id, run_id, 0).await?;
        let Some(Body::RunQueued(queued)) = events.first().map(|event| &event.body) else {
            return Err(Error::new(
                Code::NotFound,
                format!("the log of run {run_id} does not begin with RunQueued"),
            )
            .with_hint("the run was made by another program; leave it to that"));
        };
        let code = plans.get(store, tenant_id, &queued.plan_ref.sha256).await?;
        // The fold checks versions and hashes; what the steps left is noted beside it.
        let run = Run::fold(code.plan.clone(), &events)?;
        let mut history = Self::with_run(tenant_id.clone(), run_id.clone(), code, run);
        for event in &events {
            history.note(event);
            see(event);
        }
        Ok(history)
    }

    /// Folds what was stored after this history was read, and shows it to `see`.
    pub(crate) async fn catch_up(
        &mut self,
        store: &dyn StateStore,
        mut see: impl FnMut(&Event),
    ) -> Result<()> {
        let after = self.run.state().folded_through();
        for event in read_after(store, &self.tenant_id, &self.run_id, after).await? {
            self.evolve(&event);
            see(&event);
        }
        Ok(())
    }

    /// Folds one event. Outputs are kept behind a pointer; everything else is as small as the decider's state.
    pub fn evolve(&mut self, event: &Event) {
        self.run.evolve(event);
        self.note(event);
    }

    fn note(&mut self, event: &Event) {
        match (&event.body, &event.subject) {
            (Body::RunQueued(queued), _) if self.queued.is_none() => {
                self.context = Some(Arc::new(queued.context.clone()));
                self.queued = Some(Arc::new((**queued).clone()));
            }
            (Body::StepWaiting(waiting), Some(subject)) => {
                if let (Some(left), Some(output)) = (self.left_by(subject), &waiting.output) {
                    left.waiting = Some((subject.attempt, Arc::new(output.clone())));
                }
            }
            (Body::StepCompleted(completed), Some(subject)) => {
                let Some(left) = self.left_by(subject) else { return };
                if left.success.as_ref().is_some_and(|(attempt, _)| *attempt >= subject.attempt) {
                    return;
                }
                let waited = left.waiting.take().filter(|(attempt, _)| *attempt == subject.attempt);
                let output = match waited {
                    Some((_, waited)) if completed.manual.is_some() && completed.output.is_empty() => waited,
                    _ => Arc::new(completed.output.clone()),
                };
                left.success = Some((subject.attempt, output));
            }
            _ => {}
        }
    }

    fn left_by(&mut self, subject: &Subject) -> Option<&mut Left> {
        let index = self.code.plan.find(subject.step.as_str())?;
        Some(&mut self.left[index.position()])
    }

    /// The run as decisions see it.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The same, for whoever takes what was released.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// The run's first event, once it is folded.
    #[must_use]
    pub fn queued(&self) -> Option<&Arc<RunQueued>> {
        self.queued.as_ref()
    }

    /// The plan.
    #[must_use]
    pub fn code(&self) -> &Arc<PlanCode> {
        &self.code
    }

    /// Who owns the run.
    #[must_use]
    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant_id
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub(crate) fn context(&self) -> Result<&Arc<RunContext>> {
        self.context.as_ref().ok_or_else(|| self.not_queued())
    }

    /// The run's input, unless it must be fetched first.
    pub(crate) fn input(&self) -> Result<RunInputSeen<'_>> {
        let input = &self.queued.as_ref().ok_or_else(|| self.not_queued())?.input;
        Ok(match (&input.value, &input.artifact, self.input.get()) {
            (Some(value), _, _) | (None, _, Some(value)) => RunInputSeen::Here(value),
            (None, Some(artifact), None) => RunInputSeen::Elsewhere(artifact),
            (None, None, None) => RunInputSeen::Here(&Value::Null),
        })
    }

    pub(crate) fn keep_input(&self, input: Value) {
        let _ = self.input.set(input);
    }

    /// What a step left when it succeeded last, if it did so in this run or was asked for before.
    pub(crate) fn output(&self, step: StepIndex) -> Option<(u32, Arc<StepOutput>)> {
        if let Some(success) = &self.left[step.position()].success {
            return Some(success.clone());
        }
        let taken_over = self.taken_over.lock().unwrap_or_else(PoisonError::into_inner);
        taken_over.get(&step).map(|output| (1, output.clone()))
    }

    /// Finds the output of a step that was taken over from another run: it stands in that run's log (ORIGIN-6).
    pub(crate) async fn fetch_taken_over(&self, store: &dyn StateStore, step: StepIndex) -> Result<()> {
        let id = &self.code.plan.step(step).id;
        let mut from = self.queued.as_ref().and_then(|queued| queued.origin.clone());
        let output = loop {
            let Some(found) = from.as_ref().and_then(|origin| taken_from(origin, id)) else {
                return Err(Error::new(
                    Code::OriginInvalid,
                    format!("run {} took step {id} over, and no run tells its output", self.run_id),
                )
                .with_hint("run the plan again from the start"));
            };
            if let Some(output) = &found.output {
                break output.clone();
            }
            let source = found.run_id;
            if found.place > 0 {
                break self.output_at(store, &source, found.place).await?;
            }
            // The source took it over itself.
            let first = read_one(store, &self.tenant_id, &source, 1).await?;
            from = match first.map(|event| event.body) {
                Some(Body::RunQueued(queued)) => queued.origin,
                _ => None,
            };
        };
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner).insert(step, Arc::new(output));
        Ok(())
    }

    async fn output_at(&self, store: &dyn StateStore, source: &RunId, place: u64) -> Result<StepOutput> {
        let Some(event) = read_one(store, &self.tenant_id, source, place).await? else {
            return Err(Error::new(Code::NotFound, format!("run {source} has no event {place}"))
                .with_hint("the log of a run must stay as long as others take outputs from it"));
        };
        if matches!(&event.body, Body::StepCompleted(completed) if completed.manual.is_some()) {
            // What a person completed may have its output elsewhere in the log.
            let log = read_after(store, &self.tenant_id, source, 0).await?;
            return Ok(origin::output_at(&log, place).unwrap_or_default());
        }
        Ok(origin::output_at(&[event], place).unwrap_or_default())
    }

    fn not_queued(&self) -> Error {
        Error::new(Code::Internal, format!("run {} was not folded from its first event", self.run_id))
    }
}

/// The run's input, or where it is.
pub(crate) enum RunInputSeen<'a> {
    Here(&'a Value),
    Elsewhere(&'a engine_core::event::step::ArtifactRef),
}

/// Where a step's output is that was taken over.
struct TakenFrom {
    run_id: RunId,
    /// The place in that run's log; 0 when it took the step over itself.
    place: u64,
    /// The output itself, when there is a copy of it.
    output: Option<StepOutput>,
}

fn taken_from(origin: &Origin, step: &StepId) -> Option<TakenFrom> {
    let reused = origin.reused.iter().find(|reused| reused.step_id == *step)?;
    let (run_id, output) = (origin.source_run_id.clone(), reused.output.clone());
    Some(TakenFrom { run_id, place: reused.run_seq, output })
}

async fn read_one(
    store: &dyn StateStore,
    tenant: &TenantId,
    run: &RunId,
    place: u64,
) -> Result<Option<Event>> {
    let request = ReadRequest {
        tenant_id: tenant.clone(),
        run_id: run.clone(),
        after: place.saturating_sub(1),
        limit: 1,
    };
    Ok(store.read(request).await?.into_iter().next())
}

/// Every event after a place, page by page.
async fn read_after(
    store: &dyn StateStore,
    tenant: &TenantId,
    run: &RunId,
    after: u64,
) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(after, |event| event.run_seq);
        let request = ReadRequest { tenant_id: tenant.clone(), run_id: run.clone(), after, limit: PAGE };
        let page = store.read(request).await?;
        let is_last = page.len() < PAGE;
        events.extend(page);
        if is_last {
            return Ok(events);
        }
    }
}
