//! What becomes of a case.

use std::fmt;

use engine_core::{Code, Error};

/// What became of a case. Fail, Error and Skipped are different things: only Fail says that an implementation does not
/// conform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// The implementation does not do what the contract says.
    Fail {
        /// What was expected, and what came.
        what: String,
        /// What was recorded, for whoever looks for the reason.
        evidence: Vec<String>,
    },
    /// The harness, a server or the case itself broke: nothing is known about the implementation.
    Error {
        /// What broke.
        what: String,
    },
    /// The implementation does not declare what the case needs.
    Skipped {
        /// What it lacks.
        lacks: String,
    },
}

impl Verdict {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Error { .. } => "error",
            Self::Skipped { .. } => "skipped",
        }
    }
}

/// Why a case stopped before its end. `?` on a [`engine_core::Error`] makes one: a store or engine that cannot be
/// reached is the harness's trouble, every other answer that the case did not expect is the implementation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The implementation does not do what the contract says.
    Fail(String),
    /// Something broke that is not the implementation's.
    Error(String),
}

/// What a case returns.
pub type Outcome = Result<(), Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.code() {
            Code::StoreUnavailable | Code::EngineUnavailable | Code::WriteBudgetExceeded => {
                Self::Error(error.to_string())
            }
            _ => Self::Fail(format!("an answer that nobody expected: {error}")),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(what) | Self::Error(what) => formatter.write_str(what),
        }
    }
}

/// Stops a case as failed unless something holds: `ensure!(condition, "what was expected, {seen}")`.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::Stop::Fail(format!($($message)+)));
        }
    };
}

/// Stops a case as failed unless two values are the same: `ensure_eq!(seen, expected, "what they are")`.
#[macro_export]
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($message:tt)+) => {
        match (&$seen, &$expected) {
            (seen, expected) => {
                if *seen != *expected {
                    let what = format!($($message)+);
                    return Err($crate::Stop::Fail(format!("{what}: expected {expected:?}, saw {seen:?}")));
                }
            }
        }
    };
}
