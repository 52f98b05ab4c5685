//! The Drivetrain run contract in code: what a run is, what may happen to it, and who decides. No I/O.
//!
//! - [`plan`]: the document people write, its checks, and the compiled graph;
//! - [`data`]: what a step sees of its run, gets and leaves;
//! - [`event`]: the only truth about a run, with keys, slots and schemas;
//! - [`machine`]: the state machines as tables;
//! - [`decider`]: `evolve`, `decide`, `settle`, `actions`: every decision about a run, pure;
//! - [`failure`]: classes of errors and retries; [`signal`]: what people ask of a run;
//! - [`projection`]: snapshots and progress, folded from the log;
//! - [`port`]: what engines, stores, buses, handlers, secrets and authorisation look like from here.
//!
//! `docs/contract.md` says what must happen, each rule with an id.

pub mod data;
pub mod decider;
pub mod error;
pub mod event;
pub mod failure;
pub mod hash;
pub mod id;
pub mod machine;
pub mod plan;
pub mod port;
pub mod projection;
pub mod signal;
pub mod time;
mod wire;

pub use error::{Code, Error, Result};
pub use id::{AgentName, CheckpointId, HandlerName, PlanId, PlanVersion, RunId, SignalId, StepId, TenantId};
pub use time::Timestamp;
