//! Exit codes: what became of it, for scripts. They never change their meaning.

use engine_core::Code;
use engine_core::event::run::RunOutcome;
use engine_core::machine::RunStatus;
use engine_core::projection::RunSnapshot;

macro_rules! exits {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $about:literal;)*) => {
        /// What became of a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Exit { $($(#[$doc])* $name,)* }

        impl Exit {
            /// Every exit.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code that the process ends with.
            #[must_use]
            pub fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }

            /// What it means.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)* }
            }
        }

        /// The same as a help text.
        pub(super) const HELP: &str = concat!("Exit codes:", $("\n  ", $code, "\t", $about,)*);
    };
}

exits! {
    /// Done.
    Success = 0, "done; a run COMPLETED with outcome SUCCESS";
    /// Something unexpected.
    Failure = 1, "something unexpected went wrong, doctor found a problem, or an engine does not conform";
    /// Wrong arguments or configuration.
    Usage = 2, "wrong arguments or configuration; of conformance: the harness or a server broke";
    /// Wrong plan or input.
    Invalid = 3, "the plan or the input is wrong; nothing was stored; of conformance: nothing ran";
    /// COMPLETED, not all of it well.
    Partial = 4, "the run COMPLETED with outcome PARTIAL";
    /// FAILED.
    Failed = 5, "the run FAILED";
    /// CANCELLED.
    Cancelled = 6, "the run was CANCELLED";
    /// PAUSED.
    Paused = 7, "the run is PAUSED, by Ctrl-C or otherwise; the command to resume it was printed";
    /// Waiting for a person.
    Waiting = 8, "the run waits for a person; what to type was printed";
    /// Refused.
    Refused = 9, "the run or an authorizer refused what was asked";
    /// Undecided.
    Undecided = 10, "the signal is stored and nobody has decided yet";
    /// Not found.
    NotFound = 11, "there is no such run, step or checkpoint";
    /// The store.
    Store = 12, "the store cannot be opened, read or written";
    /// The engine.
    Engine = 13, "the engine is unknown, not in this program, or cannot be reached";
    /// Left.
    Left = 130, "left by a third Ctrl-C; the run is as it was";
}

impl Exit {
    /// What a run's snapshot means for the exit code.
    #[must_use]
    pub fn of_run(snapshot: &RunSnapshot) -> Self {
        match snapshot.status {
            Some(RunStatus::Completed) if snapshot.outcome == Some(RunOutcome::Partial) => Self::Partial,
            Some(RunStatus::Completed) => Self::Success,
            Some(RunStatus::Failed) => Self::Failed,
            Some(RunStatus::Cancelled) => Self::Cancelled,
            Some(RunStatus::Paused) => Self::Paused,
            _ => Self::Waiting,
        }
    }

    /// What an error's code means for the exit code.
    #[must_use]
    pub fn of_error(code: Code) -> Self {
        match code {
            Code::InvalidId | Code::InvalidTime => Self::Usage,
            Code::PlanInvalid
            | Code::ExpressionInvalid
            | Code::SchemaValidationFailed
            | Code::PayloadTooLarge
            | Code::SignalInvalidPayload
            | Code::HandlerUnknown => Self::Invalid,
            Code::NotFound | Code::StepNotFound | Code::PlanMissing => Self::NotFound,
            Code::StoreUnavailable
            | Code::WriteBudgetExceeded
            | Code::StoreSchemaNewer
            | Code::CheckpointCorrupt => Self::Store,
            Code::EngineUnavailable | Code::EngineRefused | Code::Unsupported => Self::Engine,
            Code::AuthzDenied
            | Code::RunTerminal
            | Code::RunEnding
            | Code::RunNotStarted
            | Code::RunAlreadyPaused
            | Code::RunNotPaused
            | Code::RunAlreadyApproved
            | Code::StepTerminal
            | Code::StepNotTerminal
            | Code::StepInFlight
            | Code::StepNotWaiting
            | Code::DependentInFlight
            | Code::TokenMismatch
            | Code::SeparationOfDuties
            | Code::OriginInvalid
            | Code::PlanChanged
            | Code::EntitlementRequired
            | Code::AdmissionRejected => Self::Refused,
            _ => Self::Failure,
        }
    }
}

/// The table for the documentation.
#[must_use]
pub fn markdown() -> String {
    let rows = Exit::ALL.iter().map(|exit| format!("| {} | {} |\n", exit.code(), exit.about()));
    std::iter::once("| code | meaning |\n|---|---|\n".to_owned()).chain(rows).collect()
}
