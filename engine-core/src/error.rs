//! The one error type of the contract: a stable code, what happened, and what to do next.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal $(, $retryable:ident)?;)*) => {
        /// Why something was refused or failed. The text of a code never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable text that stands in events, reports and HTTP answers.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The code with this text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }

            /// Whether doing the same again later may succeed.
            #[must_use]
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$variant => codes!(@retry $($retryable)?),)* }
            }
        }
    };
    (@retry retryable) => { true };
    (@retry) => { false };
}

codes! {
    // Identifiers and documents.
    /// An identifier breaks its rule.
    InvalidId = "INVALID_ID";
    /// A text is not a time.
    InvalidTime = "INVALID_TIME";
    /// The plan has problems; all of them are listed.
    PlanInvalid = "PLAN_INVALID";
    /// The plan's content cannot be found.
    PlanMissing = "PLAN_MISSING";
    /// The plan's content is not the one the run was queued with.
    PlanHashMismatch = "PLAN_HASH_MISMATCH";
    /// A reused step, or one it depends on, is defined differently now.
    PlanChanged = "PLAN_CHANGED";
    /// An expression cannot be read or evaluated.
    ExpressionInvalid = "EXPRESSION_INVALID";
    /// A payload is over its limit.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE";
    /// An event does not match its schema; nothing of its append call was stored.
    SchemaValidationFailed = "SCHEMA_VALIDATION_FAILED";

    // Signals.
    /// A signal's payload is malformed.
    SignalInvalidPayload = "SIGNAL_INVALID_PAYLOAD";
    /// The caller may not do this.
    AuthzDenied = "AUTHZ_DENIED";
    /// The run has ended; nothing changes it any more.
    RunTerminal = "RUN_TERMINAL";
    /// The run is ending: failing, cancelling, timing out or compensating.
    RunEnding = "RUN_ENDING";
    /// The run has not started yet.
    RunNotStarted = "RUN_NOT_STARTED";
    /// The run is paused already.
    RunAlreadyPaused = "RUN_ALREADY_PAUSED";
    /// The run is not paused.
    RunNotPaused = "RUN_NOT_PAUSED";
    /// The run needs no approval or has it.
    RunAlreadyApproved = "RUN_ALREADY_APPROVED";
    /// The plan has no such step.
    StepNotFound = "STEP_NOT_FOUND";
    /// The step's latest attempt has ended.
    StepTerminal = "STEP_TERMINAL";
    /// The step's latest attempt has not ended.
    StepNotTerminal = "STEP_NOT_TERMINAL";
    /// The step's attempt is released, running or waiting for a person.
    StepInFlight = "STEP_IN_FLIGHT";
    /// The step does not wait for manual completion.
    StepNotWaiting = "STEP_NOT_WAITING";
    /// A step that depends on this one, or its fallback, is in flight.
    DependentInFlight = "DEPENDENT_IN_FLIGHT";
    /// The completion token is not the one that was handed out.
    TokenMismatch = "TOKEN_MISMATCH";
    /// Whoever triggered the run may not decide this.
    SeparationOfDuties = "SEPARATION_OF_DUTIES";

    // Runs and attempts.
    /// A transition that the state machine does not have.
    IllegalTransition = "ILLEGAL_TRANSITION";
    /// The attempt was given up when draining timed out; its late outcome is refused.
    OrphanedTask = "ORPHANED_TASK";
    /// The worker of an attempt is gone.
    WorkerLost = "WORKER_LOST", retryable;
    /// An attempt took longer than its timeout.
    StepTimeout = "STEP_TIMEOUT", retryable;
    /// The run took longer than its timeout.
    RunTimeout = "RUN_TIMEOUT";
    /// A step failed for good and the run could not go on.
    StepFailed = "STEP_FAILED";
    /// More steps failed than the run allows.
    MaxFailures = "MAX_FAILURES";
    /// A pause did not drain in time.
    PauseDrainTimeout = "PAUSE_DRAIN_TIMEOUT";
    /// The handler's circuit breaker is open.
    CircuitOpen = "CIRCUIT_OPEN", retryable;
    /// No handler of that name is registered.
    HandlerUnknown = "HANDLER_UNKNOWN";
    /// A secret reference cannot be resolved.
    SecretUnresolved = "SECRET_UNRESOLVED";

    // Starting.
    /// No such run, plan, checkpoint or artifact for this tenant.
    NotFound = "NOT_FOUND";
    /// The adapter does not have this ability; nothing was done.
    Unsupported = "UNSUPPORTED";
    /// The tenant's tier does not include this.
    EntitlementRequired = "ENTITLEMENT_REQUIRED";
    /// Admission control refused the run for now.
    AdmissionRejected = "ADMISSION_REJECTED", retryable;
    /// The source run of a rerun, copy, link or archive is not in the state it must be in.
    OriginInvalid = "ORIGIN_INVALID";
    /// The engine refused the run.
    EngineRefused = "ENGINE_REFUSED";
    /// The engine cannot be reached.
    EngineUnavailable = "ENGINE_UNAVAILABLE", retryable;

    // The store.
    /// The store cannot be reached.
    StoreUnavailable = "STORE_UNAVAILABLE", retryable;
    /// A write took longer than its budget.
    WriteBudgetExceeded = "WRITE_BUDGET_EXCEEDED", retryable;
    /// The store was written by a newer version.
    StoreSchemaNewer = "STORE_SCHEMA_NEWER";
    /// Somebody else decided meanwhile: fold and decide again.
    DecisionConflict = "DECISION_CONFLICT", retryable;
    /// Another worker holds the lease or claim.
    LeaseHeld = "LEASE_HELD", retryable;
    /// The lease or claim was lost to another worker.
    LeaseLost = "LEASE_LOST";
    /// A stored checkpoint does not match its checksum.
    CheckpointCorrupt = "CHECKPOINT_CORRUPT";
    /// The run was queued by a decider this process does not know; it is left alone.
    UnknownDeciderVersion = "UNKNOWN_DECIDER_VERSION";

    /// A defect in Drivetrain itself.
    Internal = "INTERNAL";
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What went wrong: a stable [`Code`], a sentence for a person, and what to do next.
#[derive(Debug)]
pub struct Error(Box<Details>);

#[derive(Debug)]
struct Details {
    code: Code,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with a code and a sentence that names the thing, the place and the reason.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Details { code, message: message.into(), hint: None, source: None }))
    }

    /// Adds what the reader can do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened, without code and hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next, when something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.code.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.code, self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(formatter, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

/// The result of everything that can fail in the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text_and_is_found_by_it() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
        assert_eq!(Code::parse("NO_SUCH_CODE"), None);
    }

    #[test]
    fn an_error_names_its_code_and_the_next_step() {
        let error = Error::new(Code::RunNotPaused, "run r1 is RUNNING").with_hint("PAUSE it first");
        assert_eq!(error.to_string(), "RUN_NOT_PAUSED: run r1 is RUNNING (PAUSE it first)");
        assert!(!error.is_retryable());
        assert!(Error::new(Code::DecisionConflict, "x").is_retryable());
    }
}
