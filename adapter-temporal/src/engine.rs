//! The engine: starting workflows, ringing them, asking about them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine_core::plan::{CompiledPlan, Dispatch};
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest,
    StateStore,
};
use engine_core::signal::{Command, PauseMode};
use engine_core::{Code, Error, Result, RunId, TenantId};
use temporalio_client::errors::{WorkflowInteractionError, WorkflowStartError};
use temporalio_client::tonic::{Code as GrpcCode, Status};
use temporalio_client::{
    Client, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowHandle, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy, WorkflowSignalOptions, WorkflowStartOptions,
};
use temporalio_common::MemoValues;
use tokio_util::sync::CancellationToken;
use worker::{Plans, Worker};

use crate::activities::Desk;
use crate::attend;
use crate::carried::RunInput;
use crate::driver::{Interpreter, Ring};
use crate::options::Options;
use crate::serve::Serving;
use crate::stops::Stops;

/// The name of this engine, as it stands in RunStarted.
pub const ENGINE: &str = "temporal";

/// The time limit of one task of a workflow that runs steps itself: signals are let in after 0.8 of it (DISPATCH-6).
const LOCAL_TASK_LIMIT: Duration = Duration::from_millis(2400);

/// Drives runs on a Temporal cluster. Clones share it.
#[derive(Clone)]
pub struct Temporal {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    store: Arc<dyn StateStore>,
    plans: Plans,
    options: Options,
    serving: Option<Serving>,
}

impl Temporal {
    /// Connects to the cluster: starts runs and delivers signals. Other processes drive.
    ///
    /// # Errors
    /// `ENGINE_UNAVAILABLE` when the server cannot be reached, `UNSUPPORTED` when the configuration cannot be right.
    pub async fn connect(store: Arc<dyn StateStore>, options: Options) -> Result<Self> {
        let client = options.connect.connect().await?;
        Ok(Self { shared: Arc::new(Shared { client, store, plans: Plans::new(), options, serving: None }) })
    }

    /// Connects to the cluster and serves the task queues: drives runs and runs their steps, until
    /// [`Temporal::shutdown`].
    ///
    /// # Errors
    /// As [`Temporal::connect`].
    pub async fn open(worker: Worker, options: Options) -> Result<Self> {
        let client = options.connect.connect().await?;
        let store = Arc::clone(worker.store());
        let desk = Desk { worker, stops: Stops::default(), stopping: CancellationToken::new() };
        let serving = Serving::start(&client, &options, desk.clone()).await?;
        let closing = serving.closing();
        // Without the workers: they must not live as long as somebody looks for lost runs.
        let lookout = Self {
            shared: Arc::new(Shared {
                client: client.clone(),
                store: Arc::clone(&store),
                plans: Plans::new(),
                options: options.clone(),
                serving: None,
            }),
        };
        tokio::spawn(attend::attend(lookout, desk, options.reconcile, closing));
        let shared = Shared { client, store, plans: Plans::new(), options, serving: Some(serving) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Lets nothing new come in, waits for handlers that run, as long as the options say, and gives the rest back.
    pub async fn shutdown(&self) {
        if let Some(serving) = &self.shared.serving {
            serving.shutdown(self.shared.options.shutdown_grace).await;
        }
    }

    /// Drops everything at once, as if the process had been killed. For tests: what the workers had spawned ends with the
    /// runtime in which the engine was opened.
    pub fn abandon(&self) {
        if let Some(serving) = &self.shared.serving {
            serving.abandon();
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn task_queue(&self) -> &str {
        &self.shared.options.task_queue
    }

    pub(crate) fn handle(&self, run_id: &RunId) -> WorkflowHandle<Client, Interpreter> {
        self.shared.client.get_workflow_handle::<Interpreter>(run_id.as_str())
    }

    /// Starts the workflow of a run; one that is there already is left as it is.
    pub(crate) async fn start_workflow(&self, tenant_id: &TenantId, run_id: &RunId) -> Result<()> {
        let shared = &self.shared;
        let record = shared.store.find(tenant_id, run_id).await?;
        let plan = shared.plans.get(&*shared.store, tenant_id, &record.plan_hash).await;
        let mut memo = MemoValues::new();
        memo.insert("tenant", tenant_id.to_string())
            .insert("plan", record.plan_id.to_string())
            .insert("planVersion", record.plan_version.to_string())
            .insert("run", run_id.to_string());
        let options = WorkflowStartOptions::new(shared.options.task_queue.clone(), run_id.to_string())
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
            .memo(memo)
            .static_summary(format!("{} {}", record.plan_id, record.plan_version))
            // A run whose plan cannot be read is refused by whoever drives it, in its log.
            .maybe_task_timeout(
                plan.is_ok_and(|plan| self.has_local(plan.plan())).then_some(LOCAL_TASK_LIMIT),
            )
            .build();
        let input = RunInput {
            tenant_id: tenant_id.clone(),
            run_id: run_id.clone(),
            chosen: shared.options.chosen(),
            whole: None,
        };
        match shared.client.start_workflow(Interpreter::run, input, options).await {
            Ok(_) | Err(WorkflowStartError::AlreadyStarted { .. }) => Ok(()),
            Err(WorkflowStartError::Rpc(status)) => Err(told("the run cannot be started", &status)),
            Err(error) => Err(Error::new(Code::EngineRefused, format!("the run cannot be started: {error}"))),
        }
    }

    fn has_local(&self, plan: &CompiledPlan) -> bool {
        let by_plan = plan.document().dispatch.or(self.shared.options.dispatch);
        plan.document().steps.iter().any(|step| step.effective_dispatch(by_plan) == Dispatch::Local)
    }

    async fn ring(&self, run_id: &RunId, ring: Ring) -> Result<bool> {
        let rung =
            self.handle(run_id).signal(Interpreter::ring, ring, WorkflowSignalOptions::default()).await;
        match rung {
            Ok(()) => Ok(true),
            Err(WorkflowInteractionError::NotFound(_)) => Ok(false),
            Err(WorkflowInteractionError::Rpc(status)) => {
                Err(told("the signal cannot be delivered", &status))
            }
            Err(error) => {
                Err(Error::new(Code::EngineRefused, format!("the signal cannot be delivered: {error}")))
            }
        }
    }
}

#[async_trait]
impl Engine for Temporal {
    fn name(&self) -> &str {
        ENGINE
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { immediate_pause: true, fail_fast_cancel: true, ..Capabilities::default() }
    }

    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.start_workflow(&request.tenant_id, &request.run_id).await?;
        Ok(EngineRun { reference: request.run_id.to_string(), status: EngineStatus::Open })
    }

    /// The signal lies in the run's inbox before the workflow is rung: what Temporal loses, the next ring finds.
    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, ENGINE)?;
        }
        let ring = Ring {
            signal_id: request.signal.signal_id.to_string(),
            signal_type: request.signal.signal_type().as_str().to_owned(),
            actor: request.signal.actor.clone(),
        };
        self.shared.store.submit(&request.tenant_id, &request.run_id, request.signal).await?;
        if self.ring(&request.run_id, ring.clone()).await? {
            return Ok(());
        }
        // Its start may have gone astray.
        self.start_workflow(&request.tenant_id, &request.run_id).await?;
        self.ring(&request.run_id, ring).await.map(|_| ())
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        let record = self.shared.store.find(&request.tenant_id, &request.run_id).await?;
        let described = self.handle(&request.run_id).describe(WorkflowDescribeOptions::default()).await;
        let status = match described {
            Ok(description) => description.status(),
            Err(WorkflowInteractionError::NotFound(_)) => {
                return Err(Error::new(
                    Code::NotFound,
                    format!("Temporal has no workflow {}", request.run_id),
                ));
            }
            Err(WorkflowInteractionError::Rpc(status)) => {
                return Err(told("the run cannot be looked up", &status));
            }
            Err(error) => {
                return Err(Error::new(
                    Code::EngineUnavailable,
                    format!("the run cannot be looked up: {error}"),
                ));
            }
        };
        let status = match status {
            WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused => EngineStatus::Open,
            _ if record.status.is_terminal() => EngineStatus::Closed,
            status => EngineStatus::Lost { reason: format!("its workflow ended as {status:?} in Temporal") },
        };
        Ok(EngineRun { reference: request.run_id.to_string(), status })
    }
}

/// An answer of the server as an error of ours.
fn told(what: &str, status: &Status) -> Error {
    let code = match status.code() {
        GrpcCode::InvalidArgument
        | GrpcCode::NotFound
        | GrpcCode::PermissionDenied
        | GrpcCode::Unauthenticated
        | GrpcCode::FailedPrecondition
        | GrpcCode::Unimplemented => Code::EngineRefused,
        _ => Code::EngineUnavailable,
    };
    Error::new(code, format!("{what}: Temporal says {:?}: {}", status.code(), status.message()))
        .with_hint("see that the server runs, and that namespace and rights are right")
}

impl fmt::Debug for Temporal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Temporal")
            .field("connect", &self.shared.options.connect)
            .field("task_queue", &self.shared.options.task_queue)
            .field("serves", &self.shared.serving.is_some())
            .finish()
    }
}
