//! Activities for attempts: which queue, how long, how often.

use std::time::Duration;

use engine_core::decider::{AttemptRef, CompensationTask, Dispatched};
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::plan::{CompiledPlan, Dispatch, RetryPolicy as PlanRetry, Step};
use engine_core::{Code, RunId, TenantId};
use temporalio_common::RetryPolicy;
use temporalio_common::error::IncomingError;
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, LocalActivityOptions,
    WorkflowCancellationToken, WorkflowContext,
};

use super::Interpreter;
use crate::activities::StepActivity;
use crate::carried::{Chosen, Done, Errand};
use crate::flights::{Flights, Landed, Purpose};

/// What an attempt may take longer than its own time limit: reading the log, waiting for the claim of a lost worker, and
/// writing its end. The worker keeps the limit itself; Temporal's is for a worker that does not answer.
const MARGIN: Duration = Duration::from_secs(60);

/// How long one try at undoing may take when the plan does not say (COMP-10).
const UNDO_TIMEOUT_MS: u64 = 300_000;

/// How often undoing is handed out again when its worker was lost.
const UNDO_LOSSES: u32 = 10;

/// The type of the failure when a worker does not have the activity.
const NOT_REGISTERED: &str = "NotFoundError";

/// Hands out attempts of one run.
#[derive(Clone, Copy)]
pub(super) struct HandOut<'a, 'b> {
    pub(super) context: &'a WorkflowContext<Interpreter>,
    pub(super) plan: &'b CompiledPlan,
    pub(super) chosen: &'b Chosen,
    pub(super) tenant_id: &'b TenantId,
    pub(super) run_id: &'b RunId,
}

impl<'a> HandOut<'a, '_> {
    /// Hands out an attempt that was released.
    pub(super) fn attempt(self, flights: &mut Flights<'a>, task: &Dispatched) {
        let Some(step) = self.plan.find(task.attempt.step.as_str()).map(|index| self.plan.step(index)) else {
            return;
        };
        let purpose = Purpose { attempt: task.attempt.clone(), undo: None };
        let stop = WorkflowCancellationToken::new();
        let activity = StepActivity::named(task.handler.as_str());
        let errand = self.errand(&task.attempt, None);
        if self.is_local(step) {
            let options = self.local_options(step, &task.attempt, stop.clone());
            let flight = self.context.execute_local_activity(activity, errand, options);
            flights.launch(purpose, stop, true, flight);
        } else {
            let queue = task.agent.as_ref().and_then(|agent| self.chosen.queues.get(agent)).cloned();
            let options = self.options(step, &task.attempt, queue, stop.clone());
            let flight = self.context.execute_activity(activity, errand, options);
            flights.launch(purpose, stop, false, flight);
        }
    }

    /// Hands out a try at undoing an attempt.
    pub(super) fn undo(self, flights: &mut Flights<'a>, task: &CompensationTask) {
        let compensation = self
            .plan
            .find(task.attempt.step.as_str())
            .and_then(|index| self.plan.step(index).compensation.as_ref());
        let timeout_ms =
            compensation.and_then(|compensation| compensation.timeout_ms).unwrap_or(UNDO_TIMEOUT_MS);
        let purpose = Purpose { attempt: task.attempt.clone(), undo: Some(task.try_number) };
        let stop = WorkflowCancellationToken::new();
        let name = format!("undo:{}#{}.{}", task.attempt.step, task.attempt.attempt, task.try_number);
        let options = ActivityOptions::with_start_to_close_timeout(
            Duration::from_millis(timeout_ms).saturating_add(MARGIN),
        )
        .heartbeat_timeout(Duration::from_millis(self.chosen.heartbeat_ms))
        .retry_policy(retry_policy(&engine_core::failure::compensation_retry(), UNDO_LOSSES))
        .summary(format!("undo {}", task.attempt.step))
        .activity_id(name)
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(stop.clone())
        .build();
        let activity = StepActivity::named(task.handler.as_str());
        let errand = self.errand(&task.attempt, Some(task.try_number));
        let flight = self.context.execute_activity(activity, errand, options);
        flights.launch(purpose, stop, false, flight);
    }

    fn is_local(self, step: &Step) -> bool {
        let by_default = self.chosen.dispatch.filter(|_| may_be_local(step));
        step.effective_dispatch(self.plan.document().dispatch.or(by_default)) == Dispatch::Local
    }

    fn errand(self, attempt: &AttemptRef, undo: Option<u32>) -> Errand {
        Errand {
            tenant_id: self.tenant_id.clone(),
            run_id: self.run_id.clone(),
            step_id: attempt.step.clone(),
            attempt: attempt.attempt,
            undo,
        }
    }

    fn timeout(self, step: &Step) -> Duration {
        Duration::from_millis(step.effective_timeout_ms(self.plan.document().dispatch)).saturating_add(MARGIN)
    }

    fn options(
        self,
        step: &Step,
        attempt: &AttemptRef,
        queue: Option<String>,
        stop: WorkflowCancellationToken,
    ) -> ActivityOptions {
        ActivityOptions::with_start_to_close_timeout(self.timeout(step))
            .heartbeat_timeout(Duration::from_millis(self.chosen.heartbeat_ms))
            .retry_policy(retry_policy(&step.retry, step.max_losses))
            .maybe_task_queue(queue)
            .activity_id(format!("{}#{}", attempt.step, attempt.attempt))
            .summary(attempt.step.to_string())
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .cancellation_token(stop)
            .build()
    }

    fn local_options(
        self,
        step: &Step,
        attempt: &AttemptRef,
        stop: WorkflowCancellationToken,
    ) -> LocalActivityOptions {
        LocalActivityOptions::builder()
            .start_to_close_timeout(self.timeout(step))
            .retry_policy(retry_policy(&step.retry, step.max_losses))
            .activity_id(format!("{}#{}", attempt.step, attempt.attempt))
            .summary(attempt.step.to_string())
            .cancel_type(ActivityCancellationType::WaitCancellationCompleted)
            .cancellation_token(stop)
            .build()
    }
}

/// Whether a step that does not say so may be local by configuration (DISPATCH-4).
fn may_be_local(step: &Step) -> bool {
    step.agent_chain().is_empty()
        && step.handler.native_engine().is_none()
        && step.timeout_ms.is_none_or(|timeout| timeout <= engine_core::plan::LOCAL_TIMEOUT_MS)
}

/// The plan's policy in Temporal's words. Which try comes when is told with each failure; the number is the most there can
/// be (WORKER-15).
fn retry_policy(retry: &PlanRetry, losses: u32) -> RetryPolicy {
    RetryPolicy::builder()
        .initial_interval(Duration::from_millis(retry.delay_ms(1).max(1)))
        .backoff_coefficient(retry.backoff_multiplier.max(1.0))
        .maximum_interval(Duration::from_millis(retry.max_backoff_ms.max(retry.delay_ms(1)).max(1)))
        .maximum_attempts(retry.max_attempts.saturating_add(losses))
        .non_retryable_error_types(vec![NOT_REGISTERED.to_owned()])
        .build()
}

/// What became of an activity, as far as the driver must know.
pub(super) enum Fate {
    /// The log tells.
    Done(Done),
    /// Temporal has given it up: cancelled, or failed so.
    GivenUp(Option<StepError>),
}

/// Reads what an activity came back with.
pub(super) fn fate(landed: Landed) -> Fate {
    let error = match landed {
        Ok(done) => return Fate::Done(done),
        Err(error) => error,
    };
    if let ActivityExecutionError::Cancelled(_) = &error {
        return Fate::GivenUp(None);
    }
    if let Some(IncomingError::Application(failure)) = error.cause() {
        if let Ok(Some(done)) = failure.details::<Done>() {
            return Fate::Done(done);
        }
        if failure.type_name() == Some(NOT_REGISTERED) {
            let message = format!("the worker has no such handler ({failure})");
            let code = Code::HandlerUnknown.as_str();
            return Fate::GivenUp(Some(StepError::new(FailureClass::Permanent, code, message)));
        }
        let code = failure.type_name().unwrap_or("Unknown");
        return Fate::GivenUp(Some(StepError::new(FailureClass::Transient, code, failure.to_string())));
    }
    let (class, code) = match error.as_timeout() {
        Some(_) => (FailureClass::Timeout, Code::StepTimeout),
        None => (FailureClass::Transient, Code::WorkerLost),
    };
    Fate::GivenUp(Some(StepError::new(class, code.as_str(), format!("Temporal gave it up: {error}"))))
}
