//! Steps that do what the plan says: no user code, but a script in the step's `with`, and gates in place of sleeps.
//!
//! - [`lines`]: what a script can say;
//! - [`stage`]: gates, and the record of who entered and left;
//! - [`handler`]: the handler that follows the script;
//! - [`secrets`]: the secrets that steps refer to.
//!
//! ```yaml
//! - {id: a, handler: script, with: {gate: left}}
//! - {id: b, handler: script, with: {fail: {class: transient, times: 2}, value: 42}}
//! ```

pub mod handler;
pub mod lines;
pub mod secrets;
pub mod stage;

pub use handler::Script;
pub use lines::{FailLine, Lines};
pub use secrets::Vault;
pub use stage::Stage;

/// The names under which a subject's worker hosts the scripted handler. They all do the same; several are needed where a
/// plan treats handlers differently.
pub const HANDLERS: [&str; 3] = ["script", "other", "undo"];
