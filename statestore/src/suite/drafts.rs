//! Runs and events as cases need them: as little in them as the case is about.

use std::sync::{Arc, LazyLock};

use engine_core::event::audit::{AlertRaised, Severity};
use engine_core::event::run::{
    FrozenCapabilities, PauseCause, PlanRef, RunApproved, RunCompleted, RunContext, RunOutcome, RunPaused,
    RunQueued, RunResumed, RunStarted, StepCounts, TimerFired,
};
use engine_core::event::signal::{SignalAccepted, SignalRejected};
use engine_core::event::step::{
    CancelReason, HumanReviewRequested, StepCancelled, StepCompleted, StepError, StepFailed, StepOutput,
    StepRetried, StepStarted, StepWaiting,
};
use engine_core::event::{Draft, Subject};
use engine_core::failure::FailureClass;
use engine_core::plan::{CompiledPlan, Plan};
use engine_core::port::store::CreateRequest;
use engine_core::signal::{Command, Signal, SignalType};
use engine_core::{CheckpointId, HandlerName, SignalId, StepId, TenantId, Timestamp};
use serde_json::{Value, json};

/// The plan of every run: three steps that do not wait for each other.
pub(crate) fn plan() -> Arc<CompiledPlan> {
    static PLAN: LazyLock<Arc<CompiledPlan>> = LazyLock::new(|| {
        let document = json!({
            "id": "orders", "version": "1.2.0", "mode": "graph",
            "steps": [{"id": "a", "handler": "x"}, {"id": "b", "handler": "x"}, {"id": "c", "handler": "x"}],
        });
        let plan: Plan = serde_json::from_value(document).expect("a plan");
        Arc::new(CompiledPlan::new(plan).expect("a valid plan"))
    });
    PLAN.clone()
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a tenant id")
}

pub(crate) fn step(id: &str) -> StepId {
    StepId::new(id).expect("a step id")
}

pub(crate) fn signal_id(id: &str) -> SignalId {
    SignalId::new(id).expect("a signal id")
}

pub(crate) fn checkpoint_id(id: &str) -> CheckpointId {
    CheckpointId::new(id).expect("a checkpoint id")
}

pub(crate) fn attempt(id: &str, attempt: u32) -> Subject {
    Subject::new(step(id), attempt)
}

/// A request of a tenant for a run; the same words ask for the same run.
pub(crate) fn creation(tenant_name: &str, request: &str) -> CreateRequest {
    let context = RunContext {
        tenant_id: tenant(tenant_name),
        project_id: "project".into(),
        environment_id: "test".into(),
        triggered_by: Some("jane".into()),
        trigger_source: None,
    };
    let queued = RunQueued {
        capabilities: FrozenCapabilities { immediate_pause: true, fail_fast_cancel: true },
        ..RunQueued::of(&plan(), context, request)
    };
    CreateRequest { queued, correlation_id: "correlation".into(), emitted_by: "starter".into(), lease: None }
}

// Decisions about the run.

pub(crate) fn approved() -> Draft {
    Draft::run(RunApproved { approved_by: "system".into(), signal_id: None, reason: None })
}

pub(crate) fn run_started(engine_run_ref: &str, started_at: Timestamp) -> Draft {
    Draft::run(RunStarted {
        engine_run_ref: engine_run_ref.into(),
        engine_type: "mock".into(),
        interpreter_version: None,
        plan_ref: PlanRef::of(&plan()),
        context: creation("acme", "start").queued.context,
        started_at,
    })
}

pub(crate) fn paused(pause_number: u32) -> Draft {
    Draft::run(RunPaused {
        pause_number,
        cause: PauseCause::Signal,
        in_flight: 0,
        immediate: false,
        caused_by_step: None,
        signal_id: None,
        reason: None,
    })
}

pub(crate) fn resumed(pause_number: u32) -> Draft {
    Draft::run(RunResumed { pause_number, signal_id: None, reason: None })
}

pub(crate) fn run_completed() -> Draft {
    Draft::run(RunCompleted { outcome: RunOutcome::Success, output: None, counts: StepCounts::default() })
}

pub(crate) fn timer(timer_id: &str) -> Draft {
    Draft::run(TimerFired { timer_id: timer_id.into(), due_at: Timestamp::from_millis(1_770_805_800_000) })
}

pub(crate) fn cancelled(id: &str, number: u32) -> Draft {
    let reason = CancelReason::RunCancelled;
    Draft::step(attempt(id, number), StepCancelled { reason, forced: false, signal_id: None, manual: None })
}

// What workers tell.

pub(crate) fn started(id: &str, number: u32) -> Draft {
    Draft::step(
        attempt(id, number),
        StepStarted {
            handler: HandlerName::new("x").expect("a handler"),
            agent: None,
            worker: "worker-1".into(),
            claim_until: None,
            idempotency_token: None,
        },
    )
}

pub(crate) fn completed(id: &str, number: u32) -> Draft {
    Draft::step(attempt(id, number), StepCompleted::default())
}

/// The end of an attempt with an output.
pub(crate) fn completed_with(id: &str, number: u32, value: Value) -> Draft {
    let output = StepOutput { value: Some(value), ..StepOutput::default() };
    Draft::step(attempt(id, number), StepCompleted { output, ..StepCompleted::default() })
}

pub(crate) fn failed(id: &str, number: u32) -> Draft {
    let failed = StepFailed { error: error("BadRequest"), tries: 1, losses: 0, manual: None };
    Draft::step(attempt(id, number), failed)
}

pub(crate) fn retried(id: &str, number: u32, engine_attempt: u32) -> Draft {
    Draft::step(
        attempt(id, number).with_engine_attempt(engine_attempt),
        StepRetried {
            error: error("ETIMEDOUT"),
            started_at: None,
            ended_at: None,
            delay_ms: 10,
            worker_lost: false,
        },
    )
}

pub(crate) fn waiting(id: &str, number: u32) -> Draft {
    let waiting = StepWaiting { completion_token: "token".into(), output: None, prompt: None };
    Draft::step(attempt(id, number), waiting)
}

pub(crate) fn review(id: &str, number: u32, request: u32) -> Draft {
    let review =
        HumanReviewRequested { number: request, reason: "unsure".into(), context: Default::default() };
    Draft::step(attempt(id, number), review)
}

/// An event that its schema refuses: an error has a code.
pub(crate) fn invalid(id: &str, number: u32) -> Draft {
    Draft::step(attempt(id, number), StepFailed { error: error(""), tries: 1, losses: 0, manual: None })
}

pub(crate) fn error(code: &str) -> StepError {
    StepError {
        code: code.into(),
        class: FailureClass::Permanent,
        message: "no such thing".into(),
        http_status: None,
    }
}

// Audit and signals.

pub(crate) fn alert(code: &str, number: u32) -> Draft {
    Draft::run(AlertRaised { code: code.into(), number, severity: Severity::P3, message: "look".into() })
}

/// So many alerts, from this number on: events that nothing keeps out.
pub(crate) fn alerts(code: &str, from: u32, count: u32) -> Vec<Draft> {
    (from..from + count).map(|number| alert(code, number)).collect()
}

pub(crate) fn signal(id: &str) -> Signal {
    Signal { signal_id: signal_id(id), actor: "ops".into(), reason: None, command: Command::Resume }
}

pub(crate) fn accepted(id: &str) -> Draft {
    Draft::run(SignalAccepted {
        signal_id: signal_id(id),
        signal_type: SignalType::Resume,
        actor: "ops".into(),
        reason: None,
        details: Default::default(),
    })
}

pub(crate) fn rejected(id: &str) -> Draft {
    Draft::run(SignalRejected {
        signal_id: signal_id(id),
        signal_type: SignalType::Resume,
        actor: "ops".into(),
        code: "RUN_NOT_PAUSED".into(),
        message: "the run is not paused".into(),
    })
}
