//! The handler of every step. It does what its input says, by what the log says: so a try that was lost with its process
//! is tried again with the same result.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine_core::event::step::StepError;
use engine_core::event::{Body, Event, Slot};
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StateStore, StepContext, StepHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use worker::Handlers;

use super::diary::{Diary, Moment};
use super::patience::chance;
use super::runs::log;

/// The name of the handler that does a step.
pub(crate) const WORK: &str = "work";
/// The name of the handler that undoes one.
pub(crate) const UNDO: &str = "undo";
/// Where an output says which try it is of.
pub(crate) const TRY: &str = "try";

/// What a step does.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Script {
    /// How long it works at least, and half of how long at most.
    ms: u64,
    /// Tries that fail for now.
    fails: usize,
    /// Logical attempts that fail for good.
    bad_attempts: u32,
    /// Numbers that it adds up.
    given: Vec<i64>,
}

impl Default for Script {
    fn default() -> Self {
        Self { ms: 5, fails: 0, bad_attempts: 0, given: Vec::new() }
    }
}

/// Both handlers, writing a diary.
pub(crate) fn handlers(store: &Arc<dyn StateStore>, diary: Diary) -> Handlers {
    let (mut handlers, diary) = (Handlers::new(), Arc::new(diary));
    for (name, undoes) in [(WORK, false), (UNDO, true)] {
        let scripted = Scripted { store: Arc::clone(store), diary: Arc::clone(&diary), undoes };
        handlers.register(name, scripted).expect("a name that is free");
    }
    handlers
}

struct Scripted {
    store: Arc<dyn StateStore>,
    diary: Arc<Diary>,
    undoes: bool,
}

#[async_trait]
impl StepHandler for Scripted {
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let call = self.diary.call(&context, self.undoes);
        self.diary.write(Moment::Enter, &call);
        let log = log(&*self.store, &context.run_id, 0).await.expect("the log can be read");
        let about: Vec<&Event> = log
            .iter()
            .filter(|event| {
                event.subject.as_ref().is_some_and(|subject| {
                    subject.step == context.step_id && subject.attempt == context.logical_attempt_id
                })
            })
            .collect();
        if about.iter().any(|event| self.is_end(event)) {
            self.diary.write(Moment::Late, &call);
        }
        let script: Script = serde_json::from_value(input).expect("a script");
        tokio::time::sleep(Duration::from_millis(script.ms + chance(script.ms + 1))).await;
        let failed = about.iter().filter(|event| self.is_failed_try(event)).count();
        self.diary.write(Moment::Leave, &call);
        if context.logical_attempt_id <= script.bad_attempts {
            return Err(StepError::new(FailureClass::Permanent, "ValidationError", "never"));
        }
        if failed < script.fails {
            return Err(StepError::new(FailureClass::Transient, "ECONNREFUSED", "not yet"));
        }
        let mut output = HandlerOutput::from(json!({"number": 1 + script.given.iter().sum::<i64>()}));
        output.output.metadata.insert(TRY.to_owned(), json!(call.number));
        Ok(output)
    }
}

impl Scripted {
    /// Whether nobody may do this any more.
    fn is_end(&self, event: &Event) -> bool {
        match &event.body {
            Body::CompensationCompleted(_) => self.undoes,
            Body::CompensationFailed(failed) => self.undoes && !failed.will_retry,
            // A handler that waits for a person has done its work.
            Body::StepWaiting(_) => !self.undoes,
            body => {
                !self.undoes && matches!(Slot::of(event.subject.as_ref(), body), Some(Slot::AttemptEnd(..)))
            }
        }
    }

    fn is_failed_try(&self, event: &Event) -> bool {
        match &event.body {
            Body::StepRetried(retried) => !self.undoes && !retried.worker_lost,
            Body::CompensationFailed(_) => self.undoes,
            _ => false,
        }
    }
}
