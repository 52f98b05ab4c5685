//! Before the handler: condition, input and token, from what the log tells (DATA-4).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use engine_core::data::{self, Context, StepView, step_token};
use engine_core::decider::{CompensationTask, Dispatched, Report};
use engine_core::event::run::RunContext;
use engine_core::event::step::{StepError, StepOutput, StepStarted};
use engine_core::failure::FailureClass;
use engine_core::machine::StepStatus;
use engine_core::plan::compiled::StepIndex;
use engine_core::port::StepHandler;
use engine_core::{AgentName, Code, Error, HandlerName, Result, RunId, StepId, TenantId};
use serde_json::Value;

use crate::code::PlanCode;
use crate::history::{History, RunInputSeen};
use crate::worker::Worker;

/// What is known about an attempt before its handler is called.
#[derive(Debug)]
pub enum Prepared {
    /// The handler can be called.
    Ready(ReadyStep),
    /// It need not be called: the condition is false, or condition or input are bad.
    Decided(Report),
}

/// An attempt whose handler can be called.
pub struct ReadyStep {
    pub(crate) tenant_id: TenantId,
    pub(crate) run_id: RunId,
    pub(crate) code: Arc<PlanCode>,
    pub(crate) step: StepIndex,
    pub(crate) attempt: u32,
    pub(crate) context: Arc<RunContext>,
    pub(crate) handler: Arc<dyn StepHandler>,
    pub(crate) started: StepStarted,
    pub(crate) token: Arc<str>,
    pub(crate) input: Value,
    pub(crate) timeout_ms: u64,
}

impl ReadyStep {
    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// What must be in the log before the handler is called. For a compensation it only says who does what.
    #[must_use]
    pub fn started(&self) -> &StepStarted {
        &self.started
    }

    pub(crate) fn id(&self) -> &StepId {
        &self.code.plan.step(self.step).id
    }
}

impl std::fmt::Debug for ReadyStep {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReadyStep")
            .field("run_id", &self.run_id)
            .field("step", self.id())
            .field("attempt", &self.attempt)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

/// Who a handler is called for.
struct Caller<'a> {
    handler: &'a HandlerName,
    agent: Option<AgentName>,
    attempt: u32,
    token: String,
    timeout_ms: u64,
}

impl Worker {
    /// Works out an attempt's condition, input and token. Appends nothing. Ready at the first poll, unless the attempt looks
    /// at something that lies in the artifact store or in another run's log.
    ///
    /// # Errors
    /// `STEP_NOT_FOUND` when the plan has no such step; whatever the store says when it is away. What cannot get better is
    /// no error but [`Prepared::Decided`].
    pub async fn prepare(&self, history: &History, task: &Dispatched) -> Result<Prepared> {
        let code = history.code();
        let index = code.find(&task.attempt.step)?;
        let step = code.step(index);
        let context;
        let context = if step.looks {
            let seen =
                self.see(history, |input, look| Context::build(&code.plan, index, input, &step.reads, look));
            match seen.await {
                Ok(seen) => {
                    context = seen;
                    &context
                }
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => return Ok(Prepared::Decided(failed(unreadable(&task.attempt.step, &error)))),
            }
        } else {
            code.nothing()
        };
        let input = match step.mapping.condition(context) {
            Ok(true) => step.mapping.input(context),
            Ok(false) => return Ok(Prepared::Decided(Report::ConditionFalse)),
            Err(error) => Err(error),
        };
        let input = match input {
            Ok(input) => input,
            Err(error) => return Ok(Prepared::Decided(failed(error))),
        };
        let caller = Caller {
            handler: &task.handler,
            agent: task.agent.clone(),
            attempt: task.attempt.attempt,
            token: step_token(&code.plan.document().id, &task.attempt.step, history.run_id(), &input),
            timeout_ms: step.timeout_ms,
        };
        Ok(match self.ready(history, index, caller, input)? {
            Ok(ready) => Prepared::Ready(ready),
            Err(error) => Prepared::Decided(failed(error)),
        })
    }

    /// Works out the input of a compensation; the token is its key, the same for every try (COMP-11).
    ///
    /// # Errors
    /// As [`Worker::prepare`]; the inner error is one that cannot get better.
    pub async fn prepare_compensation(
        &self,
        history: &History,
        task: &CompensationTask,
    ) -> Result<Result<ReadyStep, StepError>> {
        let code = history.code();
        let index = code.find(&task.attempt.step)?;
        let step = code.step(index);
        let prepared = async {
            let context = self
                .see(history, |input, look| {
                    Context::build(&code.plan, index, input, &step.compensation_reads, look)
                })
                .await?;
            let own = match history.output(index) {
                Some((_, output)) => self.value_of(history, &output).await?,
                None => Value::Null,
            };
            Ok((context, own))
        };
        let (context, own) = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) if Error::is_retryable(&error) => return Err(error),
            Err(error) => return Ok(Err(unreadable(&task.attempt.step, &error))),
        };
        let input = match step.mapping.compensation_input(&context, own) {
            Ok(input) => input,
            Err(error) => return Ok(Err(error)),
        };
        let caller = Caller {
            handler: &task.handler,
            agent: None,
            attempt: task.attempt.attempt,
            token: task.idempotency_key.clone(),
            timeout_ms: step.compensation_timeout_ms,
        };
        self.ready(history, index, caller, input)
    }

    /// The run's output, for RunCompleted; in the artifact store when it is large.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` when the plan's `result` cannot be evaluated, `PAYLOAD_TOO_LARGE` when the output is over the
    /// limit, and whatever the stores say.
    pub async fn run_output(&self, history: &History) -> Result<StepOutput> {
        let plan = &history.code().plan;
        let value = self.see(history, |input, look| data::run_output(plan, input, look)).await??;
        let output = StepOutput { value: Some(value), ..StepOutput::default() };
        let place = crate::artifacts::Place::run(history.tenant_id(), history.run_id());
        self.offload("the output of the run", place, output).await
    }

    fn ready(
        &self,
        history: &History,
        step: StepIndex,
        caller: Caller<'_>,
        input: Value,
    ) -> Result<Result<ReadyStep, StepError>> {
        let Some(handler) = self.shared.handlers.find(caller.handler) else {
            let name = caller.handler;
            let message = format!(
                "worker {} has no handler {name} (register it, or correct the step's `handler`)",
                self.shared.name
            );
            return Ok(Err(StepError::new(FailureClass::Permanent, Code::HandlerUnknown.as_str(), message)));
        };
        let started = StepStarted {
            handler: caller.handler.clone(),
            agent: caller.agent,
            worker: self.shared.name.as_ref().to_owned(),
            claim_until: None,
            idempotency_token: Some(caller.token.clone()),
        };
        Ok(Ok(ReadyStep {
            tenant_id: history.tenant_id().clone(),
            run_id: history.run_id().clone(),
            code: history.code().clone(),
            step,
            attempt: caller.attempt,
            context: history.context()?.clone(),
            handler: handler.clone(),
            started,
            token: caller.token.into(),
            input,
            timeout_ms: caller.timeout_ms,
        }))
    }

    /// Makes something from what a step sees. What lies elsewhere is fetched when `make` has asked for it, and then it is
    /// made again: nobody need know beforehand what is looked at.
    async fn see<T>(
        &self,
        history: &History,
        make: impl Fn(&Value, &dyn Fn(&StepId) -> Option<StepView>) -> T,
    ) -> Result<T> {
        if let RunInputSeen::Elsewhere(artifact) = history.input()? {
            let input = self.fetch(history.tenant_id(), artifact).await?;
            history.keep_input(input);
        }
        let mut fetched = HashMap::new();
        loop {
            let missing = match self::look(history, &fetched, &make)? {
                Ok(made) => return Ok(made),
                Err(missing) => missing,
            };
            for step in missing {
                if history.output(step).is_none() {
                    history.fetch_taken_over(&*self.shared.store, step).await?;
                }
                let output = history.output(step).map(|(_, output)| output).unwrap_or_default();
                fetched.insert(step, self.value_of(history, &output).await?);
            }
        }
    }

    /// An output's value, wherever it is.
    async fn value_of(&self, history: &History, output: &StepOutput) -> Result<Value> {
        match (&output.value, &output.artifact) {
            (Some(value), _) => Ok(value.clone()),
            (None, Some(artifact)) if artifact.kind == crate::artifacts::OUTPUT => {
                self.fetch(history.tenant_id(), artifact).await
            }
            // A file that a handler left: later steps see where it is.
            (None, Some(artifact)) => Ok(serde_json::to_value(artifact).unwrap_or_default()),
            (None, None) => Ok(Value::Null),
        }
    }
}

/// Makes something from what is at hand, or says which outputs must be fetched first.
fn look<T>(
    history: &History,
    fetched: &HashMap<StepIndex, Value>,
    make: &impl Fn(&Value, &dyn Fn(&StepId) -> Option<StepView>) -> T,
) -> Result<Result<T, Vec<StepIndex>>> {
    let RunInputSeen::Here(input) = history.input()? else {
        return Err(Error::new(Code::Internal, "the run's input was fetched and is not there"));
    };
    let plan = &history.code().plan;
    let missing: RefCell<Vec<StepIndex>> = RefCell::default();
    let look = |step: &StepId| {
        let view = history.run().attempt(step.as_str())?;
        let index = plan.find(step.as_str())?;
        let output = if view.status == StepStatus::Success {
            match (fetched.get(&index), history.output(index)) {
                (Some(value), _) => Some(value.clone()),
                (None, Some((_, output))) if output.value.is_some() || output.artifact.is_none() => {
                    output.value.clone()
                }
                (None, _) => {
                    missing.borrow_mut().push(index);
                    None
                }
            }
        } else {
            None
        };
        Some(StepView { status: view.status, output, resolved_by: view.resolved_by })
    };
    let made = make(input, &look);
    let missing = missing.into_inner();
    Ok(if missing.is_empty() { Ok(made) } else { Err(missing) })
}

fn failed(error: StepError) -> Report {
    Report::Failed { error, started_at: None, ended_at: None }
}

fn unreadable(step: &StepId, error: &Error) -> StepError {
    StepError::new(
        FailureClass::Permanent,
        error.code().as_str(),
        format!("the input of step {step} cannot be read: {}", error.message()),
    )
}
