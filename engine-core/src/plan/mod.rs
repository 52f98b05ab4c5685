//! Plans: the document people write, its checks, and the compiled form that decisions read.
//!
//! - [`model`]: the document's fields, as in the published schema;
//! - [`schema`]: that schema;
//! - [`document`]: YAML and JSON text, and where in it everything stands;
//! - [`problem`]: what can be wrong with a plan;
//! - [`validate`](mod@validate): every problem at once, with its place;
//! - [`expression`]: JMESPath, and values with `${ }` in them;
//! - [`compiled`]: the graph with numbered steps, orders and limits worked out once;
//! - [`outline`]: the same without payloads, for an engine that carries it.

pub mod compiled;
pub mod document;
pub mod expression;
pub mod model;
pub mod outline;
pub mod problem;
pub mod schema;
pub mod validate;

pub use compiled::CompiledPlan;
pub use model::*;
pub use outline::Outline;
pub use problem::{Problem, ProblemCode, Problems};
pub use validate::{ValidationOptions, read, read_with, validate, validate_with};
