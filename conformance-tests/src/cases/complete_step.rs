//! COMPLETE_STEP: a person ends a step that waits for them.

use client::{Ask, Completion};
use engine_core::event::EventType;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::{ManualCompletion, ManualOutcome};
use engine_core::{Code, StepId};
use serde_json::json;

use crate::case::cases;
use crate::{Outcome, Stop, TestRun, World, ensure, ensure_eq};

cases!("complete_step", Manual;
    a_manual_step_waits_when_its_handler_has_succeeded => ["COMPLETE-1"],
    a_manual_step_whose_handler_fails_does_not_wait => ["COMPLETE-1"],
    each_wait_has_a_token_of_its_own => ["COMPLETE-2", "COMPLETE-6"],
    everything_that_is_said_of_a_completion_is_recorded => ["COMPLETE-3", "COMPLETE-4"],
    the_output_is_the_one_given_or_the_handlers => ["COMPLETE-8"],
    a_failed_completion_is_a_permanent_failure => ["COMPLETE-4", "COMPLETE-9"],
    a_cancelled_completion_is_answered_as_a_failure => ["COMPLETE-4", "COMPLETE-10"],
    a_step_that_does_not_wait_is_not_completed => ["COMPLETE-5"],
    another_token_is_refused => ["COMPLETE-6"],
    the_same_completion_again_changes_nothing => ["COMPLETE-7"],
    a_completion_while_paused_waits_for_the_resume => ["RESUME-4", "PAUSE-2"],
    whoever_triggered_the_run_may_not_complete_it => ["COMPLETE-11"],
    a_steps_word_on_duties_goes_before_the_plans => ["COMPLETE-11"],
    a_wait_that_a_failing_run_withdrew_is_over => ["COMPLETE-12", "ACTION-12"],
    an_ending_run_completes_nothing => ["SIGNAL-12"],
);

const ASKS: &str = "
id: asks
version: 1.0.0
steps:
  - {id: ask, handler: script, completion: manual, with: {value: {from: handler}}}
  - {id: then, handler: script, dependsOn: [ask], with: {note: '${ steps.ask.output }'}}
";

/// A completion with all that one can say.
fn completion(token: &str, outcome: ManualOutcome, world: &World) -> ManualCompletion {
    ManualCompletion {
        schema_version: 1,
        completion_token: token.to_owned(),
        outcome,
        actor_user_id: "grace".to_owned(),
        completed_at_iso: world.now(),
        notes: Some("looked at twice".to_owned()),
        evidence_refs: vec!["ticket/7".to_owned(), "ticket/8".to_owned()],
    }
}

async fn token(run: &TestRun, step: &str) -> Result<String, Stop> {
    let waiting = crate::world::run::json(&run.until_step(EventType::StepWaiting, step).await?)?;
    Ok(waiting["completionToken"].as_str().unwrap_or_default().to_owned())
}

async fn a_manual_step_waits_when_its_handler_has_succeeded(world: &World) -> Outcome {
    let plan = ASKS.replace("with: {value", "with: {gate: a, value");
    let run = world.start(&plan).await?;
    world.at_gate("a", 1).await?;
    ensure_eq!(run.count(EventType::StepWaiting).await?, 0, "the waits while the handler runs");
    world.open_gate("a");
    run.until(EventType::StepWaiting).await?;
    run.never(60_000, "an end without a person", |event| {
        event.body.event_type() == Some(EventType::StepCompleted)
    })
    .await?;
    let step = run.step("ask").await?;
    ensure_eq!(step.status, StepStatus::Running, "the step meanwhile");
    let substatus = step.substatus.map(|substatus| substatus.as_str());
    ensure_eq!(substatus, Some("WAITING_FOR_MANUAL_COMPLETION"), "its substatus");
    let substatus = run.snapshot().await?.substatus.map(|substatus| substatus.as_str());
    ensure_eq!(substatus, Some("WAITING_FOR_HUMAN"), "the run's substatus");
    run.accept(run.completion("ask", Completion::succeeded()).await?).await?;
    run.ends(RunStatus::Completed).await?;
    ensure_eq!(world.entries(), ["ask#1.1", "then#1.1"], "the calls");
    Ok(())
}

async fn a_manual_step_whose_handler_fails_does_not_wait(world: &World) -> Outcome {
    let plan = "
id: broken
version: 1.0.0
steps:
  - {id: ask, handler: script, completion: manual, with: {fail: {class: permanent}}}
";
    let run = world.start(plan).await?;
    run.ends(RunStatus::Failed).await?;
    ensure_eq!(run.count(EventType::StepWaiting).await?, 0, "the waits");
    Ok(())
}

async fn each_wait_has_a_token_of_its_own(world: &World) -> Outcome {
    let plan = "
id: both
version: 1.0.0
mode: graph
steps:
  - {id: one, handler: script, completion: manual}
  - {id: two, handler: script, completion: manual}
";
    let run = world.start(plan).await?;
    let (one, two) = (token(&run, "one").await?, token(&run, "two").await?);
    ensure!(!one.is_empty() && !two.is_empty() && one != two, "tokens of their own: {one:?}, {two:?}");
    let swapped = Ask::complete(StepId::new("one")?, completion(&two, ManualOutcome::Succeeded, world), None);
    run.refuse(swapped, Code::TokenMismatch).await?;
    run.accept(run.completion("one", Completion::succeeded()).await?).await?;
    run.accept(run.completion("two", Completion::succeeded()).await?).await?;
    run.ends(RunStatus::Completed).await
}

async fn everything_that_is_said_of_a_completion_is_recorded(world: &World) -> Outcome {
    let run = world.start(ASKS).await?;
    let said = completion(&token(&run, "ask").await?, ManualOutcome::Succeeded, world);
    run.accept(Ask::complete(StepId::new("ask")?, said.clone(), None).by("grace")).await?;
    run.ends(RunStatus::Completed).await?;
    let ended = crate::world::run::json(&run.until_step(EventType::StepCompleted, "ask").await?)?;
    let expected = json!({
        "schemaVersion": 1, "completionToken": said.completion_token, "outcome": "Succeeded",
        "actorUserId": "grace", "completedAtIso": said.completed_at_iso, "notes": "looked at twice",
        "evidenceRefs": ["ticket/7", "ticket/8"],
    });
    ensure_eq!(ended["manual"], expected, "what the end of the step says about the person");
    Ok(())
}

async fn the_output_is_the_one_given_or_the_handlers(world: &World) -> Outcome {
    for (given, seen) in [(Some(json!({"from": "person"})), "person"), (None, "handler")] {
        let run = world.start(ASKS).await?;
        run.until(EventType::StepWaiting).await?;
        let done = Completion { output: given, ..Completion::succeeded() };
        run.accept(run.completion("ask", done).await?).await?;
        run.ends(RunStatus::Completed).await?;
        let visits = world.visits_of("then");
        let input = visits.last().map(|visit| visit.input.clone()).unwrap_or_default();
        ensure_eq!(input["note"]["from"], seen, "what the next step sees");
    }
    Ok(())
}

async fn a_failed_completion_is_a_permanent_failure(world: &World) -> Outcome {
    let plan = ASKS.replace("completion: manual", "completion: manual, onFailure: skip");
    let run = world.start(&plan).await?;
    let said = completion(&token(&run, "ask").await?, ManualOutcome::Failed, world);
    run.accept(Ask::complete(StepId::new("ask")?, said, None)).await?;
    run.ends(RunStatus::Completed).await?;
    let failed = run.event(EventType::StepFailed).await?;
    ensure_eq!(failed["error"]["class"], "permanent", "the class of the failure");
    ensure_eq!(failed["manual"]["outcome"], "Failed", "what the person said");
    ensure_eq!(failed["manual"]["actorUserId"], "grace", "who said it");
    ensure_eq!(run.event(EventType::StepSkipped).await?["reason"], "failure_policy", "what follows");
    ensure_eq!(world.visits_of("ask").len(), 1, "the calls: it is not tried again");
    Ok(())
}

async fn a_cancelled_completion_is_answered_as_a_failure(world: &World) -> Outcome {
    let plan = ASKS.replace("completion: manual", "completion: manual, onFailure: skip");
    let run = world.start(&plan).await?;
    let said = completion(&token(&run, "ask").await?, ManualOutcome::Cancelled, world);
    run.accept(Ask::complete(StepId::new("ask")?, said, None)).await?;
    run.ends(RunStatus::Completed).await?;
    let cancelled = run.event(EventType::StepCancelled).await?;
    ensure_eq!(cancelled["reason"], "MANUAL", "why it is cancelled");
    ensure_eq!(cancelled["manual"]["outcome"], "Cancelled", "what the person said");
    ensure_eq!(run.event(EventType::StepSkipped).await?["reason"], "failure_policy", "what follows");
    Ok(())
}

async fn a_step_that_does_not_wait_is_not_completed(world: &World) -> Outcome {
    let plan = "
id: not-waiting
version: 1.0.0
steps:
  - {id: done, handler: script}
  - {id: runs, handler: script, dependsOn: [done], with: {gate: a}}
  - {id: later, handler: script, dependsOn: [runs], completion: manual}
";
    let run = world.start(plan).await?;
    world.at_gate("a", 1).await?;
    for step in ["done", "runs", "later"] {
        let said = completion("a-token", ManualOutcome::Succeeded, world);
        run.refuse(Ask::complete(StepId::new(step)?, said, None), Code::StepNotWaiting).await?;
    }
    Ok(())
}

async fn another_token_is_refused(world: &World) -> Outcome {
    let run = world.start(ASKS).await?;
    run.until(EventType::StepWaiting).await?;
    let said = completion("made-up", ManualOutcome::Succeeded, world);
    run.refuse(Ask::complete(StepId::new("ask")?, said, None), Code::TokenMismatch).await?;
    ensure_eq!(run.step("ask").await?.status, StepStatus::Running, "the step after it");
    run.accept(run.completion("ask", Completion::succeeded()).await?).await?;
    run.ends(RunStatus::Completed).await
}

async fn the_same_completion_again_changes_nothing(world: &World) -> Outcome {
    let plan = ASKS.replace("with: {note", "with: {gate: then, note");
    let run = world.start(&plan).await?;
    let held = token(&run, "ask").await?;
    let said = |outcome| completion(&held, outcome, world);
    run.accept(Ask::complete(StepId::new("ask")?, said(ManualOutcome::Succeeded), None)).await?;
    world.at_gate("then", 1).await?;
    let before = run.events().await?.len();
    run.accept(Ask::complete(StepId::new("ask")?, said(ManualOutcome::Failed), None)).await?;
    ensure_eq!(run.events().await?.len(), before + 1, "the log grows by the acceptance alone");
    ensure_eq!(run.step("ask").await?.status, StepStatus::Success, "the step after it");
    world.open_gate("then");
    run.ends(RunStatus::Completed).await
}

async fn a_completion_while_paused_waits_for_the_resume(world: &World) -> Outcome {
    let run = world.start(ASKS).await?;
    run.until(EventType::StepWaiting).await?;
    run.accept(Ask::pause()).await?;
    run.accept(run.completion("ask", Completion::succeeded()).await?).await?;
    ensure_eq!(run.step("ask").await?.status, StepStatus::Success, "the step at once");
    run.never(60_000, "the start of the next", |event| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == "then")
    })
    .await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await
}

async fn whoever_triggered_the_run_may_not_complete_it(world: &World) -> Outcome {
    let plan = ASKS.replace("version:", "separationOfDuties: true\nversion:");
    let run = world.as_actor("ada").start(&plan).await?;
    let said = completion(&token(&run, "ask").await?, ManualOutcome::Succeeded, world);
    let ask = |said: &ManualCompletion| -> Result<Ask, Stop> {
        Ok(Ask::complete(StepId::new("ask")?, said.clone(), None))
    };
    run.refuse(ask(&said)?.by("ada"), Code::SeparationOfDuties).await?;
    let in_the_name_of = ManualCompletion { actor_user_id: "ada".to_owned(), ..said.clone() };
    run.refuse(ask(&in_the_name_of)?.by("grace"), Code::SeparationOfDuties).await?;
    run.accept(ask(&said)?.by("grace")).await?;
    run.ends(RunStatus::Completed).await
}

async fn a_steps_word_on_duties_goes_before_the_plans(world: &World) -> Outcome {
    let plan = "
id: duties
version: 1.0.0
separationOfDuties: true
mode: graph
steps:
  - {id: loose, handler: script, completion: manual, separationOfDuties: false}
  - {id: strict, handler: script, completion: manual}
";
    let run = world.as_actor("ada").start(plan).await?;
    run.until_step(EventType::StepWaiting, "loose").await?;
    run.until_step(EventType::StepWaiting, "strict").await?;
    run.accept(run.completion("loose", Completion::succeeded()).await?.by("ada")).await?;
    run.refuse(run.completion("strict", Completion::succeeded()).await?.by("ada"), Code::SeparationOfDuties)
        .await?;
    let relaxed = plan.replace("separationOfDuties: true\n", "").replace(": false", ": true");
    let run = world.as_actor("ada").start(&relaxed).await?;
    run.until_step(EventType::StepWaiting, "loose").await?;
    run.until_step(EventType::StepWaiting, "strict").await?;
    run.accept(run.completion("strict", Completion::succeeded()).await?.by("ada")).await?;
    run.refuse(run.completion("loose", Completion::succeeded()).await?.by("ada"), Code::SeparationOfDuties)
        .await
}

/// A step that waits for a person, one that fails, and one at gate `keep` that keeps the failing run from its end.
const FAILING: &str = "
id: failing
version: 1.0.0
mode: graph
steps:
  - {id: ask, handler: script, completion: manual}
  - {id: bad, handler: script, with: {gate: bad, fail: {class: permanent}}}
  - {id: keep, handler: script, with: {gate: keep}}
";

async fn a_wait_that_a_failing_run_withdrew_is_over(world: &World) -> Outcome {
    let run = world.start(FAILING).await?;
    world.at_gate("keep", 1).await?;
    let held = token(&run, "ask").await?;
    world.open_gate("bad");
    let withdrawn = run.until_step(EventType::StepCancelled, "ask").await?;
    ensure_eq!(crate::world::run::json(&withdrawn)?["reason"], "RUN_FAILING", "why it was withdrawn");
    let said = completion(&held, ManualOutcome::Succeeded, world);
    run.refuse(Ask::complete(StepId::new("ask")?, said, None), Code::RunEnding).await?;
    world.open_gate("keep");
    run.ends(RunStatus::Failed).await
}

async fn an_ending_run_completes_nothing(world: &World) -> Outcome {
    let run = world.start(FAILING).await?;
    world.at_gate("keep", 1).await?;
    world.open_gate("bad");
    run.until_step(EventType::StepCancelled, "ask").await?;
    for step in ["keep", "bad", "nobody"] {
        let said = completion("a-token", ManualOutcome::Succeeded, world);
        run.refuse(Ask::complete(StepId::new(step)?, said, None), Code::RunEnding).await?;
    }
    world.open_gate("keep");
    run.ends(RunStatus::Failed).await
}
