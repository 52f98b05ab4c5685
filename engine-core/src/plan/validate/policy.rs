//! Failure, retries, dispatch, completion, secrets, resources and handlers.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{Finding, Report};
use super::{Subject, step_path};
use crate::failure::configured_action;
use crate::id::HandlerName;
use crate::plan::document::Path;
use crate::plan::model::{
    Completion, Dispatch, FailureAction, LOCAL_TIMEOUT_MS, OnWorkerLost, SecretRef, Step,
    is_default_max_losses,
};
use crate::plan::problem::ProblemCode;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report) {
    failure_policy(subject, report);
    for (position, step) in subject.steps() {
        failure(subject, position, step, report);
        retry(position, step, report);
        dispatch(subject, position, step, report);
        people(position, step, report);
        secrets(position, step, report);
        handlers(subject, position, step, report);
    }
}

/// The plan's own failure policy against the steps it applies to.
fn failure_policy(subject: &Subject<'_>, report: &mut Report) {
    let policy = &subject.plan.failure;
    let path = || Path::root().key("failure");
    let used: BTreeSet<&HandlerName> = subject
        .steps()
        .filter(|(position, _)| !subject.unreadable.has(*position, "handler"))
        .map(|(_, step)| &step.handler)
        .collect();
    for handler in policy.overrides.keys().filter(|handler| !used.contains(handler)) {
        // A step whose handler cannot be read may be the one that uses it.
        if subject.unreadable.has_of_plan("steps") {
            break;
        }
        let meant = report.closest(handler.as_str(), used.iter().map(|used| used.as_str()));
        report.add(
            Finding::new(
                ProblemCode::UnknownHandler,
                path().key("overrides").key(handler.as_str()),
                format!("no step uses the handler {:?}", handler.as_str()),
                "remove it, or name the handler of a step",
            )
            .at_key()
            .meant(meant),
        );
    }
    let mut reported: BTreeSet<Option<&HandlerName>> = BTreeSet::new();
    for (position, step) in subject.steps() {
        let decides_itself = step.on_failure.is_some()
            || step.fallback.is_some()
            || subject.graph.serves(position).is_some()
            || subject.unreadable.has(position, "fallback")
            || subject.unreadable.has(position, "onFailure");
        if decides_itself || configured_action(step, policy) != FailureAction::Fallback {
            continue;
        }
        let by_handler = policy.overrides.get_key_value(&step.handler).map(|(handler, _)| handler);
        if reported.insert(by_handler) {
            let path = match by_handler {
                Some(handler) => path().key("overrides").key(handler.as_str()),
                None => path().key("default"),
            };
            report.add(Finding::new(
                ProblemCode::FailureActionInvalid,
                path,
                format!("`fallback` applies to {}, which names no `fallback`", step.id),
                "name the stand-in with `fallback` at each step, or choose another action",
            ));
        }
    }
}

fn failure(subject: &Subject<'_>, position: usize, step: &Step, report: &mut Report) {
    let path = || step_path(position);
    let add = |report: &mut Report, field: &str, message: String, hint: &str| {
        report.add(Finding::new(ProblemCode::FailureActionInvalid, path().key(field), message, hint));
    };
    match (step.on_failure, &step.fallback) {
        (Some(FailureAction::Fallback), None) if !subject.unreadable.has(position, "fallback") => add(
            report,
            "onFailure",
            "`onFailure: fallback` needs `fallback`".to_owned(),
            "name the step that stands in",
        ),
        (Some(action), Some(_)) if action != FailureAction::Fallback => add(
            report,
            "onFailure",
            format!("`onFailure: {}` contradicts `fallback`", word(action)),
            "remove one of them",
        ),
        (Some(FailureAction::Reassign), _)
            if step.agent_chain().len() < 2
                && !subject.unreadable.has(position, "agents")
                && !subject.unreadable.has(position, "agent") =>
        {
            add(
                report,
                "onFailure",
                "`onFailure: reassign` needs at least two agents".to_owned(),
                "list them in `agents`",
            );
        }
        _ => {}
    }
    let action = configured_action(step, &subject.plan.failure);
    if step.max_retries.is_some()
        && action != FailureAction::Retry
        && !subject.unreadable.has(position, "onFailure")
        && !subject.unreadable.has_of_plan("failure")
    {
        report.add(
            Finding::new(
                ProblemCode::FieldConflict,
                path().key("maxRetries"),
                format!("`maxRetries` is for `onFailure: retry`, and this step's is {}", word(action)),
                "for tries within one attempt use `retry.maxAttempts`",
            )
            .at_key(),
        );
    }
}

fn word(action: FailureAction) -> &'static str {
    match action {
        FailureAction::Abort => "abort",
        FailureAction::Skip => "skip",
        FailureAction::Reassign => "reassign",
        FailureAction::Pause => "pause",
        FailureAction::Fallback => "fallback",
        FailureAction::Retry => "retry",
    }
}

fn retry(position: usize, step: &Step, report: &mut Report) {
    let retry = &step.retry;
    // A named backoff does not look at the numbers.
    if retry.backoff.is_none() && retry.initial_backoff_ms > retry.max_backoff_ms {
        report.add(Finding::new(
            ProblemCode::FieldConflict,
            step_path(position).key("retry").key("initialBackoffMs"),
            format!(
                "the first delay of {} ms is longer than the longest, maxBackoffMs, of {} ms",
                retry.initial_backoff_ms, retry.max_backoff_ms
            ),
            "lower initialBackoffMs, or raise maxBackoffMs",
        ));
    }
    if step.on_worker_lost == OnWorkerLost::Fail && !is_default_max_losses(&step.max_losses) {
        report.add(
            Finding::new(
                ProblemCode::FieldConflict,
                step_path(position).key("maxLosses"),
                "`maxLosses` has no meaning with `onWorkerLost: fail`: the first loss is final",
                "remove `maxLosses`, or write `onWorkerLost: retry`",
            )
            .at_key(),
        );
    }
}

fn dispatch(subject: &Subject<'_>, position: usize, step: &Step, report: &mut Report) {
    if step.effective_dispatch(subject.plan.dispatch) != Dispatch::Local
        || subject.unreadable.has(position, "dispatch")
    {
        return;
    }
    let (by, hint) = match step.dispatch {
        Some(_) => ("`dispatch: local`", "write `dispatch: queued`, or remove what stands against it"),
        None => ("the plan's `dispatch: local`", "write `dispatch: queued` at this step"),
    };
    let mut refuse = |field: &str, reason: String| {
        report.add(Finding::new(
            ProblemCode::LocalDispatchRefused,
            step_path(position).key(field),
            reason,
            hint,
        ));
    };
    if step.agent.is_some() || !step.agents.is_empty() {
        let field = if step.agent.is_some() { "agent" } else { "agents" };
        refuse(field, format!("a step for an agent cannot be run locally, as {by} asks for"));
    }
    if let Some(engine) = step.handler.native_engine() {
        refuse(
            "handler",
            format!("{engine} hosts this handler itself; it cannot be run locally, as {by} asks for"),
        );
    }
    if let Some(timeout) = step.timeout_ms
        && timeout > LOCAL_TIMEOUT_MS
    {
        refuse("timeoutMs", format!("{timeout} ms is over the {LOCAL_TIMEOUT_MS} ms that {by} allows"));
    }
}

fn people(position: usize, step: &Step, report: &mut Report) {
    if step.separation_of_duties.is_some() && step.completion != Completion::Manual {
        report.add(
            Finding::new(
                ProblemCode::FieldConflict,
                step_path(position).key("separationOfDuties"),
                "`separationOfDuties` is about who completes the step, and nobody does",
                "add `completion: manual`",
            )
            .at_key(),
        );
    }
}

/// How a secret is referred to.
pub(super) const SECRET_HINT: &str = "write a reference, as `env:STRIPE_KEY` or `file:stripe/key`";

/// Secrets are references (SECRET-1). The text itself is never repeated in a message: it may be the secret (SECRET-3).
fn secrets(position: usize, step: &Step, report: &mut Report) {
    for (name, reference) in &step.secrets {
        let path = || step_path(position).key("secrets").key(name.as_str());
        if !is_variable_name(name) {
            report.add(
                Finding::new(
                    ProblemCode::SecretInvalid,
                    path(),
                    format!("{name:?} is no name for a secret"),
                    "use letters, digits and _, not a digit first",
                )
                .at_key(),
            );
        }
        let good =
            reference.parts().is_some_and(|parts| is_provider(&parts.provider) && is_secret_key(&parts.key));
        if !good {
            let expected = match reference {
                SecretRef::Short(_) => {
                    "this is no reference `provider:key`; if it is the secret itself, take it out of the plan"
                }
                SecretRef::Full(_) => {
                    "`provider` or `key` is no plain name; if it is the secret itself, take it out of the plan"
                }
            };
            report.add(Finding::new(ProblemCode::SecretInvalid, path(), expected, SECRET_HINT));
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_provider(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// A name in a provider's terms: `STRIPE_KEY`, `stripe/key`, `projects/1/secrets/x`, `kv/data/app#token`. No
/// spaces, no address with a password in it, and nothing with the mark of a well-known token.
fn is_secret_key(key: &str) -> bool {
    const MARKS: &[&str] =
        &["sk_live_", "sk_test_", "sk-", "ghp_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "eyJ", "AIza"];
    (1..=512).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./#@:+-".contains(&byte))
        && !key.starts_with("//")
        && !MARKS.iter().any(|mark| key.starts_with(mark) && key.len() >= 16)
}

/// PLAN-8.
fn handlers(subject: &Subject<'_>, position: usize, step: &Step, report: &mut Report) {
    let Some(known) = &subject.options.known_handlers else { return };
    let mut wanted: BTreeMap<&str, Path> = BTreeMap::new();
    if let Some(compensation) = &step.compensation {
        wanted.insert(compensation.handler.as_str(), step_path(position).key("compensation").key("handler"));
    }
    wanted.insert(step.handler.as_str(), step_path(position).key("handler"));
    for (handler, path) in wanted {
        if known.contains(handler) || handler.contains(':') || subject.unreadable.is_at(|| path.clone()) {
            continue;
        }
        let meant = report.closest(handler, known.iter().map(String::as_str));
        report.add(
            Finding::new(
                ProblemCode::UnknownHandler,
                path,
                format!("there is no handler {handler:?}"),
                "register it with a worker, or name one that is",
            )
            .meant(meant),
        );
    }
}
