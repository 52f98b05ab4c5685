//! Failures: how an error is classed, when it is tried again, and what follows when it is final.

use crate::event::step::StepError;
use crate::id::HandlerName;
use crate::plan::{Backoff, FailureAction, FailurePolicy, RetryPolicy, Step};
use crate::wire::open_enum;

open_enum! {
    /// What kind of failure an error is.
    pub enum FailureClass {
        /// May go away by itself; tried again.
        Transient = "transient",
        /// Will not go away; final at once.
        Permanent = "permanent",
        /// Took too long; tried again like a transient one.
        Timeout = "timeout",
        /// Given up on request; never tried again.
        Cancelled = "cancelled",
    }
}

const TRANSIENT_NAMES: &[&str] = &[
    "ECONNREFUSED",
    "ETIMEDOUT",
    "ENOTFOUND",
    "NetworkError",
    "TimeoutError",
    "ServiceUnavailable",
    "TooManyRequests",
    "rate_limit",
    "transport",
];

const PERMANENT_NAMES: &[&str] = &[
    "ValidationError",
    "AuthenticationError",
    "AuthorizationError",
    "NotFoundError",
    "ConflictError",
    "BadRequest",
    "policy_deny",
    "auth_deny",
];

/// The class of an error by its name, then by its HTTP status; what nobody knows is transient (FAIL-2).
#[must_use]
pub fn classify(name: &str, http_status: Option<u16>) -> FailureClass {
    if TRANSIENT_NAMES.contains(&name) {
        return FailureClass::Transient;
    }
    if PERMANENT_NAMES.contains(&name) {
        return FailureClass::Permanent;
    }
    match http_status {
        Some(429 | 500..=599) => FailureClass::Transient,
        Some(400..=499) => FailureClass::Permanent,
        _ => FailureClass::Transient,
    }
}

impl StepError {
    /// An error classed by its name and HTTP status.
    #[must_use]
    pub fn classified(name: &str, http_status: Option<u16>, message: impl Into<String>) -> Self {
        Self {
            code: name.to_owned(),
            class: classify(name, http_status),
            message: message.into(),
            http_status,
        }
    }

    /// An error of a known class.
    #[must_use]
    pub fn new(class: FailureClass, code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), class, message: message.into(), http_status: None }
    }
}

/// What follows a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another try after at least this many milliseconds.
    TryAgain {
        /// The delay.
        delay_ms: u64,
    },
    /// The failure is final.
    Final,
}

impl RetryPolicy {
    /// What follows when `failed_tries` tries have failed, the last one with `error` (RETRY-1, RETRY-3).
    #[must_use]
    pub fn verdict(&self, error: &StepError, failed_tries: u32) -> Verdict {
        if failed_tries < self.max_attempts && self.is_retryable(error) {
            Verdict::TryAgain { delay_ms: self.delay_ms(failed_tries) }
        } else {
            Verdict::Final
        }
    }

    /// Whether an error of this kind is tried again at all (RETRY-4, RETRY-5).
    #[must_use]
    pub fn is_retryable(&self, error: &StepError) -> bool {
        match error.class {
            FailureClass::Permanent | FailureClass::Cancelled => false,
            FailureClass::Transient | FailureClass::Timeout | FailureClass::Other(_) => {
                match &self.retryable_errors {
                    None => true,
                    Some(names) => names.iter().any(|name| {
                        *name == error.code
                            || name == error.class.as_str()
                            || error.http_status.is_some_and(|status| *name == status.to_string())
                    }),
                }
            }
        }
    }

    /// The delay before the next try, in milliseconds, when `failed_tries` have failed (RETRY-6, RETRY-7).
    #[must_use]
    pub fn delay_ms(&self, failed_tries: u32) -> u64 {
        let tries = failed_tries.max(1);
        match self.backoff {
            Some(Backoff::Constant) => 1000,
            Some(Backoff::Linear) => u64::from(tries) * 1000,
            Some(Backoff::Exponential) => 100u64.saturating_mul(1 << tries.min(30)),
            None => {
                let exponent = i32::try_from(tries - 1).unwrap_or(i32::MAX);
                #[expect(clippy::cast_precision_loss, reason = "a delay needs no 53 bits")]
                let delay = self.initial_backoff_ms as f64 * self.backoff_multiplier.powi(exponent);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a float to integer cast saturates, and the cap follows"
                )]
                let delay = delay.round() as u64;
                delay.min(self.max_backoff_ms)
            }
        }
    }
}

/// The retry policy of a compensation (COMP-9).
#[must_use]
pub fn compensation_retry() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 2,
        initial_backoff_ms: 1000,
        backoff_multiplier: 2.0,
        max_backoff_ms: 10_000,
        ..RetryPolicy::default()
    }
}

/// What the plan says about a final failure of `step`: the step's own word, else its handler's, else the default
/// (ACTION-1).
#[must_use]
pub fn configured_action(step: &Step, policy: &FailurePolicy) -> FailureAction {
    step.on_failure
        .or(step.fallback.as_ref().map(|_| FailureAction::Fallback))
        .or_else(|| override_for(&step.handler, policy))
        .unwrap_or(policy.default)
}

fn override_for(handler: &HandlerName, policy: &FailurePolicy) -> Option<FailureAction> {
    policy.overrides.get(handler).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classed_by_name_then_by_status_then_as_transient() {
        assert_eq!(classify("ECONNREFUSED", None), FailureClass::Transient);
        assert_eq!(classify("ConflictError", Some(503)), FailureClass::Permanent);
        assert_eq!(classify("TooManyRequests", Some(400)), FailureClass::Transient);
        assert_eq!(classify("Odd", Some(503)), FailureClass::Transient);
        assert_eq!(classify("Odd", Some(429)), FailureClass::Transient);
        assert_eq!(classify("Odd", Some(404)), FailureClass::Permanent);
        assert_eq!(classify("Odd", Some(302)), FailureClass::Transient);
        assert_eq!(classify("Odd", None), FailureClass::Transient);
    }

    #[test]
    fn the_default_policy_tries_three_times_with_doubling_delays() {
        let policy = RetryPolicy::default();
        let error = StepError::classified("ETIMEDOUT", None, "late");
        assert_eq!(policy.verdict(&error, 1), Verdict::TryAgain { delay_ms: 1000 });
        assert_eq!(policy.verdict(&error, 2), Verdict::TryAgain { delay_ms: 2000 });
        assert_eq!(policy.verdict(&error, 3), Verdict::Final);
        assert_eq!(policy.delay_ms(10), 30_000);
    }

    #[test]
    fn presets_follow_their_formula() {
        let with = |backoff| RetryPolicy { backoff: Some(backoff), ..RetryPolicy::default() };
        let delays = |policy: RetryPolicy| [1, 2, 3].map(|tries| policy.delay_ms(tries));
        assert_eq!(delays(with(Backoff::Constant)), [1000, 1000, 1000]);
        assert_eq!(delays(with(Backoff::Linear)), [1000, 2000, 3000]);
        assert_eq!(delays(with(Backoff::Exponential)), [200, 400, 800]);
    }

    #[test]
    fn a_list_of_retryable_errors_replaces_the_default_but_permanent_stays_permanent() {
        let policy = RetryPolicy {
            retryable_errors: Some(vec![
                "Flaky".into(),
                "ConflictError".into(),
                "timeout".into(),
                "418".into(),
            ]),
            ..RetryPolicy::default()
        };
        let named = |name, status| StepError::classified(name, status, "");
        assert!(policy.is_retryable(&named("Flaky", None)));
        assert!(!policy.is_retryable(&named("ETIMEDOUT", None)));
        assert!(!policy.is_retryable(&named("ConflictError", None)));
        assert!(!policy.is_retryable(&named("Teapot", Some(418))));
        assert!(policy.is_retryable(&StepError::new(FailureClass::Timeout, "STEP_TIMEOUT", "")));
        assert!(!policy.is_retryable(&StepError::new(FailureClass::Cancelled, "Flaky", "")));
    }

    #[test]
    fn huge_numbers_do_not_overflow() {
        let policy =
            RetryPolicy { backoff_multiplier: 100.0, max_backoff_ms: u64::MAX, ..RetryPolicy::default() };
        assert_eq!(policy.delay_ms(u32::MAX), u64::MAX);
    }
}
