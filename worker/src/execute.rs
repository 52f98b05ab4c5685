//! The handler and what becomes of its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::data::{JOURNAL_BYTES, check_size, json_size};
use engine_core::decider::Report;
use engine_core::event::step::{ArtifactRef, StepCompleted, StepError, StepOutput, StepWaiting};
use engine_core::failure::FailureClass;
use engine_core::plan::Completion;
use engine_core::port::{HandlerOutput, Secret, SecretsRequest, StepContext, StepObserver};
use engine_core::{Code, Error, Result, TenantId, Timestamp};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::artifacts::{OUTPUT, Place};
use crate::drive::{Ended, drive};
use crate::observe::{Observer, Pump, shortened};
use crate::prepare::ReadyStep;
use crate::redact::Redactor;
use crate::worker::Worker;

/// The code of a failure by panic. Its class is transient: what made a handler panic may be gone at the next try, and
/// the number of tries is bounded.
pub(crate) const HANDLER_PANIC: &str = "HANDLER_PANIC";

/// The longest message of an error that goes into the log.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// What one call of a handler needs from the engine.
#[derive(Clone, Debug)]
pub struct Call {
    /// The try within the attempt, from 1.
    pub engine_attempt: u32,
    /// Fires when the attempt must stop. Dropping the call's future stops it by force.
    pub cancellation: CancellationToken,
    /// Takes what the handler tells; secrets are out of it, and progress comes at most every 500 ms.
    pub observer: Arc<dyn StepObserver>,
}

impl Worker {
    /// Resolves the step's secrets, calls its handler and maps and stores what it produced. Appends nothing; the report is
    /// what has to be decided about.
    pub async fn execute(&self, mut ready: ReadyStep, call: Call) -> Report {
        if call.cancellation.is_cancelled() {
            return Report::Cancelled;
        }
        let started_at = self.shared.time.now();
        let stop = call.cancellation.clone();
        let (outcome, redactor) = self.call(&mut ready, call, started_at).await;
        let outcome = match outcome {
            Ok(output) => self.finish(&ready, output, &redactor).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(report) => report,
            // Whatever a handler says after it was asked to stop, it stopped.
            Err(error) if stop.is_cancelled() || error.class == FailureClass::Cancelled => Report::Cancelled,
            Err(error) => Report::Failed {
                error: tidy(error, &redactor),
                started_at: Some(started_at),
                ended_at: Some(self.shared.time.now()),
            },
        }
    }

    /// Calls the handler that undoes a step. What it returns is noted: the fields of an object, or the value itself.
    ///
    /// # Errors
    /// What went wrong; whether it is tried again is decided elsewhere.
    pub async fn execute_compensation(
        &self,
        mut ready: ReadyStep,
        call: Call,
    ) -> Result<BTreeMap<String, String>, StepError> {
        let started_at = self.shared.time.now();
        let (outcome, redactor) = self.call(&mut ready, call, started_at).await;
        let mut output = outcome.map_err(|error| tidy(error, &redactor))?.output;
        redactor.output(&mut output);
        Ok(notes(output.value.unwrap_or_default()))
    }

    async fn call(
        &self,
        ready: &mut ReadyStep,
        call: Call,
        started_at: Timestamp,
    ) -> (Result<HandlerOutput, StepError>, Redactor) {
        let shared = &self.shared;
        let deadline = started_at.plus_millis(ready.timeout_ms);
        let secrets = match self.secrets(ready, deadline).await {
            Ok(secrets) => secrets,
            Err(error) => return (Err(error), Redactor::default()),
        };
        let observer = Arc::new(Observer::new(call.observer, Redactor::new(secrets.values())));
        // What the handler has started elsewhere hears when its call is over before its end: by time, or by force.
        let cancellation = call.cancellation.child_token();
        let over = cancellation.clone().drop_guard();
        let context = StepContext {
            run_id: ready.run_id.clone(),
            step_id: ready.id().clone(),
            logical_attempt_id: ready.attempt,
            engine_attempt_id: call.engine_attempt,
            agent: ready.started.agent.clone(),
            run: ready.context.clone(),
            idempotency_token: ready.token.clone(),
            deadline: Some(deadline),
            cancellation,
            secrets: Arc::new(secrets),
            observer: observer.clone(),
        };
        let input = std::mem::take(&mut ready.input);
        let attempt = (&ready.run_id, ready.id(), ready.attempt);
        let mut pump = Pump::new(&observer, &shared.store, &shared.time, attempt);
        let running = ready.handler.run(context, input);
        let ended = drive(running, &shared.time, deadline, |waker| pump.poll(waker)).await;
        if !matches!(ended, Ended::Done(Ok(_))) {
            pump.flush().await;
        }
        let outcome = match ended {
            Ended::Done(outcome) => {
                over.disarm();
                outcome
            }
            Ended::Panicked(text) => Err(StepError::new(
                FailureClass::Transient,
                HANDLER_PANIC,
                format!("handler {} panicked in step {}: {text}", ready.started.handler, ready.id()),
            )),
            Ended::TimedOut => Err(timed_out(ready)),
        };
        (outcome, observer.redactor().clone())
    }

    /// SECRET-2. What a provider does counts into the step's time, and its panics are failures too.
    async fn secrets(
        &self,
        ready: &ReadyStep,
        deadline: Timestamp,
    ) -> Result<BTreeMap<String, Secret>, StepError> {
        let references = &ready.code.step(ready.step).secrets;
        if references.is_empty() {
            return Ok(BTreeMap::new());
        }
        let unresolved = |message: String| {
            StepError::new(FailureClass::Permanent, Code::SecretUnresolved.as_str(), message)
        };
        let Some(provider) = &self.shared.secrets else {
            let message = format!(
                "step {} refers to secrets, and worker {} has no provider (configure one)",
                ready.id(),
                self.shared.name
            );
            return Err(unresolved(message));
        };
        let request = SecretsRequest {
            tenant_id: ready.tenant_id.clone(),
            environment_id: ready.context.environment_id.clone(),
            references: references.clone(),
        };
        match drive(provider.resolve(request), &self.shared.time, deadline, |_| {}).await {
            Ended::Done(Ok(secrets)) => match references.keys().find(|name| !secrets.contains_key(*name)) {
                None => Ok(secrets),
                Some(name) => {
                    Err(unresolved(format!("the provider gave no secret {name} of step {}", ready.id())))
                }
            },
            Ended::Done(Err(error)) => {
                // SECRET-4; a provider that is away is another matter.
                let class =
                    if error.is_retryable() { FailureClass::Transient } else { FailureClass::Permanent };
                Err(StepError::new(class, error.code().as_str(), described(&error)))
            }
            // Its text might hold what it had read.
            Ended::Panicked(_) => Err(StepError::new(
                FailureClass::Transient,
                HANDLER_PANIC,
                format!("the provider of secrets panicked for step {}", ready.id()),
            )),
            Ended::TimedOut => Err(timed_out(ready)),
        }
    }

    /// Checks, maps and stores what the handler produced.
    async fn finish(
        &self,
        ready: &ReadyStep,
        produced: HandlerOutput,
        redactor: &Redactor,
    ) -> Result<Report, StepError> {
        let HandlerOutput { mut output, mut artifacts } = produced;
        redactor.output(&mut output);
        artifacts.iter_mut().for_each(|artifact| redactor.artifact(artifact));
        self.check_extras(ready, &output)?;
        // A file that the handler stored itself is passed on as it is.
        if output.artifact.is_none() || output.value.is_some() {
            let mapping = &ready.code.step(ready.step).mapping;
            output.value = Some(mapping.output(output.value.take().unwrap_or_default())?);
        }
        let place = Place::attempt(&ready.tenant_id, &ready.run_id, ready.id(), ready.attempt);
        let output = self.offload("the output of the step", place, output).await.map_err(|error| {
            let class = if error.is_retryable() { FailureClass::Transient } else { FailureClass::Permanent };
            StepError::new(
                class,
                error.code().as_str(),
                format!("step {}: {}", ready.id(), described(&error)),
            )
        })?;
        let step = ready.code.plan.step(ready.step);
        Ok(match step.completion {
            Completion::Auto => Report::Completed(StepCompleted { output, artifacts, manual: None }),
            Completion::Manual => Report::Waiting(StepWaiting {
                completion_token: uuid::Uuid::new_v4().to_string(),
                output: Some(output),
                prompt: step.description.clone().or_else(|| step.name.clone()),
            }),
        })
    }

    /// What the log would refuse must be the step's failure, or nobody could ever record its end.
    fn check_extras(&self, ready: &ReadyStep, output: &StepOutput) -> Result<(), StepError> {
        if output.quality_score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
            return Err(crate::handlers::invalid(format!(
                "the output of step {} has the qualityScore {}; it must be from 0 to 1",
                ready.id(),
                output.quality_score.unwrap_or_default()
            )));
        }
        let metadata: usize = output.metadata.iter().map(|(name, value)| name.len() + json_size(value)).sum();
        check_size("the output's metadata", metadata, self.shared.inline_limit).map_err(|error| {
            let message = format!("step {}: {}", ready.id(), described(&error));
            StepError::new(FailureClass::Permanent, error.code().as_str(), message)
        })
    }

    /// DATA-18, DATA-19: up to the limit a value stands in the event, above it in the artifact store.
    pub(crate) async fn offload(
        &self,
        what: &str,
        place: Place,
        mut output: StepOutput,
    ) -> Result<StepOutput> {
        let Some(value) = &output.value else { return Ok(output) };
        let size = json_size(value);
        if size <= self.shared.inline_limit {
            return Ok(output);
        }
        check_size(what, size, JOURNAL_BYTES)?;
        let Some(artifacts) = &self.shared.artifacts else {
            return Err(Error::new(
                Code::PayloadTooLarge,
                format!(
                    "{what} has {size} bytes; at most {} stand in the log, and worker {} has no artifact store",
                    self.shared.inline_limit, self.shared.name
                ),
            )
            .with_hint("configure an artifact store"));
        };
        let content = serde_json::to_vec(value)
            .map_err(|cause| Error::new(Code::Internal, format!("{what} cannot be written: {cause}")))?;
        output.artifact = Some(artifacts.put(&place, OUTPUT, content, self.shared.time.now()).await?);
        output.value = None;
        Ok(output)
    }

    /// A value from the artifact store.
    pub(crate) async fn fetch(&self, tenant_id: &TenantId, artifact: &ArtifactRef) -> Result<Value> {
        let Some(artifacts) = &self.shared.artifacts else {
            return Err(Error::new(
                Code::NotFound,
                format!(
                    "{} lies in an artifact store, and worker {} has none",
                    artifact.uri, self.shared.name
                ),
            )
            .with_hint("give every worker the same artifact store"));
        };
        let content = artifacts.get(tenant_id, artifact).await?;
        serde_json::from_slice(&content).map_err(|cause| {
            Error::new(Code::Internal, format!("the artifact {} is not JSON: {cause}", artifact.uri))
        })
    }
}

fn timed_out(ready: &ReadyStep) -> StepError {
    // FAIL-6.
    StepError::new(
        FailureClass::Timeout,
        Code::StepTimeout.as_str(),
        format!("step {} took longer than {} ms", ready.id(), ready.timeout_ms),
    )
}

/// An error as it may stand in the log.
fn tidy(mut error: StepError, redactor: &Redactor) -> StepError {
    redactor.error(&mut error);
    if error.message.len() > LONGEST_MESSAGE {
        error.message = format!("{}…", shortened(&error.message, LONGEST_MESSAGE));
    }
    if error.code.is_empty() || error.code.len() > 256 {
        error.code =
            if error.code.is_empty() { "Error".to_owned() } else { shortened(&error.code, 256).to_owned() };
    }
    error
}

fn described(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{} ({hint})", error.message()),
        None => error.message().to_owned(),
    }
}

fn notes(value: Value) -> BTreeMap<String, String> {
    let text = |value: Value| {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        shortened(&text, LONGEST_MESSAGE).to_owned()
    };
    match value {
        Value::Null => BTreeMap::new(),
        Value::Object(fields) => {
            fields.into_iter().take(100).map(|(name, value)| (name, text(value))).collect()
        }
        other => BTreeMap::from([("output".to_owned(), text(other))]),
    }
}
