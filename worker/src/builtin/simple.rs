//! `echo`, `sleep` and `fail`: for demonstrations and for trying plans out.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler, Timekeeper};
use serde::Deserialize;
use serde_json::{Value, json};

use super::cancelled;
use crate::handlers::invalid;

/// Gives its input back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

#[async_trait]
impl StepHandler for Echo {
    async fn run(&self, _: StepContext, input: Value) -> HandlerResult {
        Ok(HandlerOutput::from(input))
    }
}

/// Waits `ms` milliseconds, then gives `output` back.
#[derive(Clone, Debug)]
pub struct Sleep {
    time: Arc<dyn Timekeeper>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SleepInput {
    ms: u64,
    #[serde(default)]
    output: Value,
}

impl Sleep {
    /// One that waits for this clock.
    #[must_use]
    pub fn new(time: Arc<dyn Timekeeper>) -> Self {
        Self { time }
    }
}

#[async_trait]
impl StepHandler for Sleep {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let input: SleepInput = read("sleep", input)?;
        let until = self.time.now().plus_millis(input.ms);
        tokio::select! {
            () = self.time.sleep_until(until) => Ok(HandlerOutput::from(input.output)),
            () = context.cancellation.cancelled() => Err(cancelled()),
        }
    }
}

/// Fails as it is told to; with `times` only so many tries, and then it succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fail;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailInput {
    class: Option<FailureClass>,
    code: Option<String>,
    message: Option<String>,
    http_status: Option<u16>,
    times: Option<u32>,
}

#[async_trait]
impl StepHandler for Fail {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let input: FailInput = read("fail", input)?;
        if input.times.is_some_and(|times| context.engine_attempt_id > times) {
            return Ok(HandlerOutput::from(json!({"tries": context.engine_attempt_id})));
        }
        let code = input.code.unwrap_or_else(|| "FAILED_ON_PURPOSE".to_owned());
        let message = input.message.unwrap_or_else(|| "the plan asked for this failure".to_owned());
        let mut error = StepError::classified(&code, input.http_status, message);
        if let Some(class) = input.class {
            error.class = class;
        }
        Err(error)
    }
}

/// A handler's input in its own shape.
pub(super) fn read<T: serde::de::DeserializeOwned>(handler: &str, input: Value) -> Result<T, StepError> {
    serde_json::from_value(input)
        .map_err(|cause| invalid(format!("the input of handler {handler} is not what it takes: {cause}")))
}
