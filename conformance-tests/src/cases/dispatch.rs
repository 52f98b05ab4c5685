//! Steps that the driver's worker runs itself.

use client::Ask;
use engine_core::event::{Event, EventType};
use engine_core::machine::RunStatus;

use crate::case::cases;
use crate::harness::{Fault, Need};
use crate::{Outcome, World, ensure, ensure_eq};

cases!("dispatch", Schedule;
    the_steps_word_goes_before_the_plans => ["DISPATCH-1"] needs [Need::Can(Fault::PassTime)],
    signals_are_taken_in_while_a_local_step_runs => ["DISPATCH-6"],
    the_driver_looks_for_signals_before_each_local_step => ["DISPATCH-7"],
);

/// How long a signal may wait while local steps run, with a second for the way.
const LONGEST_MS: u64 = 3_000;

/// Whether a step has as little time as a local one shows how it was dispatched.
async fn the_steps_word_goes_before_the_plans(world: &World) -> Outcome {
    for (request, of_plan, of_step, is_local) in [
        ("nobody", "", "", false),
        ("plan", "dispatch: local", "", true),
        ("step", "", ", dispatch: local", true),
        ("other", "dispatch: queued", ", dispatch: local", true),
        ("same", "dispatch: local", ", dispatch: queued", false),
    ] {
        let plan = format!(
            "id: said\nversion: 1.0.0\n{of_plan}\nsteps:\n  - {{id: a, handler: script{of_step}, retry: \
             {{maxAttempts: 1}}, with: {{gate: {request}, deaf: true}}}}\n"
        );
        let run = world.start_with(&plan, |start| start.request_id(request)).await?;
        world.at_gate(request, 1).await?;
        world.pass(11_000).await?;
        if is_local {
            run.ends(RunStatus::Failed).await?;
            ensure_eq!(run.event(EventType::StepFailed).await?["error"]["class"], "timeout", "{request}");
        } else {
            ensure_eq!(
                run.count(EventType::StepFailed).await?,
                0,
                "the failures where {request} says queued"
            );
            world.open_gate(request);
            run.ends(RunStatus::Completed).await?;
        }
    }
    Ok(())
}

async fn signals_are_taken_in_while_a_local_step_runs(world: &World) -> Outcome {
    let plan = "
id: near
version: 1.0.0
dispatch: local
steps:
  - {id: a, handler: script, with: {gate: g}}
  - {id: b, handler: script, dependsOn: [a]}
";
    let run = world.start(plan).await?;
    world.at_gate("g", 1).await?;
    let asked = world.now();
    // The step is still at its gate when the answer comes.
    run.accept(Ask::pause()).await?;
    let paused = run.until(EventType::RunPaused).await?;
    ensure!(
        paused.emitted_at <= asked.plus_millis(LONGEST_MS),
        "asked at {asked} and taken in at {}",
        paused.emitted_at
    );
    world.open_gate("g");
    run.until(EventType::RunDrained).await?;
    run.accept(Ask::resume()).await?;
    run.ends(RunStatus::Completed).await
}

async fn the_driver_looks_for_signals_before_each_local_step(world: &World) -> Outcome {
    let plan = "
id: row
version: 1.0.0
dispatch: local
steps:
  - {id: a, handler: script, with: {gate: g, deaf: true}}
  - {id: b, handler: script, dependsOn: [a]}
  - {id: c, handler: script, dependsOn: [b]}
";
    let of_step = |event: &Event, step: &str| {
        event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == step)
    };
    let paused = world.start_with(plan, |start| start.request_id("paused")).await?;
    world.at_gate("g", 1).await?;
    // Nobody waits for the answer: the signal is there, and the step ends.
    world.client().submit(&paused.run_id, Ask::pause()).await?;
    world.open_gate("g");
    paused.until(EventType::RunDrained).await?;
    // What the end of the first released is in flight; before the one after it there was another look.
    paused.never(1_000, "the last step", |event| of_step(event, "c")).await?;
    paused.accept(Ask::resume()).await?;
    paused.ends(RunStatus::Completed).await?;

    let cancelled = world.start_with(plan, |start| start.request_id("cancelled")).await?;
    world.at_gate("g", 2).await?;
    world.client().submit(&cancelled.run_id, Ask::cancel()).await?;
    world.open_gate("g");
    cancelled.ends(RunStatus::Cancelled).await?;
    let events = cancelled.events().await?;
    let started = |event: &&Event| event.body.event_type() == Some(EventType::StepStarted);
    ensure_eq!(events.iter().filter(started).count(), 1, "the steps that started");
    Ok(())
}
