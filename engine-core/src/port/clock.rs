//! The clock port: what time it is, for everything outside the core that must know.

use std::fmt::Debug;

use crate::time::Timestamp;

/// Tells the time. Tests and the engine with virtual time bring their own.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}
