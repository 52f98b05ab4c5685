//! Plans: the document people write, its checks, and the compiled form that decisions read.
//!
//! - [`model`]: the document's fields, as in the published schema;
//! - [`compiled`]: the graph with numbered steps, orders and limits worked out once.

pub mod compiled;
pub mod model;

pub use compiled::CompiledPlan;
pub use model::*;
