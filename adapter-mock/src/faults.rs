//! What a test lets go wrong. A fault acts on one run: its driver is gone as if the process had been killed, without a
//! word to anybody, and its lease is left to run out.

use std::fmt::Debug;

use engine_core::RunId;
use engine_core::decider::AttemptRef;
use engine_core::event::Draft;

/// Decides what goes wrong.
pub trait Faults: Debug + Send + Sync + 'static {
    /// What goes wrong at this moment.
    fn at(&self, run_id: &RunId, moment: Moment<'_>) -> Fault;

    /// A driver has forgotten what it knew of a run and folded its log again: whether it then knew the same.
    fn rebuilt(&self, run_id: &RunId, same: bool) {
        let _ = (run_id, same);
    }
}

/// A moment at which something can go wrong.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// These events are about to be appended.
    BeforeAppend(&'a [Draft]),
    /// So many events were appended, and nobody has acted on them.
    AfterAppend(usize),
    /// This attempt's handler has ended, and nobody has heard of it.
    HandlerEnded(&'a AttemptRef),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The run's driver and its handlers are gone.
    Crash,
    /// The driver forgets what it knows of the run and folds its log again; its handlers go on. Only after an append.
    Forget,
}
