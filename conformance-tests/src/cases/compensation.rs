//! Undoing what succeeded.

use client::{Ask, Rerun};
use engine_core::event::{Body, EventType};
use engine_core::machine::RunStatus;
use engine_core::{Code, StepId};
use serde_json::json;

use crate::case::cases;
use crate::{Outcome, World, ensure, ensure_eq};

cases!("compensation", Saga;
    a_failed_run_undoes_what_succeeded_last_first => ["COMP-1", "COMP-4", "COMP-13", "ACTION-14"],
    a_cancelled_run_undoes_only_where_the_plan_says_so => ["COMP-2"],
    only_the_latest_success_is_undone_and_once => ["COMP-3"],
    steps_are_undone_one_at_a_time => ["COMP-5"],
    nothing_is_undone_while_something_is_in_flight => ["COMP-6"],
    undoing_counts_towards_no_limit => ["COMP-7"],
    what_cannot_be_undone_keeps_nothing_else => ["COMP-8", "COMP-14"],
    undoing_is_tried_twice_with_the_same_key => ["COMP-9", "COMP-11", "COMP-13"],
    a_try_to_undo_has_its_time => ["COMP-10"],
    undoing_sees_the_output_of_its_step => ["COMP-12"],
    the_end_tells_what_was_undone_and_what_stays => ["COMP-14", "COMP-15", "COMP-16"],
    what_was_taken_over_is_not_undone => ["COMP-17"],
    a_cancel_after_undoing_began_comes_too_late => ["CANCEL-11"],
    a_run_that_completes_undoes_nothing => ["PARTIAL-4", "PARTIAL-2"],
);

/// Two steps that finish in the order in which their gates open, then one that fails.
const SAGA: &str = "
id: saga
version: 1.0.0
steps:
  - {id: one, handler: script, compensation: {handler: undo, with: {}}, with: {gate: one}}
  - {id: two, handler: script, compensation: {handler: undo, with: {}}, with: {gate: two}}
  - {id: bad, handler: script, dependsOn: [one, two], with: {fail: {class: permanent}}}
";

async fn a_failed_run_undoes_what_succeeded_last_first(world: &World) -> Outcome {
    let run = world.start(SAGA).await?;
    world.at_gate("one", 1).await?;
    world.open_gate("two");
    run.until_step(EventType::StepCompleted, "two").await?;
    world.open_gate("one");
    run.ends(RunStatus::Failed).await?;
    let undone: Vec<String> = world.entries().into_iter().filter(|entry| entry.contains("undo")).collect();
    ensure_eq!(undone, ["one#1.1 (undo)", "two#1.1 (undo)"], "the calls that undo, in order");
    let lines = run.lines().await?;
    let tail: Vec<&str> =
        lines.iter().skip_while(|line| !line.starts_with("StepFailed")).map(String::as_str).collect();
    let expected = [
        "StepFailed bad#1",
        "CompensationStarted one#1",
        "CompensationCompleted one#1",
        "CompensationStarted two#1",
        "CompensationCompleted two#1",
        "RunFailed",
    ];
    ensure_eq!(tail, expected, "the end of the log");
    Ok(())
}

async fn a_cancelled_run_undoes_only_where_the_plan_says_so(world: &World) -> Outcome {
    let plan = "
id: cancelled
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {}}}
  - {id: b, handler: script, dependsOn: [a], with: {gate: b}}
";
    let run = world.start(plan).await?;
    world.at_gate("b", 1).await?;
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await?;
    ensure_eq!(run.count(EventType::CompensationStarted).await?, 0, "what was undone without a word");
    let run = world.start(&plan.replace("steps:", "failure: {compensateOnCancel: true}\nsteps:")).await?;
    world.at_gate("b", 2).await?;
    run.accept(Ask::cancel()).await?;
    run.ends(RunStatus::Cancelled).await?;
    let lines = run.lines().await?;
    let end = ["CompensationStarted a#1", "CompensationCompleted a#1", "RunCancelled"];
    ensure_eq!(lines[lines.len() - 3..], end, "the end of the log");
    let told = run.event(EventType::RunCancelled).await?;
    ensure_eq!(told["compensation"]["compensated"], json!(["a"]), "what RunCancelled says of it");
    Ok(())
}

async fn only_the_latest_success_is_undone_and_once(world: &World) -> Outcome {
    let plan = "
id: again
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {note: '${ output }'}}}
  - {id: never, handler: script, compensation: {handler: undo, with: {}}, dependsOn: [bad]}
  - {id: bad, handler: script, dependsOn: [a], compensation: {handler: undo, with: {}}, with: {gate: bad, fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("bad", 1).await?;
    run.accept(Ask::retry(StepId::new("a")?, false)).await?;
    run.until_event("the second success", |event| {
        matches!(event.body, Body::StepCompleted(_))
            && event.subject.as_ref().is_some_and(|subject| subject.attempt == 2)
    })
    .await?;
    world.open_gate("bad");
    run.ends(RunStatus::Failed).await?;
    let undone: Vec<_> = world.visits().into_iter().filter(crate::history::Visit::undoes).collect();
    ensure_eq!(undone.len(), 1, "the calls that undo");
    ensure_eq!(undone[0].step_id.as_str(), "a", "whose success is undone");
    ensure_eq!(undone[0].attempt, 2, "which success is undone");
    ensure_eq!(undone[0].input["note"]["attempt"], 2, "whose output it is given");
    Ok(())
}

async fn steps_are_undone_one_at_a_time(world: &World) -> Outcome {
    let plan = "
id: slowly
version: 1.0.0
steps:
  - {id: one, handler: script, compensation: {handler: undo, with: {gate: undo}}}
  - {id: two, handler: script, compensation: {handler: undo, with: {gate: undo}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("undo", 1).await?;
    run.never(1_000, "a second one beside it, or an end", |event| {
        let undoes_one = matches!(event.body, Body::CompensationStarted(_))
            && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "one");
        undoes_one || matches!(event.body, Body::RunFailed(_))
    })
    .await?;
    world.open_gate_for("undo", 2);
    run.ends(RunStatus::Failed).await
}

async fn nothing_is_undone_while_something_is_in_flight(world: &World) -> Outcome {
    let plan = "
id: busy
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {}}}
  - {id: bad, handler: script, dependsOn: [a], with: {fail: {class: permanent}}}
  - {id: slow, handler: script, with: {gate: slow}}
";
    let run = world.start(plan).await?;
    world.at_gate("slow", 1).await?;
    run.until(EventType::StepFailed).await?;
    run.never(1_000, "the start of undoing", |event| matches!(event.body, Body::CompensationStarted(_)))
        .await?;
    world.open_gate("slow");
    run.ends(RunStatus::Failed).await?;
    let lines = run.lines().await?;
    let place = |wanted: &str| lines.iter().position(|line| line == wanted);
    ensure!(
        place("StepCompleted slow#1") < place("CompensationStarted a#1"),
        "what was in flight ends first: {lines:?}"
    );
    Ok(())
}

async fn undoing_counts_towards_no_limit(world: &World) -> Outcome {
    let plan = "
id: limited
version: 1.0.0
limits: {maxConcurrency: 1, maxFailures: 1, runTimeoutMs: 5000}
steps:
  - {id: one, handler: script, compensation: {handler: undo, with: {fail: {class: permanent}}}}
  - {id: two, handler: script, compensation: {handler: undo, with: {waitMs: 7000}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let told = run.event(EventType::RunFailed).await?;
    ensure_eq!(told["code"], "STEP_FAILED", "the run's code");
    ensure_eq!(told["failedSteps"].as_array().map(Vec::len), Some(1), "the steps that failed");
    ensure_eq!(told["compensation"]["compensated"], json!(["two"]), "what was undone, though it took long");
    ensure_eq!(run.count(EventType::TimerFired).await?, 0, "the timers: the run had ended its work in time");
    Ok(())
}

async fn what_cannot_be_undone_keeps_nothing_else(world: &World) -> Outcome {
    let plan = "
id: stubborn
version: 1.0.0
steps:
  - {id: one, handler: script, compensation: {handler: undo, with: {}}}
  - {id: two, handler: script, compensation: {handler: undo, with: {fail: {class: transient}}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let told = run.event(EventType::RunFailed).await?;
    ensure_eq!(told["compensation"]["compensated"], json!(["one"]), "what was undone");
    ensure_eq!(told["compensation"]["failed"], json!(["two"]), "what could not be undone");
    ensure_eq!(told["rootCause"]["stepId"], "bad", "the root cause");
    Ok(())
}

async fn undoing_is_tried_twice_with_the_same_key(world: &World) -> Outcome {
    let plan = "
id: flaky
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {fail: {class: transient, times: 1}}}}
  - {id: b, handler: script, compensation: {handler: undo, with: {fail: {class: transient}}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let undone: Vec<_> = world.visits().into_iter().filter(crate::history::Visit::undoes).collect();
    let calls: Vec<String> = undone.iter().map(ToString::to_string).collect();
    let expected = ["b#1.1 (undo)", "b#1.2 (undo)", "a#1.1 (undo)", "a#1.2 (undo)"];
    ensure_eq!(calls, expected, "the calls that undo");
    for visit in &undone {
        let key = format!("{}:{}:compensate", run.run_id, visit.step_id);
        ensure_eq!(visit.token, key, "the key of {visit}");
    }
    let mut told = Vec::new();
    let mut places = Vec::new();
    for event in run.events().await? {
        if let Body::CompensationFailed(failed) = &event.body {
            told.push((failed.will_retry, failed.delay_ms));
            places.push(event.emitted_at);
        }
    }
    let expected = [(true, Some(1000)), (false, None), (true, Some(1000))];
    ensure_eq!(told, expected, "whether another try follows, and when");
    let waited = places[1].millis_since(places[0]);
    ensure!(waited >= 1000, "the backoff lasts: only {waited} ms passed");
    Ok(())
}

async fn a_try_to_undo_has_its_time(world: &World) -> Outcome {
    let plan = "
id: slow
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, timeoutMs: 300, with: {waitMs: 400}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let failed = run.event(EventType::CompensationFailed).await?;
    ensure_eq!(failed["error"]["class"], "timeout", "the class");
    ensure_eq!(failed["error"]["code"], "STEP_TIMEOUT", "the code");
    ensure_eq!(run.count(EventType::CompensationFailed).await?, 2, "the tries that took too long");
    Ok(())
}

async fn undoing_sees_the_output_of_its_step(world: &World) -> Outcome {
    let plan = "
id: data
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {note: '${ output.ticket }'}}, with: {value: {ticket: 7}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let undone: Vec<_> = world.visits().into_iter().filter(crate::history::Visit::undoes).collect();
    ensure_eq!(undone[0].input["note"], 7, "what the handler is given");
    ensure_eq!(undone[0].handler, "undo", "which handler undoes it");
    Ok(())
}

async fn the_end_tells_what_was_undone_and_what_stays(world: &World) -> Outcome {
    let plan = "
id: told
version: 1.0.0
steps:
  - {id: undone, handler: script, compensation: {handler: undo, with: {}}}
  - {id: stays, handler: script, sideEffects: true}
  - {id: harmless, handler: script}
  - {id: bad, handler: script, sideEffects: true, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    let told = run.event(EventType::RunFailed).await?["compensation"].clone();
    ensure_eq!(told["compensated"], json!(["undone"]), "what was undone");
    ensure_eq!(told["nonCompensable"], json!(["stays"]), "what stays");
    ensure!(told["failed"].as_array().is_none_or(Vec::is_empty), "nothing could not be undone: {told}");
    Ok(())
}

async fn what_was_taken_over_is_not_undone(world: &World) -> Outcome {
    let plan = "
id: rerun
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {}}}
  - {id: b, handler: script, compensation: {handler: undo, with: {}}, onFailure: pause, with: {gate: b, fail: {class: permanent, times: 1}}}
";
    let source = world.start(plan).await?;
    world.open_gate("b");
    source.until(EventType::RunDrained).await?;
    source.accept(Ask::cancel()).await?;
    source.ends(RunStatus::Cancelled).await?;
    let again = world.client().rerun(&source.run_id, Rerun::default()).await?;
    let run = world.track(again.run_id, again.fresh);
    world.open_gate("b");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(world.visits_of("a").len(), 1, "the calls of the step that is taken over");
    ensure_eq!(run.count(EventType::CompensationStarted).await?, 0, "what the second run undid");
    Ok(())
}

async fn a_cancel_after_undoing_began_comes_too_late(world: &World) -> Outcome {
    let plan = "
id: late
version: 1.0.0
steps:
  - {id: a, handler: script, compensation: {handler: undo, with: {gate: undo}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    world.at_gate("undo", 1).await?;
    let substatus = run.snapshot().await?.substatus.map(|substatus| substatus.as_str());
    ensure_eq!(substatus, Some("COMPENSATING"), "the substatus meanwhile");
    run.refuse(Ask::cancel(), Code::RunEnding).await?;
    run.refuse(Ask::pause(), Code::RunEnding).await?;
    world.open_gate("undo");
    run.ends(RunStatus::Failed).await
}

async fn a_run_that_completes_undoes_nothing(world: &World) -> Outcome {
    let plan = "
id: partial
version: 1.0.0
mode: graph
failure: {continueOnPartialFailure: true}
steps:
  - {id: good, handler: script, compensation: {handler: undo, with: {}}}
  - {id: bad, handler: script, with: {fail: {class: permanent}}}
  - {id: worse, handler: script, with: {fail: {class: permanent}}}
  - {id: after, handler: script, dependsOn: [good], compensation: {handler: undo, with: {}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(run.event(EventType::RunCompleted).await?["outcome"], "PARTIAL", "the outcome");
    ensure_eq!(run.count(EventType::CompensationStarted).await?, 0, "what was undone");
    ensure_eq!(world.visits_of("after").len(), 1, "the calls of the branch that goes on");
    Ok(())
}
