//! Data flow: what a step sees, what it is given, and what becomes of its output. Pure; reading and storing is
//! somebody else's.

pub(crate) mod path;
mod reference;
pub mod schema;
