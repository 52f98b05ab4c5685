//! The time that cases set.

use std::sync::atomic::{AtomicI64, Ordering};

use engine_core::Timestamp;
use engine_core::port::Clock;

/// A clock that stands still until it is told to go on.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.as_millis()))
    }

    /// Lets `millis` pass.
    pub fn advance(&self, millis: u64) {
        let later = self.now().plus_millis(millis);
        self.0.store(later.as_millis(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// A clock that shows 2026-02-11T10:30:00.123Z: milliseconds that a store which keeps seconds would lose.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_770_805_800_123))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_told() {
        let clock = ManualClock::default();
        let before = clock.now();
        assert_eq!(before.to_string(), "2026-02-11T10:30:00.123Z");
        assert_eq!(clock.now(), before);
        clock.advance(1500);
        assert_eq!(clock.now().millis_since(before), 1500);
    }
}
