//! The Drivetrain run contract in code: what a run is, what may happen to it, and who decides. No I/O.

pub mod data;
pub mod error;
pub mod event;
pub mod failure;
pub mod hash;
pub mod id;
pub mod machine;
pub mod plan;
pub mod signal;
pub mod time;
mod wire;

pub use error::{Code, Error, Result};
pub use id::{AgentName, CheckpointId, HandlerName, PlanId, PlanVersion, RunId, SignalId, StepId, TenantId};
pub use time::Timestamp;
