//! Approval by people.

use client::Ask;
use engine_core::Code;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;

use crate::case::cases;
use crate::{Outcome, World, ensure_eq};

cases!("approve", Manual;
    an_approved_run_names_who_and_which_signal => ["APPROVE-1", "START-10"],
    what_does_not_wait_for_approval_refuses_it => ["APPROVE-2"],
    whoever_triggered_the_run_may_not_approve_it => ["APPROVE-3"],
    without_separation_of_duties_whoever_triggered_it_may => ["APPROVE-1", "APPROVE-3"],
);

const CAREFUL: &str = "
id: careful
version: 1.0.0
approval: required
steps:
  - {id: a, handler: script, with: {gate: a}}
";

async fn an_approved_run_names_who_and_which_signal(world: &World) -> Outcome {
    let run = world.start(CAREFUL).await?;
    let signal = engine_core::SignalId::new("yes-please")?;
    run.accept(Ask::approve().by("grace").with_id(signal)).await?;
    let approved = run.event(EventType::RunApproved).await?;
    ensure_eq!(approved["approvedBy"], "grace", "who approved it");
    ensure_eq!(approved["signalId"], "yes-please", "by which signal");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn what_does_not_wait_for_approval_refuses_it(world: &World) -> Outcome {
    let run = world.start(CAREFUL).await?;
    run.accept(Ask::approve()).await?;
    world.at_gate("a", 1).await?;
    run.refuse(Ask::approve(), Code::RunAlreadyApproved).await?;
    let automatic = world.start(&CAREFUL.replace("approval: required\n", "")).await?;
    world.at_gate("a", 2).await?;
    automatic.refuse(Ask::approve(), Code::RunAlreadyApproved).await?;
    world.open_gate_for("a", 2);
    run.ends(RunStatus::Completed).await?;
    automatic.ends(RunStatus::Completed).await
}

async fn whoever_triggered_the_run_may_not_approve_it(world: &World) -> Outcome {
    let plan = CAREFUL.replace("approval:", "separationOfDuties: true\napproval:");
    let run = world.as_actor("ada").start(&plan).await?;
    run.refuse(Ask::approve().by("ada"), Code::SeparationOfDuties).await?;
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Pending), "the status after it");
    run.accept(Ask::approve().by("grace")).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn without_separation_of_duties_whoever_triggered_it_may(world: &World) -> Outcome {
    let run = world.as_actor("ada").start(CAREFUL).await?;
    run.accept(Ask::approve().by("ada")).await?;
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}
