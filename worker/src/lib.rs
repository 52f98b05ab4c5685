//! Does one attempt of a step, whichever engine asks for it.
//!
//! An engine that folds and appends itself takes the phases: [`Worker::prepare`] works out condition, input and token,
//! [`Worker::execute`] calls the handler and gives the report to decide about. An engine that delivers one attempt at a
//! time takes the whole way: [`Worker::attempt`]. Rules about runs stand in engine-core's decider; here is only what
//! needs a clock, a store or a handler.
//!
//! - [`handlers`]: the code that does steps, by name; [`builtin`]: handlers for people who write none;
//! - [`code`]: a plan as workers need it, read once; [`history`]: what a worker knows of a run;
//! - [`mod@worker`]: what a worker is made of; `prepare`, `execute`: the phases; [`mod@attempt`]: the whole way;
//! - `drive`: one call of a handler: time limit, panics, progress; `observe`: what the handler tells meanwhile;
//! - `claim`: holding an attempt while it runs;
//! - [`secrets`]: providers; [`redact`]: keeping what they gave out of everything that is written;
//! - [`artifacts`]: large outputs; [`time`]: the clock of this machine.
//!
//! `docs/handlers.md` is the guide for people who write handlers or use the built-in ones.

pub mod artifacts;
pub mod attempt;
pub mod builtin;
mod claim;
pub mod code;
mod drive;
mod execute;
pub mod handlers;
pub mod history;
mod observe;
mod prepare;
pub mod redact;
pub mod secrets;
pub mod time;
#[cfg(any(feature = "http", feature = "s3"))]
mod tls;
pub mod worker;

pub use artifacts::{Artifacts, S3Settings};
pub use attempt::{Delivery, Outcome, Standing};
pub use code::{PlanCode, Plans};
pub use execute::Call;
pub use handlers::Handlers;
pub use history::History;
pub use prepare::{Prepared, ReadyStep};
pub use redact::Redactor;
pub use secrets::{DirectorySecrets, EnvironmentSecrets, SecretsByProvider};
pub use time::MachineTime;
pub use worker::{Worker, WorkerBuilder};

/// The examples of the guide are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/handlers.md")]
struct Guide;
