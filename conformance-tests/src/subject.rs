//! What a case is run on: an engine on a store, its time, and what can be done to it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::{Engine, StateStore, Timekeeper};

use crate::harness::HarnessError;

/// An engine on a store, opened for one case.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The store that it uses.
    pub store: Arc<dyn StateStore>,
    /// The time that engine, store and steps live by: the machine's, or virtual.
    pub time: Arc<dyn Timekeeper>,
    /// What can be done to it.
    pub operator: Arc<dyn Operator>,
}

/// What can be done to a subject. A harness implements what it said in [`crate::Harness::faults`].
#[async_trait]
pub trait Operator: Debug + Send + Sync + 'static {
    /// Keeps virtual time from passing until what is returned is dropped. Real time cannot be kept.
    fn hold_time(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    /// Kills everything that drives runs and runs steps, without a word to anybody.
    ///
    /// # Errors
    /// When it cannot.
    async fn kill(&self) -> Result<(), HarnessError> {
        Err(HarnessError::new("this harness cannot kill"))
    }

    /// Starts again what was killed, at a time when nobody waits for the dead any more.
    ///
    /// # Errors
    /// When it cannot.
    async fn restart(&self) -> Result<(), HarnessError> {
        Err(HarnessError::new("this harness cannot restart"))
    }

    /// The engine as another process on the same store sees it.
    ///
    /// # Errors
    /// When it cannot.
    async fn another_process(&self) -> Result<Arc<dyn Engine>, HarnessError> {
        Err(HarnessError::new("this harness has no other process"))
    }

    /// Lets go of everything. Runs may still be live.
    async fn close(&self) {}
}

/// An operator that can do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandsOff;

#[async_trait]
impl Operator for HandsOff {}
