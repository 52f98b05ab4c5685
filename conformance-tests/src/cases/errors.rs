//! How errors are classed, and which of them are tried again.

use std::fmt::Write as _;

use engine_core::event::{Body, EventType};
use engine_core::machine::RunStatus;
use engine_core::{Code, StepId};

use crate::case::cases;
use crate::{Outcome, Stop, TestRun, World, ensure, ensure_eq};

cases!("errors", Core;
    names_of_transient_errors => ["FAIL-1", "FAIL-3"],
    names_of_permanent_errors => ["FAIL-1", "FAIL-4"],
    http_statuses_class_what_no_name_does => ["FAIL-2", "FAIL-5"],
    a_name_goes_before_a_status_and_the_unknown_is_transient => ["FAIL-2"],
    an_error_tells_its_status_when_there_was_one => ["FAIL-7"],
    a_handler_that_stops_unasked_is_cancelled_and_answered => ["FAIL-8", "RETRY-3"],
    only_listed_errors_are_tried_again => ["RETRY-4"],
    a_permanent_error_stays_final_although_it_is_listed => ["RETRY-5"],
    named_backoffs_have_their_delays => ["RETRY-7"],
    max_attempts_has_its_bounds => ["RETRY-2"],
);

/// Runs a step for each error, once, and gives what became of the class.
async fn classes(world: &World, errors: &[(&str, Option<u16>)]) -> Result<Vec<String>, Stop> {
    let mut plan = String::from(
        "id: classes\nversion: 1.0.0\nmode: graph\nfailure: {continueOnPartialFailure: true}\nsteps:\n",
    );
    for (number, (code, status)) in errors.iter().enumerate() {
        let status = status.map(|status| format!(", httpStatus: {status}")).unwrap_or_default();
        let _ = writeln!(
            plan,
            "  - {{id: s{number}, handler: script, retry: {{maxAttempts: 1}}, with: {{fail: {{code: {code}{status}}}}}}}"
        );
    }
    let run = world.start(&plan).await?;
    run.ends(RunStatus::Completed).await?;
    let mut classes = vec![String::new(); errors.len()];
    for event in run.events().await? {
        if let (Body::StepFailed(failed), Some(subject)) = (&event.body, &event.subject) {
            let number: usize = subject.step.as_str()[1..].parse().unwrap_or_default();
            ensure_eq!(failed.error.code, errors[number].0, "the code of {}", subject.step);
            failed.error.class.as_str().clone_into(&mut classes[number]);
        }
    }
    Ok(classes)
}

async fn names_of_transient_errors(world: &World) -> Outcome {
    let names = [
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
    // With a status that says otherwise: the name is what counts.
    let classes = classes(world, &names.map(|name| (name, Some(404)))).await?;
    ensure_eq!(classes, ["transient"; 9], "the classes of {names:?}");
    Ok(())
}

async fn names_of_permanent_errors(world: &World) -> Outcome {
    let names = [
        "ValidationError",
        "AuthenticationError",
        "AuthorizationError",
        "NotFoundError",
        "ConflictError",
        "BadRequest",
        "policy_deny",
        "auth_deny",
    ];
    let classes = classes(world, &names.map(|name| (name, None))).await?;
    ensure_eq!(classes, ["permanent"; 8], "the classes of {names:?}");
    Ok(())
}

async fn http_statuses_class_what_no_name_does(world: &World) -> Outcome {
    let transient = classes(world, &[429, 500, 503, 599].map(|status| ("Odd", Some(status)))).await?;
    ensure_eq!(transient, ["transient"; 4], "429 and the five hundreds");
    let permanent = classes(world, &[400, 404, 428, 430, 499].map(|status| ("Odd", Some(status)))).await?;
    ensure_eq!(permanent, ["permanent"; 5], "the other four hundreds");
    Ok(())
}

async fn a_name_goes_before_a_status_and_the_unknown_is_transient(world: &World) -> Outcome {
    let errors =
        [("ConflictError", Some(503)), ("TooManyRequests", Some(400)), ("Odd", None), ("Odd", Some(302))];
    let classes = classes(world, &errors).await?;
    ensure_eq!(classes, ["permanent", "transient", "transient", "transient"], "the classes of {errors:?}");
    Ok(())
}

async fn an_error_tells_its_status_when_there_was_one(world: &World) -> Outcome {
    let plan = "
id: told
version: 1.0.0
failure: {default: skip}
steps:
  - {id: with, handler: script, with: {fail: {code: Odd, httpStatus: 418}}}
  - {id: without, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let with = crate::world::run::json(&run.until_step(EventType::StepFailed, "with").await?)?;
    ensure_eq!(with["error"]["httpStatus"], 418, "the status");
    ensure_eq!(with["error"]["code"], "Odd", "the code");
    ensure_eq!(with["error"]["class"], "permanent", "the class");
    ensure!(with["error"]["message"].is_string(), "a message: {with}");
    let without = crate::world::run::json(&run.until_step(EventType::StepFailed, "without").await?)?;
    ensure!(without["error"].get("httpStatus").is_none(), "no status where there was none: {without}");
    Ok(())
}

async fn a_handler_that_stops_unasked_is_cancelled_and_answered(world: &World) -> Outcome {
    let plan = "
id: stops
version: 1.0.0
steps:
  - {id: a, handler: script, onFailure: skip, with: {fail: {class: cancelled}}}
  - {id: b, handler: script, with: {fail: {class: cancelled}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let cancelled = run.event(EventType::StepCancelled).await?;
    ensure_eq!(cancelled["stepId"], "a", "who is cancelled first");
    ensure_eq!(cancelled["reason"], "HANDLER", "why");
    ensure_eq!(run.event(EventType::StepSkipped).await?["reason"], "failure_policy", "what follows");
    ensure_eq!(run.event(EventType::RunFailed).await?["rootCause"]["stepId"], "b", "the root cause");
    ensure_eq!(world.entries(), ["a#1.1", "b#1.1"], "the calls");
    Ok(())
}

/// How often each step was tried.
fn tries(world: &World, steps: &[&str]) -> Vec<usize> {
    steps.iter().map(|step| world.visits_of(step).len()).collect()
}

async fn only_listed_errors_are_tried_again(world: &World) -> Outcome {
    let plan = "
id: listed
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: by-code, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10, retryableErrors: [Flaky]}, with: {fail: {code: Flaky}}}
  - {id: not-listed, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10, retryableErrors: [Flaky]}, with: {fail: {code: ETIMEDOUT}}}
  - {id: by-class, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10, retryableErrors: [transient]}, with: {fail: {code: ETIMEDOUT}}}
  - {id: by-status, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10, retryableErrors: ['503']}, with: {fail: {code: Odd, httpStatus: 503}}}
  - {id: other-status, handler: script, retry: {maxAttempts: 2, initialBackoffMs: 10, retryableErrors: ['503']}, with: {fail: {code: Odd, httpStatus: 500}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    let steps = ["by-code", "not-listed", "by-class", "by-status", "other-status"];
    ensure_eq!(tries(world, &steps), [2, 1, 2, 2, 1], "the tries of {steps:?}");
    Ok(())
}

async fn a_permanent_error_stays_final_although_it_is_listed(world: &World) -> Outcome {
    let plan = "
id: final
version: 1.0.0
steps:
  - {id: a, handler: script, retry: {initialBackoffMs: 10, retryableErrors: [ConflictError, permanent]}, with: {fail: {code: ConflictError}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}

async fn delays(run: &TestRun, step: &str) -> Result<Vec<u64>, Stop> {
    let step = StepId::new(step)?;
    let mut delays = Vec::new();
    for event in run.events().await? {
        if let (Body::StepRetried(retried), Some(subject)) = (&event.body, &event.subject)
            && subject.step == step
        {
            delays.push(retried.delay_ms);
        }
    }
    Ok(delays)
}

async fn named_backoffs_have_their_delays(world: &World) -> Outcome {
    let plan = "
id: named
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: constant, handler: script, retry: {backoff: constant, initialBackoffMs: 7}, with: {fail: {class: transient}}}
  - {id: linear, handler: script, retry: {backoff: linear}, with: {fail: {class: transient}}}
  - {id: exponential, handler: script, retry: {backoff: exponential, maxAttempts: 4}, with: {fail: {class: transient}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(delays(&run, "constant").await?, [1000, 1000], "constant");
    ensure_eq!(delays(&run, "linear").await?, [1000, 2000], "linear");
    ensure_eq!(delays(&run, "exponential").await?, [200, 400, 800], "exponential");
    Ok(())
}

async fn max_attempts_has_its_bounds(world: &World) -> Outcome {
    let plan = |most: u32| {
        format!(
            "id: x\nversion: 1.0.0\nsteps:\n  - {{id: a, handler: script, retry: {{maxAttempts: {most}}}}}\n"
        )
    };
    for most in [0, 11] {
        match world.client().read_plan(&plan(most)) {
            Ok(_) => return Err(Stop::Fail(format!("maxAttempts {most} is taken"))),
            Err(error) => ensure_eq!(error.code(), Code::PlanInvalid, "the code of maxAttempts {most}"),
        }
    }
    for most in [1, 10] {
        world.plan(&plan(most))?;
    }
    Ok(())
}
