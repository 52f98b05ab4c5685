//! Every wait has an end, and what it waited for is in the message.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The longest that anything may take that must happen, on a machine that does much else.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_nothing_lacks(what, || (!holds()).then(String::new));
}

/// Waits until all of something is there.
#[track_caller]
pub(crate) fn until_all<T: Debug>(what: &str, mut missing: impl FnMut() -> Vec<T>) {
    until_nothing_lacks(what, || {
        let missing = missing();
        (!missing.is_empty()).then(|| format!("; missing: {missing:?}"))
    });
}

#[track_caller]
fn until_nothing_lacks(what: &str, mut lacks: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + LIMIT;
    while let Some(lacks) = lacks() {
        assert!(Instant::now() < deadline, "waited {} s for {what}{lacks}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s for {what}", LIMIT.as_secs()),
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
