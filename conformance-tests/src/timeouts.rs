//! How long the suite waits, in one place.

use std::time::Duration;

/// How long the suite waits for what must happen, in real time. Each field is the most that a conformant implementation
/// may take on an ordinary machine; `scale` stretches all of them for slow ones, and stands in the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeouts {
    /// For an event, an entry or a decision that must come. In virtual time it comes within milliseconds; an engine
    /// with a server may take a lease and a little more.
    pub event: Duration,
    /// For what must not come, at the most, where time is the machine's: a case that says "never within an hour" looks
    /// no longer than this. In virtual time the whole hour passes.
    pub quiet: Duration,
    /// For one whole case.
    pub case: Duration,
    /// By how much the others are stretched.
    pub scale: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            event: Duration::from_secs(30),
            quiet: Duration::from_secs(5),
            case: Duration::from_secs(120),
            scale: 1.0,
        }
    }
}

impl Timeouts {
    /// The same, stretched.
    #[must_use]
    pub fn scaled(scale: f64) -> Self {
        Self { scale, ..Self::default() }
    }

    /// For what must come, stretched.
    #[must_use]
    pub fn for_event(&self) -> Duration {
        self.event.mul_f64(self.scale)
    }

    /// For what must not come, stretched.
    #[must_use]
    pub fn for_quiet(&self) -> Duration {
        self.quiet.mul_f64(self.scale)
    }

    /// For a whole case, stretched.
    #[must_use]
    pub fn for_case(&self) -> Duration {
        self.case.mul_f64(self.scale)
    }
}
