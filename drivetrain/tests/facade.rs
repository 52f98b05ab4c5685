//! The facade without an engine that drives: what is checked, stored and asked before anybody decides.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drivetrain::{Ask, Code, Decision, Drivetrain, ListFilter, Rerun, Start, StepId};
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::port::{
    Authorization, AuthorizationRequest, Authorizer, Capabilities, Engine, EngineRun, EngineRunRequest,
    EngineStatus, Operation, SignalRequest, StartRequest,
};
use engine_core::{Result, RunId};
use serde_json::json;

/// Takes everything and drives nothing.
#[derive(Debug)]
struct Idle;

#[async_trait]
impl Engine for Idle {
    fn name(&self) -> &str {
        "idle"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open })
    }
    async fn signal(&self, _: SignalRequest) -> Result<()> {
        Ok(())
    }
    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open })
    }
}

#[derive(Debug)]
struct NoPauses;

#[async_trait]
impl Authorizer for NoPauses {
    async fn authorize(&self, request: AuthorizationRequest) -> Result<Authorization> {
        Ok(match request.operation {
            Operation::Signal(..) => Authorization::Denied { reason: format!("{} may not", request.actor) },
            _ => Authorization::Allowed,
        })
    }
}

async fn idle() -> Drivetrain {
    let engine: Arc<dyn Engine> = Arc::new(Idle);
    let builder = Drivetrain::builder().engine(engine).store("memory:").actor("jane");
    builder.signal_timeout(Duration::from_millis(10)).build().await.unwrap()
}

const PLAN: &str = r#"
id: orders
version: "1"
inputSchema: {type: object, required: [order]}
steps:
  - {id: load, handler: anything}
  - {id: store, handler: anything, dependsOn: [load]}
"#;

async fn started(drivetrain: &Drivetrain) -> RunId {
    let plan = drivetrain.read_plan(PLAN).unwrap();
    drivetrain.start(Start::of(plan).input(json!({"order": 1}))).await.unwrap().run_id
}

#[tokio::test]
async fn a_started_run_is_queued_with_its_plan_input_and_actor() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    let snapshot = drivetrain.get(&run).await.unwrap();
    assert_eq!(snapshot.status, Some(RunStatus::Pending));
    assert_eq!(snapshot.steps.len(), 2);
    let first = drivetrain.events(&run, 0, 1).await.unwrap().remove(0);
    let Body::RunQueued(queued) = first.body else { panic!("{first:?}") };
    assert_eq!(queued.input.value, Some(json!({"order": 1})));
    assert_eq!(queued.context.triggered_by.as_deref(), Some("jane"));
    assert_eq!(drivetrain.plan_of(&run).await.unwrap().hash(), queued.plan_ref.sha256);
}

#[tokio::test]
async fn the_same_request_gives_the_same_run() {
    let drivetrain = idle().await;
    let plan = drivetrain.read_plan(PLAN).unwrap();
    let start = Start::of(plan).input(json!({"order": 1})).request_id("once");
    let first = drivetrain.start(start.clone()).await.unwrap();
    let second = drivetrain.start(start).await.unwrap();
    assert!(first.fresh && !second.fresh);
    assert_eq!(first.run_id, second.run_id);
}

#[tokio::test]
async fn nothing_is_stored_when_plan_or_input_are_wrong() {
    let drivetrain = idle().await;
    let problems = drivetrain.read_plan("id: x\nsteps: []\n").unwrap_err();
    assert_eq!(problems.code(), Code::PlanInvalid);
    let plan = drivetrain.read_plan(PLAN).unwrap();
    let refused = drivetrain.start(Start::of(plan)).await.unwrap_err();
    assert_eq!(refused.code(), Code::SchemaValidationFailed);
    let native = "id: x\nversion: \"1\"\nsteps:\n  - {id: a, handler: \"temporal:Charge\"}\n";
    let native = drivetrain.start(Start::of(drivetrain.read_plan(native).unwrap())).await.unwrap_err();
    assert_eq!(native.code(), Code::Unsupported);
    assert!(drivetrain.list(ListFilter::default()).await.unwrap().runs.is_empty());
}

#[tokio::test]
async fn a_signal_that_nobody_decides_is_undecided() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    assert!(matches!(drivetrain.pause(&run).await.unwrap(), Decision::Undecided { .. }));
}

#[tokio::test]
async fn what_the_engine_cannot_do_is_refused_before_it_is_sent() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    let error = drivetrain.ask(&run, Ask::pause_immediately()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
    assert_eq!(drivetrain.get(&run).await.unwrap().last_event_seq, 1);
}

#[tokio::test]
async fn a_denied_signal_stands_in_the_log_as_refused() {
    let engine: Arc<dyn Engine> = Arc::new(Idle);
    let builder = Drivetrain::builder().engine(engine).store("memory:").actor("jane");
    let drivetrain = builder.authorizer(Arc::new(NoPauses)).build().await.unwrap();
    let run = started(&drivetrain).await;
    let decision = drivetrain.cancel(&run).await.unwrap();
    assert_eq!(decision, Decision::Rejected { code: "AUTHZ_DENIED".into(), message: "jane may not".into() });
    assert_eq!(drivetrain.get(&run).await.unwrap().status, Some(RunStatus::Pending));
}

#[tokio::test]
async fn another_tenants_run_is_not_found() {
    let engine: Arc<dyn Engine> = Arc::new(Idle);
    let ours = idle().await;
    let run = started(&ours).await;
    let theirs = Drivetrain::builder()
        .engine(engine)
        .store(ours.store().clone())
        .tenant("other")
        .build()
        .await
        .unwrap();
    for error in [
        theirs.get(&run).await.unwrap_err(),
        theirs.pause(&run).await.unwrap_err(),
        theirs.rerun(&run, Rerun::default()).await.unwrap_err(),
        theirs.checkpoint(&run, None).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::NotFound);
    }
}

#[tokio::test]
async fn a_live_run_cannot_be_run_again_and_a_step_that_is_not_there_cannot_be_copied() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    assert_eq!(drivetrain.rerun(&run, Rerun::default()).await.unwrap_err().code(), Code::OriginInvalid);
    let step = StepId::new("lod").unwrap();
    assert_eq!(drivetrain.copy(&run, Some(step), None, None).await.unwrap_err().code(), Code::StepNotFound);
}

#[tokio::test]
async fn a_copy_of_a_step_has_the_step_and_what_belongs_to_it_with_the_same_input() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    let copy = drivetrain.copy(&run, Some(StepId::new("load").unwrap()), None, None).await.unwrap().run_id;
    assert_eq!(drivetrain.plan_of(&copy).await.unwrap().len(), 2);
    let first = drivetrain.events(&copy, 0, 1).await.unwrap().remove(0);
    let Body::RunQueued(queued) = first.body else { panic!("{first:?}") };
    assert_eq!(queued.origin.unwrap().source_run_id, run);
    assert_eq!(queued.input.value, Some(json!({"order": 1})));
}

#[tokio::test]
async fn checkpoints_are_made_listed_and_pruned() {
    let drivetrain = idle().await;
    let run = started(&drivetrain).await;
    let made = drivetrain.checkpoint(&run, None).await.unwrap();
    assert_eq!(made.up_to_seq, 1);
    assert_eq!(drivetrain.checkpoints(&run).await.unwrap(), std::slice::from_ref(&made));
    assert_eq!(drivetrain.prune_checkpoints(&run, 0).await.unwrap(), [made.checkpoint_id]);
}

#[tokio::test]
async fn a_handler_that_is_registered_twice_is_told_by_build() {
    async fn nothing(_: drivetrain::StepContext, _: serde_json::Value) -> Result<(), drivetrain::StepError> {
        Ok(())
    }
    let builder = Drivetrain::builder().store("memory:").handler("x", nothing).handler("x", nothing);
    let error = builder.build().await.unwrap_err();
    assert!(error.message().contains('x') && error.message().contains("already"), "{error}");
}
