//! The in-process engine: drives runs inside this process, durably, on any store; no server.
//!
//! Whoever holds a run's lease drives it: folds its log, decides, appends, and hands attempts to the worker. A step
//! costs one commit: the end of one attempt and the start of the next go together. Nothing is polled: handlers,
//! signals and timers wake the driver. With [`VirtualTime`] the same engine is a test double in which hours of waiting
//! take milliseconds.
//!
//! - [`engine`]: the engine itself, and which runs it drives;
//! - `attend`: finding runs that nobody drives, and hearing of signals;
//! - `driver`: one run, from lease to end: wait, take a turn, act;
//! - `turn`: what one turn decides and appends, in one go;
//! - `flights`: handlers that run; `claimed`: attempts that are handed out with claims, as a server does it;
//! - [`options`]: what can be chosen; [`faults`]: what a test lets go wrong;
//! - [`virtual_time`]: time that passes when nothing else happens.

mod attend;
mod claimed;
mod driver;
pub mod engine;
pub mod faults;
mod flights;
pub mod options;
mod turn;
pub mod virtual_time;

pub use engine::{ENGINE, InProcess};
pub use faults::{Fault, Faults, Moment};
pub use options::{Handover, Options, Recover};
pub use virtual_time::VirtualTime;
