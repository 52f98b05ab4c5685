//! Drivetrain: one run contract, any engine. This crate is the door: a facade for programs, and the command line.
//!
//! - [`facade`]: [`Drivetrain`] starts, signals, reads and waits for runs; [`Builder`] puts it together;
//! - [`engines`]: the registry of engines by name;
//! - [`config`]: `drivetrain.toml`, `DRIVETRAIN_…` and flags, one table of keys;
//! - `equipment`: what a worker gets by configuration;
//! - [`graph`]: drawings of a plan;
//! - [`cli`] (feature): the command line, also for programs that add handlers of their own.

#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod engines;
mod equipment;
pub mod facade;
pub mod graph;

pub use engine_core::event::step::StepError;
pub use engine_core::plan::{CompiledPlan, Plan};
pub use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler};
pub use engine_core::projection::RunSnapshot;
pub use engine_core::{Code, Error, Result, RunId, StepId};
pub use facade::ask::{Ask, Asked, Decision};
pub use facade::builder::{Builder, EngineChoice, StoreChoice};
pub use facade::complete::Completion;
pub use facade::origin::{Rerun, RerunFrom};
pub use facade::read::ListFilter;
pub use facade::start::{Start, Started};
pub use facade::{Drivetrain, Scope};

/// The examples of the guides are compiled.
#[cfg(all(doctest, feature = "cli"))]
mod guides {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[doc = include_str!("../../docs/cli.md")]
    struct CommandLine;
}
