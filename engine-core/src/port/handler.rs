//! The handler port: the code that does a step, and what it is given.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::secrets::Secret;
use crate::event::run::RunContext;
use crate::event::step::{ArtifactRef, StepError, StepOutput};
use crate::id::{AgentName, RunId, StepId};
use crate::time::Timestamp;

/// Does a step. It may be called more than once for one attempt; the idempotency token tells such calls.
#[async_trait]
pub trait StepHandler: Send + Sync + 'static {
    /// Does the step with `input`. A handler that takes long should look at the cancellation token: when it fires, five
    /// seconds are left.
    ///
    /// # Errors
    /// What went wrong; its class decides whether the step is tried again.
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult;
}

/// What a handler gives back.
pub type HandlerResult = Result<HandlerOutput, StepError>;

/// What a handler produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandlerOutput {
    /// The output.
    pub output: StepOutput,
    /// Files and other large results that it left in the artifact store.
    pub artifacts: Vec<ArtifactRef>,
}

impl From<Value> for HandlerOutput {
    fn from(value: Value) -> Self {
        let output = StepOutput { value: Some(value), ..StepOutput::default() };
        Self { output, artifacts: Vec::new() }
    }
}

/// What a handler is given besides its input.
#[derive(Clone, Debug)]
pub struct StepContext {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt, from 1.
    pub logical_attempt_id: u32,
    /// The try within that attempt, from 1.
    pub engine_attempt_id: u32,
    /// The executor that the attempt was given to.
    pub agent: Option<AgentName>,
    /// On whose behalf the run is.
    pub run: Arc<RunContext>,
    /// The same over all tries and retries with this input.
    pub idempotency_token: Arc<str>,
    /// When the attempt times out.
    pub deadline: Option<Timestamp>,
    /// Fires when the attempt must stop.
    pub cancellation: CancellationToken,
    /// The secrets that the step refers to, by name.
    pub secrets: Arc<BTreeMap<String, Secret>>,
    /// Takes what the handler tells meanwhile.
    pub observer: Arc<dyn StepObserver>,
}

impl StepContext {
    /// Tells how far the step is, 0 to 1.
    pub fn progress(&self, done: f64) {
        if done.is_finite() {
            self.observer.progress(done.clamp(0.0, 1.0));
        }
    }

    /// Asks for a person's eyes. The run pauses if its plan says so; the handler goes on.
    pub fn request_review(&self, reason: &str, context: BTreeMap<String, Value>) {
        self.observer.review(reason, context);
    }

    /// A secret by the name that the step gave it.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }
}

/// Takes what a handler tells while it runs.
pub trait StepObserver: Debug + Send + Sync + 'static {
    /// How far the step is, 0 to 1.
    fn progress(&self, done: f64);

    /// A person should look at something.
    fn review(&self, reason: &str, context: BTreeMap<String, Value>);

    /// A line for the step's log.
    fn log(&self, line: &str);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<f64>>);

    impl StepObserver for Heard {
        fn progress(&self, done: f64) {
            self.0.lock().unwrap().push(done);
        }
        fn review(&self, _: &str, _: BTreeMap<String, Value>) {}
        fn log(&self, _: &str) {}
    }

    #[test]
    fn progress_stays_between_nothing_and_all() {
        let heard = Arc::new(Heard::default());
        let context = StepContext {
            run_id: RunId::new("r").unwrap(),
            step_id: StepId::new("s").unwrap(),
            logical_attempt_id: 1,
            engine_attempt_id: 1,
            agent: None,
            run: Arc::new(RunContext {
                tenant_id: crate::id::TenantId::new("t").unwrap(),
                project_id: "p".into(),
                environment_id: "e".into(),
                triggered_by: None,
                trigger_source: None,
            }),
            idempotency_token: "token".into(),
            deadline: None,
            cancellation: CancellationToken::new(),
            secrets: Arc::default(),
            observer: heard.clone(),
        };
        for done in [-1.0, 0.25, f64::NAN, 7.0] {
            context.progress(done);
        }
        assert_eq!(*heard.0.lock().unwrap(), [0.0, 0.25, 1.0]);
    }
}
