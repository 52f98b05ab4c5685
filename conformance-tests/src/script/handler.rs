//! The handler that follows the script.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler, Timekeeper};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::lines::Lines;
use super::stage::{Entered, Stage};
use crate::history::Left;

/// Follows the script in its input. A subject's worker hosts it under [`super::HANDLERS`].
#[derive(Clone, Debug)]
pub struct Script {
    name: &'static str,
    stage: Arc<Stage>,
    time: Arc<dyn Timekeeper>,
}

impl Script {
    pub(crate) fn new(name: &'static str, stage: Arc<Stage>, time: Arc<dyn Timekeeper>) -> Self {
        Self { name, stage, time }
    }

    async fn follow(&self, lines: &Lines, entered: &Entered, context: &StepContext) -> HandlerResult {
        for (number, done) in lines.progress.iter().enumerate() {
            if let Some(millis) = lines.progress_every_ms.filter(|_| number > 0) {
                self.wait(millis, lines, entered, context).await?;
            }
            context.progress(*done);
        }
        let secret = match &lines.tell {
            Some(name) => Some(told(context, name)?),
            None => None,
        };
        let words = |text: &str| match &secret {
            Some(secret) => format!("{text}: {secret}"),
            None => text.to_owned(),
        };
        if secret.is_some() {
            context.observer.log(&words("a line"));
        }
        if let Some(reason) = &lines.review {
            let mut seen = BTreeMap::from([("attempt".to_owned(), json!(context.logical_attempt_id))]);
            if secret.is_some() {
                seen.insert("secret".to_owned(), json!([secret]));
            }
            context.request_review(&words(reason), seen);
        }
        if let Some(gate) = &lines.gate {
            entered.at_gate(gate);
            self.wait_at(gate, lines, entered, context).await?;
            entered.through(gate);
        }
        if let Some(millis) = lines.wait_ms {
            self.wait(millis, lines, entered, context).await?;
        }
        let calls = self.stage.calls(entered.number);
        if calls <= lines.die {
            self.stage.kill();
            return Err(gone());
        }
        if let Some(text) = &lines.panic {
            #[expect(clippy::panic, reason = "the script says so")]
            {
                panic!("{}", words(text));
            }
        }
        if let Some(fail) = &lines.fail
            && fail.times.is_none_or(|times| calls <= times)
        {
            let message = words("as the script says");
            return Err(match fail.class.clone() {
                Some(class) => {
                    StepError { http_status: fail.http_status, ..StepError::new(class, &fail.code, message) }
                }
                None => StepError::classified(&fail.code, fail.http_status, message),
            });
        }
        if let Some(output) = &lines.output {
            return Ok(HandlerOutput { output: output.clone(), artifacts: Vec::new() });
        }
        let value = match (&lines.value, lines.bytes) {
            (Some(value), _) => value.clone(),
            (None, Some(bytes)) => Value::String("x".repeat(bytes)),
            (None, None) => json!({"step": context.step_id, "attempt": context.logical_attempt_id}),
        };
        let value = match &secret {
            Some(secret) => json!({"value": value, "secret": secret, "sha256": sha256(secret)}),
            None => value,
        };
        Ok(HandlerOutput::from(value))
    }

    /// Waits so long by the subject's clock.
    async fn wait(
        &self,
        millis: u64,
        lines: &Lines,
        entered: &Entered,
        context: &StepContext,
    ) -> Result<(), StepError> {
        let until = self.time.now().plus_millis(millis);
        tokio::select! {
            () = self.time.sleep_until(until) => Ok(()),
            () = context.cancellation.cancelled(), if !lines.deaf => Err(asked_to_stop()),
            () = entered.killed() => Err(gone()),
        }
    }

    /// Waits at a gate. In virtual time the wait is work, for which time stands still, but for the spans that a case
    /// lets pass.
    async fn wait_at(
        &self,
        gate: &str,
        lines: &Lines,
        entered: &Entered,
        context: &StepContext,
    ) -> Result<(), StepError> {
        let gate = self.stage.gate(gate);
        let opened = gate.acquire();
        tokio::pin!(opened);
        let mut passing = self.stage.passing();
        loop {
            let until = *passing.borrow_and_update();
            let asleep = async {
                match until {
                    Some(until) if until > self.time.now() => self.time.sleep_until(until).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = entered.killed() => return Err(gone()),
                () = context.cancellation.cancelled(), if !lines.deaf => return Err(asked_to_stop()),
                opened = &mut opened => {
                    // One permit, one step: it is not given back.
                    if let Ok(permit) = opened {
                        permit.forget();
                    }
                    return Ok(());
                }
                _ = passing.changed() => {}
                () = asleep => {}
            }
        }
    }
}

#[async_trait]
impl StepHandler for Script {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let entered = self.stage.enter(&context, self.name, &input).await;
        let lines = match Lines::read(&input) {
            Ok(lines) => lines,
            Err(slip) => {
                self.stage.slip(format!("step {}: {slip}", context.step_id));
                return Err(StepError::new(FailureClass::Permanent, "SCRIPT_INVALID", slip));
            }
        };
        let result = self.follow(&lines, &entered, &context).await;
        entered.leave(match &result {
            Ok(_) => Left::Done,
            Err(error) => Left::Failed(error.code.clone()),
        });
        result
    }
}

/// A secret of the step that its script tells.
fn told(context: &StepContext, name: &str) -> Result<String, StepError> {
    let secret = context.secret(name).map(|secret| secret.expose().to_owned());
    secret.ok_or_else(|| StepError::new(FailureClass::Permanent, "NO_SECRET", format!("there is no {name}")))
}

pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn asked_to_stop() -> StepError {
    StepError::new(FailureClass::Cancelled, "CANCELLED", "it was asked to stop")
}

fn gone() -> StepError {
    StepError::new(FailureClass::Transient, "GONE", "its process is gone")
}
