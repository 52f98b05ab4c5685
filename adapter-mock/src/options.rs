//! What can be chosen about the engine.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Faults;
use crate::virtual_time::VirtualTime;

/// What can be chosen about the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a run stays with a process that has stopped answering, before another takes it.
    pub lease: Duration,
    /// How long [`crate::InProcess::shutdown`] waits for handlers that run.
    pub shutdown_grace: Duration,
    /// Which runs it drives.
    pub recover: Recover,
    /// How attempts reach the worker.
    pub handover: Handover,
    /// Time that passes when nothing else happens. Give the same to the worker and to the store.
    pub virtual_time: Option<VirtualTime>,
    /// What a test lets go wrong.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(30),
            recover: Recover::All,
            handover: Handover::Direct,
            virtual_time: None,
            faults: None,
        }
    }
}

/// Which runs an engine drives, of those that nobody drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// All of them: those that it finds when it opens, and those that others leave behind later.
    #[default]
    All,
    /// Only those that it was asked to start or to signal, as long as they live. Others may need handlers that this
    /// process does not have.
    OnlyAsked,
}

/// How attempts reach the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// The driver runs them itself: the run's lease stands in for claims, and a step costs one commit.
    #[default]
    Direct,
    /// As a server hands them out: each delivery goes the whole way of [`worker::Worker::attempt`], with a log check and a
    /// claim of its own, and the driver reads what was written. Slower; for tests of that way.
    Claimed {
        /// How often each attempt is handed out: while the first is at work, and once more when the attempt has ended.
        copies: usize,
    },
}
