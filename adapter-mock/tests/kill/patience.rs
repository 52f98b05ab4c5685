//! Every wait has an end, and what it waited for is in the message.

use std::time::{Duration, Instant};

/// The longest that anything may take that must happen, on a machine that does much else.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {} s for {what}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A number from 0 to below `end`, by chance.
pub(crate) fn chance(end: u64) -> u64 {
    let random = uuid::Uuid::new_v4().as_u64_pair().1;
    random % end
}

/// A runtime of two threads, as many as there are cores on a small machine.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
