//! Data flow: what a step sees, what it is given, and what becomes of its output. Pure; reading and storing is
//! somebody else's.
//!
//! - [`Context`]: what a step sees of its run: `input`, `steps` and `vars`;
//! - [`StepMapping`]: a step's condition, input and output, read once from the plan;
//! - [`check_run_input`], [`run_output`]: the run's own input and output;
//! - [`schema`]: JSON Schemas that plans carry;
//! - [`check_size`] and the limits; [`step_token`].

mod context;
mod mapping;
pub(crate) mod path;
mod reference;
mod run;
pub mod schema;
mod size;
mod token;
mod vars;

pub use context::{Context, StepView};
pub use mapping::StepMapping;
pub use run::{check_run_input, run_output};
pub use schema::DataSchema;
pub use size::{INLINE_BYTES, JOURNAL_BYTES, SYNCHRONOUS_BYTES, check_size, json_size};
pub use token::step_token;
