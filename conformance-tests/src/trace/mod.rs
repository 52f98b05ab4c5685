//! What a run did, in a form that can be compared across engines.
//!
//! - [`canonical`]: a log without what differs from run to run: ids, times, engines' own attempts;
//! - [`order`]: what must come before what; siblings may interleave;
//! - [`diff`]: traces side by side, with the first divergence marked.
//!
//! Two traces agree when both linearise the same order: each step went through the same events, and whatever had to wait
//! for something waited for the same.

pub mod canonical;
pub mod diff;
pub mod order;

pub use canonical::{Moment, Trace};
pub use diff::side_by_side;
pub use order::{Divergence, Order, Place};
