//! Tenants, and who may do what.

use std::sync::Arc;

use async_trait::async_trait;
use client::{Ask, Rerun, Start};
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::port::{Authorization, AuthorizationRequest, Authorizer, Operation};
use engine_core::{Code, Error};

use crate::case::cases;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("tenant", Core;
    a_call_is_for_the_tenant_that_it_names => ["START-5"],
    another_tenants_run_is_not_found => ["START-6"],
    a_denied_signal_stands_in_the_log_and_changes_nothing => ["SIGNAL-3", "START-7"],
    whoever_may_not_start_read_or_rerun_does_not => ["START-7"],
);

const GATED: &str = "
id: gated
version: 1.0.0
steps:
  - {id: a, handler: script, with: {gate: a}}
";

async fn a_call_is_for_the_tenant_that_it_names(world: &World) -> Outcome {
    world.open_gate_for("a", 2);
    for tenant in ["acme", "globex"] {
        let world = world.as_tenant(tenant)?;
        let run = world.start_with(GATED, |start| start.request_id("one")).await?;
        run.ends(RunStatus::Completed).await?;
        for event_type in [EventType::RunQueued, EventType::RunStarted] {
            let told = run.event(event_type).await?;
            ensure_eq!(told["context"]["tenantId"], tenant, "whose run it is, as {event_type} says");
        }
        let listed: Vec<_> = world.list().await?.into_iter().map(|found| found.run_id).collect();
        ensure_eq!(listed, [run.run_id], "the runs of {tenant}");
    }
    Ok(())
}

async fn another_tenants_run_is_not_found(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let before = run.events().await?;
    let theirs = world.as_tenant("globex")?;
    let (client, id) = (theirs.client(), &run.run_id);
    let foreign = run.seen_by(&theirs);
    let answers: [(&str, Option<Error>); 8] = [
        ("get", client.get(id).await.err()),
        ("events", client.events(id, 0, 10).await.err()),
        ("observe", client.observe(id, 0).await.err()),
        ("pause", foreign.ask(Ask::pause()).await.err()),
        ("cancel", foreign.ask(Ask::cancel()).await.err()),
        ("rerun", client.rerun(id, Rerun::default()).await.err()),
        ("copy", client.copy(id, None, None, None).await.err()),
        ("checkpoint", client.checkpoint(id, None).await.err()),
    ];
    for (call, error) in answers {
        let Some(error) = error else {
            return Err(Stop::Fail(format!("{call} by another tenant is answered")));
        };
        ensure_eq!(error.code(), Code::NotFound, "the code of {call} by another tenant");
    }
    ensure!(theirs.list().await?.is_empty(), "another tenant lists no runs");
    ensure_eq!(run.events().await?, before, "the log after all that");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

/// Refuses one kind of operation.
#[derive(Debug)]
struct Refusing(fn(&Operation) -> bool);

#[async_trait]
impl Authorizer for Refusing {
    async fn authorize(&self, request: AuthorizationRequest) -> Result<Authorization, Error> {
        if (self.0)(&request.operation) {
            return Ok(Authorization::Denied { reason: format!("{} may not", request.actor) });
        }
        Ok(Authorization::Allowed)
    }
}

async fn a_denied_signal_stands_in_the_log_and_changes_nothing(world: &World) -> Outcome {
    let run = world.start(GATED).await?;
    world.at_gate("a", 1).await?;
    let guarded = world.with_authorizer(Arc::new(Refusing(|wanted| matches!(wanted, Operation::Signal(..)))));
    run.seen_by(&guarded).refuse(Ask::cancel(), Code::AuthzDenied).await?;
    ensure_eq!(run.snapshot().await?.status, Some(RunStatus::Running), "the status after it");
    world.open_gate("a");
    run.ends(RunStatus::Completed).await
}

async fn whoever_may_not_start_read_or_rerun_does_not(world: &World) -> Outcome {
    let plan = world.plan(GATED)?;
    let guarded = |refuses| world.with_authorizer(Arc::new(Refusing(refuses)));
    let no_start = guarded(|wanted| matches!(wanted, Operation::Start(_)));
    let refused = no_start.try_start(Start::of(plan)).await.err().map(|error| error.code());
    ensure_eq!(refused, Some(Code::AuthzDenied), "the answer to a start");
    ensure!(world.list().await?.is_empty(), "nothing is stored");
    world.open_gate("a");
    let run = world.start(GATED).await?;
    run.ends(RunStatus::Completed).await?;
    let no_read = guarded(|wanted| matches!(wanted, Operation::Read(_)));
    let refused = no_read.client().get(&run.run_id).await.err().map(|error| error.code());
    ensure_eq!(refused, Some(Code::AuthzDenied), "the answer to a read");
    let no_rerun = guarded(|wanted| matches!(wanted, Operation::Rerun(_)));
    let refused =
        no_rerun.client().rerun(&run.run_id, Rerun::default()).await.err().map(|error| error.code());
    ensure_eq!(refused, Some(Code::AuthzDenied), "the answer to a rerun");
    ensure_eq!(world.list().await?.len(), 1, "the runs of the tenant");
    ensure_eq!(run.count(EventType::RunCompleted).await?, 1, "the ends of the run");
    Ok(())
}
