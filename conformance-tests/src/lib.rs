//! One proof for every engine: cases for every MUST of the contract, judged from what was recorded.
//!
//! - [`requirement`]: the table of requirements, read from `docs/contract.md`;
//! - [`harness`], [`subject`]: what a third party implements, and what it opens; [`mod@in_process`] (feature): ours;
//! - [`mod@variant`]: the same cases while something goes wrong all the time; [`layer`]: a store with that around it;
//! - [`script`]: steps that do what the plan says, with gates in place of sleeps;
//! - [`world`]: what a case is given; [`history`]: everything that was recorded;
//! - [`check`]: what holds of every history, a file a rule; they judge any log;
//! - [`case`], [`cases`]: the cases, a file a topic;
//! - [`runner`], [`verdict`], [`timeouts`]: running them; [`report`]: telling of it, to people and to machines;
//! - [`scenario`]: plans and what is done to their runs, as files; [`trace`]: what runs did, compared across engines;
//! - [`mod@differential`] (feature): random plans and signals, against the decider alone;
//! - [`command`]: a whole program for a harness.
//!
//! A case fails when the implementation does not do what the contract says; it is an error when the harness or a server
//! broke; it is skipped when an optional ability is not declared. Only the first says that something does not conform.

pub mod case;
pub mod cases;
pub mod check;
pub mod command;
#[cfg(feature = "differential")]
pub mod differential;
pub mod harness;
pub mod history;
#[cfg(feature = "in-process")]
pub mod in_process;
pub mod layer;
pub mod report;
pub mod requirement;
pub mod runner;
pub mod scenario;
pub mod script;
pub mod subject;
pub mod timeouts;
pub mod trace;
pub mod variant;
pub mod verdict;
pub mod world;

pub use case::{Case, Profile};
pub use harness::{Fault, Harness, HarnessError, Implementation, Need, Setup};
pub use history::History;
pub use report::Report;
pub use runner::{Options, run, run_case, run_case_under};
pub use subject::{HandsOff, Operator, Subject};
pub use timeouts::Timeouts;
pub use variant::Variant;
pub use verdict::{Outcome, Stop, Verdict};
pub use world::{TestRun, World};
