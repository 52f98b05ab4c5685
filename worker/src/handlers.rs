//! The code that does steps, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler};
use engine_core::{Code, Error, HandlerName, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Handlers by name. Cheap to clone; clones do not see what is registered later.
#[derive(Clone, Default)]
pub struct Handlers {
    by_name: BTreeMap<HandlerName, Arc<dyn StepHandler>>,
}

impl Handlers {
    /// No handlers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a handler.
    ///
    /// # Errors
    /// `INVALID_ID` when the name is taken, breaks its rule, or names an engine's own handler as in `temporal:Charge`.
    pub fn register(&mut self, name: &str, handler: impl StepHandler) -> Result<()> {
        let name = HandlerName::new(name)?;
        if name.native_engine().is_some() {
            return Err(Error::new(
                Code::InvalidId,
                format!("handler {name} cannot be registered: the part before the colon names an engine"),
            )
            .with_hint("an engine hosts such handlers itself; register a name without a colon"));
        }
        if self.by_name.contains_key(&name) {
            return Err(Error::new(Code::InvalidId, format!("handler {name} is registered already"))
                .with_hint("register it once, or give the second one another name"));
        }
        self.by_name.insert(name, Arc::new(handler));
        Ok(())
    }

    /// Registers a plain async function. The input is read into `I` and what it returns is written as JSON; an input
    /// that does not fit is a permanent failure of the step.
    ///
    /// # Errors
    /// As [`Handlers::register`].
    pub fn register_fn<I, O, F, Fut>(&mut self, name: &str, f: F) -> Result<()>
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        F: Fn(StepContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        self.register(name, Typed { function: f, types: PhantomData })
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &HandlerName> {
        self.by_name.keys()
    }

    /// Whether a handler of this name is registered.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn find(&self, name: &HandlerName) -> Option<&Arc<dyn StepHandler>> {
        self.by_name.get(name)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.by_name.keys()).finish()
    }
}

struct Typed<I, O, F> {
    function: F,
    types: PhantomData<fn(I) -> O>,
}

#[async_trait]
impl<I, O, F, Fut> StepHandler for Typed<I, O, F>
where
    I: DeserializeOwned + 'static,
    O: Serialize + 'static,
    F: Fn(StepContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, StepError>> + Send + 'static,
{
    async fn run(&self, context: StepContext, input: Value) -> HandlerResult {
        let step_id = context.step_id.clone();
        let running = {
            let input: I = serde_json::from_value(input).map_err(|cause| {
                invalid(format!("the input of step {step_id} is not what its handler takes: {cause}"))
            })?;
            (self.function)(context, input)
        };
        let output = running.await?;
        let value = serde_json::to_value(output).map_err(|cause| {
            invalid(format!("the output of step {step_id} cannot be written as JSON: {cause}"))
        })?;
        Ok(HandlerOutput::from(value))
    }
}

/// DATA-16: the same data gives the same result every time.
pub(crate) fn invalid(message: String) -> StepError {
    StepError::new(FailureClass::Permanent, "ValidationError", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(handlers: &mut Handlers, name: &str) -> Result<()> {
        handlers.register_fn(name, |_, _: Value| async { Ok(()) })
    }

    #[test]
    fn a_name_is_registered_once_and_belongs_to_no_engine() {
        let mut handlers = Handlers::new();
        nothing(&mut handlers, "b").unwrap();
        nothing(&mut handlers, "a").unwrap();
        let error = nothing(&mut handlers, "a").unwrap_err();
        assert!(error.message().contains("handler a is registered already"), "{error}");
        assert!(nothing(&mut handlers, "temporal:Charge").unwrap_err().message().contains("engine"));
        assert_eq!(nothing(&mut handlers, "not a name").unwrap_err().code(), Code::InvalidId);
        let names: Vec<&str> = handlers.names().map(HandlerName::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(handlers.contains("a") && !handlers.contains("c"));
    }
}
