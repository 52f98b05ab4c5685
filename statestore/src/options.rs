//! What can be chosen when a store is opened.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine_core::Timestamp;
use engine_core::port::Clock;

/// What can be chosen when a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a write may take, waiting for a store that is away included (BUDGET-1).
    pub write_budget: Duration,
    /// What survives a power cut, on SQLite. Postgres has settings of its own.
    pub durability: Durability,
    /// Whether events wait for a bus. Without one that takes them, runs that have ended are never forgotten.
    pub outbox: bool,
    /// The Postgres schema that holds the tables. Stores in different schemas do not see each other.
    pub schema: String,
    /// Connections for reading, besides the one that writes.
    pub readers: u32,
    /// How often a SQLite store looks whether another process has written, while somebody waits for news.
    pub foreign_check: Duration,
    /// Tells the time; `None` is the clock of the database server, or of this machine where there is no server.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            write_budget: Duration::from_millis(3000),
            durability: Durability::Full,
            outbox: true,
            schema: "drivetrain".to_owned(),
            readers: 4,
            foreign_check: Duration::from_millis(20),
            clock: None,
        }
    }
}

/// What an acknowledged write survives. Both survive the end of the process, however sudden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut too: every commit waits until the disk has it.
    #[default]
    Full,
    /// Not always a power cut: the last commits may be lost then, the log stays consistent.
    Normal,
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
