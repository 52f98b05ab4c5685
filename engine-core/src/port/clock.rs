//! The clock port: what time it is, for everything outside the core that must know.

use std::fmt::Debug;

use futures_core::future::BoxFuture;

use crate::time::Timestamp;

/// Tells the time. Tests and the engine with virtual time bring their own.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// A clock that can also be waited for. Virtual time brings its own.
pub trait Timekeeper: Clock {
    /// Ends when this clock shows `at` or later; at once when it does already.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;

    /// The same beside somebody's work, as a time limit. Virtual time must know the two apart: it stands still while
    /// somebody works, and passes while all sleep.
    fn alarm(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.sleep_until(at)
    }
}
