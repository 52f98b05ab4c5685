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
