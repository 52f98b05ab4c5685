//! The clock of this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine_core::Timestamp;
use engine_core::port::{Clock, Timekeeper};
use futures_core::future::BoxFuture;

/// The clock of this machine. Waiting needs a tokio runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineTime;

impl Clock for MachineTime {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Timekeeper for MachineTime {
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            // Again when the machine's clock was set back meanwhile.
            loop {
                let left = at.millis_since(clock.now());
                if left == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_when_the_clock_shows_the_time_and_not_before() {
        let clock = MachineTime;
        let at = clock.now().plus_millis(5);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
        clock.sleep_until(Timestamp::from_millis(0)).await;
    }
}
