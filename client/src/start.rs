//! A plan and its input become a run.

use std::sync::Arc;

use engine_core::data::{JOURNAL_BYTES, check_run_input, check_size, json_size};
use engine_core::event::run::{Origin, RunContext, RunInput, RunQueued, TriggerSource};
use engine_core::hash::canonical_json;
use engine_core::plan::{CompiledPlan, Plan, ValidationOptions, read_with, validate_with};
use engine_core::port::store::CreateRequest;
use engine_core::port::{Capability, Operation, StartRequest};
use engine_core::{Code, Error, Result, RunId};
use serde_json::Value;
use uuid::Uuid;

use crate::Client;

/// A run to be started.
#[derive(Clone, Debug)]
pub struct Start {
    plan: Arc<CompiledPlan>,
    input: RunInput,
    request_id: Option<String>,
    intent: Option<String>,
    correlation_id: Option<String>,
    trigger: TriggerSource,
    origin: Option<Origin>,
}

impl Start {
    /// A run of a plan, without input.
    #[must_use]
    pub fn of(plan: Arc<CompiledPlan>) -> Self {
        Self {
            plan,
            input: RunInput::default(),
            request_id: None,
            intent: None,
            correlation_id: None,
            trigger: TriggerSource::Api,
            origin: None,
        }
    }

    /// The run's input.
    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.input = input.into();
        self
    }

    /// Starting again with the same request id, of the same plan and version, gives the same run.
    #[must_use]
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// What the caller wants, in words; it stands in the log.
    #[must_use]
    pub fn intent(mut self, intent: impl Into<String>) -> Self {
        self.intent = Some(intent.into());
        self
    }

    /// Ties the run's events to the request that caused it.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// How the run was asked for.
    #[must_use]
    pub fn trigger(mut self, trigger: TriggerSource) -> Self {
        self.trigger = trigger;
        self
    }

    pub(crate) fn stored_input(mut self, input: RunInput) -> Self {
        self.input = input;
        self
    }

    pub(crate) fn origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }
}

/// A run that was started, now or by the same request before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The run.
    pub run_id: RunId,
    /// Whether this call made it.
    pub fresh: bool,
}

impl Client {
    /// Reads and checks a plan, against the handlers that this process has.
    ///
    /// # Errors
    /// `PLAN_INVALID` with every problem, each with line and column.
    pub fn read_plan(&self, text: &str) -> Result<Arc<CompiledPlan>> {
        Ok(Arc::new(CompiledPlan::new(read_with(text, &self.validation())?)?))
    }

    /// Checks a plan that was made in code, against the handlers that this process has.
    ///
    /// # Errors
    /// `PLAN_INVALID` with every problem.
    pub fn compile(&self, plan: Plan) -> Result<Arc<CompiledPlan>> {
        validate_with(&plan, &self.validation())?;
        Ok(Arc::new(CompiledPlan::new(plan)?))
    }

    fn validation(&self) -> ValidationOptions {
        ValidationOptions { known_handlers: self.0.handlers.clone() }
    }

    /// Starts a run. Nothing is stored unless plan, input and engine fit together.
    ///
    /// # Errors
    /// `PLAN_INVALID`, `SCHEMA_VALIDATION_FAILED` for an input that does not match, `PAYLOAD_TOO_LARGE`, `UNSUPPORTED`
    /// for what the engine cannot do, `AUTHZ_DENIED`: nothing was stored then. `ENGINE_UNAVAILABLE` and
    /// `ENGINE_REFUSED` name the run that was made.
    pub async fn start(&self, start: Start) -> Result<Started> {
        let document = start.plan.document();
        validate_with(document, &self.validation())?;
        check_abilities(self, &start.plan)?;
        if start.input.artifact.is_none() {
            let input = start.input.value.clone().unwrap_or(Value::Null);
            check_run_input(&start.plan, &input)?;
            check_size("the run's input", json_size(&input), JOURNAL_BYTES)?;
        }
        self.authorize(&self.0.actor, Operation::Start(document.id.clone())).await?;
        self.launch(start).await
    }

    /// Stores and starts a run that was checked and authorised.
    pub(crate) async fn launch(&self, start: Start) -> Result<Started> {
        let document = start.plan.document();
        let scope = &self.0.scope;
        let context = RunContext {
            tenant_id: scope.tenant_id.clone(),
            project_id: scope.project_id.clone(),
            environment_id: scope.environment_id.clone(),
            triggered_by: Some(self.0.actor.clone()),
            trigger_source: Some(start.trigger.clone()),
        };
        let request_id = start.request_id.unwrap_or_else(|| Uuid::now_v7().to_string());
        let queued = RunQueued {
            input: start.input,
            original_intent: start.intent,
            capabilities: self.engine().capabilities().frozen(),
            origin: start.origin,
            ..RunQueued::of(&start.plan, context, &request_id)
        };
        let text = serde_json::to_value(document).map(|value| canonical_json(&value)).map_err(|cause| {
            Error::new(Code::Internal, "a plan could not be written as JSON").with_source(cause)
        })?;
        self.0.store.put_plan(self.tenant(), start.plan.hash(), &text).await?;
        let created = self
            .0
            .store
            .create(CreateRequest {
                queued,
                correlation_id: start.correlation_id.unwrap_or(request_id).into(),
                emitted_by: self.0.emitted_by.clone(),
                lease: self.engine().lease(),
            })
            .await?;
        let request = StartRequest {
            tenant_id: self.tenant().clone(),
            run_id: created.run_id.clone(),
            fresh: created.queued,
        };
        self.engine().start(request).await.map_err(|error| {
            let message = format!("run {} was stored and not started: {}", created.run_id, error.message());
            let told = Error::new(error.code(), message);
            match error.hint() {
                Some(hint) => told.with_hint(hint.to_owned()),
                None => told,
            }
        })?;
        Ok(Started { run_id: created.run_id, fresh: created.fresh })
    }
}

/// Refuses a plan that needs what the engine cannot do, before anything is stored.
fn check_abilities(client: &Client, plan: &CompiledPlan) -> Result<()> {
    let engine = client.engine();
    let native = plan.document().steps.iter().find_map(|step| step.handler.native_engine());
    match native {
        Some(wanted) if wanted != engine.name() => Err(Error::new(
            Code::Unsupported,
            format!(
                "a step's handler is hosted by the engine {wanted:?}, and this engine is {:?}",
                engine.name()
            ),
        )
        .with_hint("choose that engine, or a handler that workers have")),
        Some(_) => engine.capabilities().require(Capability::NativeHandlers, engine.name()),
        None => Ok(()),
    }
}
