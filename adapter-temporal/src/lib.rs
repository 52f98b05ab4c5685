//! Drives runs on a Temporal cluster.
//!
//! One run is one workflow with the run's id. Its code is an interpreter around engine-core's decider: it folds what its
//! activities return and does what the decider says. An attempt of a step is one activity whose type is the handler's
//! name; retries are Temporal's own. Decisions are written into the log by local activities, which look at the log as it
//! is then. The history carries ids and places in the log, never payloads; workers read those from the store.
//!
//! The log is the truth: a worker starts only what the log releases, returns what the log says has ended, and stops a
//! handler only when the log says so. So a history that is cut off, a worker that dies and a server that forgets do no
//! harm.
//!
//! - [`engine`]: the engine itself, its client side; [`connect`]: reaching a server;
//! - `attend`: finding runs whose workflow is gone;
//! - `driver`: the interpreter workflow; `flights`: what it has handed out;
//! - `activities`: attempts and their undoing, on a worker; `stops`: telling those that run to stop;
//! - `turn`: what a local activity decides and appends, in one go;
//! - `carried`: what travels through the history;
//! - `serve`: Temporal's workers in this process; [`options`]: what can be chosen;
//! - [`mod@replay`]: whether recorded histories still fit.

mod activities;
mod attend;
mod carried;
pub mod connect;
mod driver;
pub mod engine;
mod flights;
pub mod options;
pub mod replay;
mod serve;
mod stops;
mod turn;

pub use connect::Connect;
pub use driver::{INTERPRETER_VERSION, WORKFLOW_TYPE};
pub use engine::{ENGINE, Temporal};
pub use options::Options;
pub use replay::replay;
