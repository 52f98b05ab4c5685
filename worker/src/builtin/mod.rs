//! Handlers for people who write no Rust.
//!
//! - [`exec`]: runs a program from an allow-list; [`http`]: calls a host from an allow-list;
//! - [`simple`]: `echo`, `sleep` and `fail`, for demonstrations and tests of plans.
//!
//! `docs/handlers.md` describes every field.

pub mod exec;
mod group;
#[cfg(feature = "http")]
mod hosts;
#[cfg(feature = "http")]
pub mod http;
pub mod simple;

use std::sync::Arc;

use engine_core::Result;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::Timekeeper;

pub use exec::{ExecPolicy, Program};
#[cfg(feature = "http")]
pub use http::HttpPolicy;

use crate::handlers::Handlers;

/// What the built-in handlers may do. Nothing is allowed unless it is said here.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    /// Programs that `exec` may run.
    pub exec: ExecPolicy,
    /// Hosts that `http` may call.
    #[cfg(feature = "http")]
    pub http: HttpPolicy,
}

/// Registers the built-in handlers `exec`, `http`, `echo`, `sleep` and `fail`.
///
/// # Errors
/// `INVALID_ID` when one of the names is taken; `UNSUPPORTED` when an allow-list has an entry that cannot work.
pub fn register(handlers: &mut Handlers, builtins: Builtins, time: Arc<dyn Timekeeper>) -> Result<()> {
    handlers.register("exec", exec::Exec::new(builtins.exec)?)?;
    #[cfg(feature = "http")]
    handlers.register("http", http::Http::new(&builtins.http)?)?;
    handlers.register("echo", simple::Echo)?;
    handlers.register("sleep", simple::Sleep::new(time))?;
    handlers.register("fail", simple::Fail)?;
    Ok(())
}

/// The handler stops because it was asked to.
fn cancelled() -> StepError {
    StepError::new(FailureClass::Cancelled, "CANCELLED", "the handler was asked to stop")
}
