//! What is appended: call after call, each made from its name alone, so that whoever finds an event in a log knows
//! which call it belongs to and what the others of that call look like.

use std::fmt;
use std::str::FromStr;

use engine_core::decider::DECIDER_VERSION;
use engine_core::event::audit::{AlertRaised, Severity};
use engine_core::event::run::{
    PauseCause, PlanRef, RunContext, RunInput, RunPaused, RunQueued, RunResumed, TimerFired,
};
use engine_core::event::signal::{SignalAccepted, SignalRejected};
use engine_core::event::step::{
    CancelReason, StepCancelled, StepCompleted, StepError, StepRetried, StepStarted,
};
use engine_core::event::{Draft, Subject};
use engine_core::failure::FailureClass;
use engine_core::port::store::CreateRequest;
use engine_core::signal::SignalType;
use engine_core::{HandlerName, PlanId, PlanVersion, SignalId, StepId, TenantId, Timestamp};

/// How many append at once in one process.
pub(crate) const TASKS: u32 = 4;

/// The task that stands for whoever checks, in the names of its own calls.
pub(crate) const CHECKER: u32 = TASKS;

/// After so many calls a task makes its next run.
const CALLS_PER_RUN: u32 = 25;

/// Who appended the first event of the run that all share.
pub(crate) const EVERYBODY: &str = "everybody";

/// The name of a call, as `3.1.17`. Every event of the call carries it in `emittedBy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallName {
    /// Which process, or which handle.
    pub(crate) generation: u32,
    pub(crate) task: u32,
    /// From 0.
    pub(crate) number: u32,
}

impl fmt::Display for CallName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.generation, self.task, self.number)
    }
}

impl FromStr for CallName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<u32> = text.split('.').filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [generation, task, number] => Ok(Self { generation, task, number }),
            _ => Err(format!("{text:?} is not the name of a call")),
        }
    }
}

/// Which run a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The one that its task made last: nobody else writes to it.
    Own,
    /// The one that all tasks of all processes write to.
    Shared,
}

/// One call.
#[derive(Debug)]
pub(crate) enum Call {
    /// Makes the task's next run.
    Create(Box<CreateRequest>),
    /// Appends.
    Append {
        target: Target,
        /// As a driver, all or nothing; otherwise as a worker.
        decision: bool,
        drafts: Vec<Draft>,
    },
}

impl Call {
    /// The call with this name.
    pub(crate) fn of(name: CallName) -> Self {
        let CallName { task, number, .. } = name;
        if task == CHECKER {
            return Self::Append { target: Target::Shared, decision: true, drafts: decisions(name, 1) };
        }
        if number.is_multiple_of(CALLS_PER_RUN) {
            return Self::Create(Box::new(creation(&name.to_string(), &name.to_string())));
        }
        let size = 1 + (number / 5 + number + task) as usize % 5;
        let (target, decision) = match number % 5 {
            0 => (Target::Own, true),
            1 => (Target::Shared, false),
            3 => (Target::Shared, true),
            _ => (Target::Own, false),
        };
        let drafts = if decision { decisions(name, size) } else { reports(name, size) };
        Self::Append { target, decision, drafts }
    }

    /// How many events it stores.
    pub(crate) fn events(&self) -> usize {
        match self {
            Self::Create(_) => 1,
            Self::Append { drafts, .. } => drafts.len(),
        }
    }
}

/// Whose runs they are.
pub(crate) fn tenant() -> TenantId {
    TenantId::new("acme").expect("a tenant id")
}

/// A request for a run; the same words ask for the same run.
pub(crate) fn creation(request: &str, emitted_by: &str) -> CreateRequest {
    let context = RunContext {
        tenant_id: tenant(),
        project_id: "project".into(),
        environment_id: "test".into(),
        triggered_by: None,
        trigger_source: None,
    };
    let plan_id = PlanId::new("orders").expect("a plan id");
    let plan_version = PlanVersion::new("1.2.0").expect("a version");
    let queued = RunQueued {
        identity: context.identity(&plan_id, &plan_version, request),
        plan_ref: PlanRef {
            uri: "store:plan".into(),
            sha256: "0".repeat(64),
            schema_version: "1.0".into(),
            plan_id,
            plan_version,
        },
        input: RunInput::default(),
        context,
        original_intent: None,
        limits: Default::default(),
        policies: Default::default(),
        capabilities: Default::default(),
        decider_version: DECIDER_VERSION,
        not_before: None,
        origin: None,
    };
    CreateRequest { queued, correlation_id: "correlation".into(), emitted_by: emitted_by.into(), lease: None }
}

/// Worker and audit events, two of which take a slot.
fn reports(name: CallName, size: usize) -> Vec<Draft> {
    let subject = Subject::new(StepId::new(format!("s.{name}")).expect("a step id"), 1);
    // Now and then an event that does not fit into one page of the database.
    let length = if name.number % 30 == 7 { 60_000 } else { name.number as usize % 7 * 300 };
    let all = [
        alert(&name.to_string(), 1, "x".repeat(length)),
        Draft::step(
            subject.clone(),
            StepStarted {
                handler: HandlerName::new("x").expect("a handler"),
                agent: None,
                worker: "worker-1".into(),
                claim_until: None,
                idempotency_token: None,
            },
        ),
        Draft::step(
            subject.clone().with_engine_attempt(1),
            StepRetried {
                error: StepError {
                    code: "ETIMEDOUT".into(),
                    class: FailureClass::Transient,
                    message: "no answer".into(),
                    http_status: None,
                },
                started_at: None,
                ended_at: None,
                delay_ms: 10,
                worker_lost: false,
            },
        ),
        Draft::step(subject, StepCompleted::default()),
        Draft::run(SignalRejected {
            signal_id: signal_id(&format!("r.{name}")),
            signal_type: SignalType::Resume,
            actor: "ops".into(),
            code: "RUN_NOT_PAUSED".into(),
            message: "the run is not paused".into(),
        }),
    ];
    all.into_iter().take(size).collect()
}

/// Decisions, two of which change the status of the run, and two of which take a slot.
fn decisions(name: CallName, size: usize) -> Vec<Draft> {
    let pause_number = name.generation * 1_000_000 + name.task * 100_000 + name.number;
    let subject = Subject::new(StepId::new(format!("c.{name}")).expect("a step id"), 1);
    let all = [
        Draft::run(TimerFired {
            timer_id: name.to_string(),
            due_at: Timestamp::from_millis(1_770_805_800_000),
        }),
        Draft::run(RunPaused {
            pause_number,
            cause: PauseCause::Signal,
            in_flight: 0,
            immediate: false,
            caused_by_step: None,
            signal_id: None,
            reason: None,
        }),
        Draft::run(RunResumed { pause_number, signal_id: None, reason: None }),
        Draft::run(SignalAccepted {
            signal_id: signal_id(&format!("a.{name}")),
            signal_type: SignalType::Resume,
            actor: "ops".into(),
            reason: None,
            details: Default::default(),
        }),
        Draft::step(
            subject,
            StepCancelled {
                reason: CancelReason::RunCancelled,
                forced: false,
                signal_id: None,
                manual: None,
            },
        ),
    ];
    all.into_iter().take(size).collect()
}

/// An event that nothing keeps out.
pub(crate) fn alert(code: &str, number: u32, message: String) -> Draft {
    Draft::run(AlertRaised { code: code.into(), number, severity: Severity::P3, message })
}

pub(crate) fn signal_id(id: &str) -> SignalId {
    SignalId::new(id).expect("a signal id")
}
