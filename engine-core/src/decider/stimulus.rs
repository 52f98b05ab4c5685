//! What a run can be told.

use std::collections::BTreeMap;

use serde_json::Value;

use super::timer::TimerId;
use crate::error::Code;
use crate::event::run::{RunQueued, RunStarted};
use crate::event::step::{StepCompleted, StepError, StepStarted, StepWaiting};
use crate::id::StepId;
use crate::signal::Signal;
use crate::time::Timestamp;

/// Something that a run has to decide about.
#[derive(Clone, Debug, PartialEq)]
pub enum Stimulus {
    /// A start request was admitted.
    Queue(Box<RunQueued>),
    /// The engine has begun.
    Started(Box<RunStarted>),
    /// The run cannot start: plan missing, hash mismatch, engine refuses.
    StartRefused {
        /// Why, as a code.
        code: Code,
        /// Why, for a person.
        message: String,
    },
    /// A worker, or an engine on its own, tells about an attempt.
    Step(Box<StepReport>),
    /// A try at undoing a step has ended.
    Compensation {
        /// The step.
        step: StepId,
        /// How.
        outcome: Result<BTreeMap<String, String>, StepError>,
    },
    /// Somebody asks for something.
    Signal(Box<Signal>),
    /// It is `now`, and the timer is due.
    TimerDue {
        /// The timer.
        timer: TimerId,
        /// The time.
        now: Timestamp,
    },
}

/// What is told about an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The step.
    pub step: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// The platform's counter, if it has one. Only for operators: a lower or repeated one does no harm.
    pub engine_attempt: Option<u32>,
    /// The run's driver itself handed the attempt out. Its word counts: it may have folded siblings in another order
    /// than the log, so that the log alone does not tell of the release.
    pub released_by_driver: bool,
    /// StepStarted, when it is not in the log yet: it is appended together with and before what is reported.
    pub start: Option<StepStarted>,
    /// What happened.
    pub report: Report,
}

impl StepReport {
    /// A report about an attempt that the log shows to be released.
    #[must_use]
    pub fn new(step: StepId, attempt: u32, report: Report) -> Self {
        Self { step, attempt, engine_attempt: None, released_by_driver: false, start: None, report }
    }
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A worker takes it.
    Started(StepStarted),
    /// Its `when` is false.
    ConditionFalse,
    /// A try failed; whether another follows is decided here.
    Failed {
        /// What went wrong.
        error: StepError,
        /// When the try started.
        started_at: Option<Timestamp>,
        /// When it ended.
        ended_at: Option<Timestamp>,
    },
    /// The engine gave the attempt up: no further try comes, whatever the class.
    EngineFailed {
        /// What went wrong.
        error: StepError,
    },
    /// Its worker is gone.
    WorkerLost {
        /// How that was noticed.
        message: String,
    },
    /// The handler is done and a person must complete the step.
    Waiting(StepWaiting),
    /// It ended well.
    Completed(StepCompleted),
    /// The handler gave up.
    Cancelled,
    /// The handler asks for a person's eyes.
    ReviewRequested {
        /// Why.
        reason: String,
        /// What the person should know.
        context: BTreeMap<String, Value>,
    },
}

impl Stimulus {
    /// What happened to an attempt, without a platform counter.
    #[must_use]
    pub fn step(step: StepId, attempt: u32, report: Report) -> Self {
        Self::Step(Box::new(StepReport::new(step, attempt, report)))
    }
}
