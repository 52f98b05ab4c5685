//! One run, from its start to its end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use engine_core::decider::{Actions, Run};
use engine_core::machine::RunStatus;
use engine_core::plan::Outline;
use engine_core::{Result, Timestamp};
use temporalio_common::RetryPolicy;
use temporalio_sdk::{
    ApplicationFailure, ContinueAsNewOptions, LocalActivityOptions, TimerOptions, TimerResult,
    WaitConditionOptions, WorkflowCancellationToken, WorkflowContext, WorkflowResult, WorkflowTermination,
};

use super::hand_out::{Fate, HandOut, fate};
use super::{Ended, Interpreter};
use crate::activities::TurnActivity;
use crate::carried::{Ask, Carried, GivenUp, RunInput, Standing, Told, Whole, unreadable};
use crate::flights::{Flights, Landed, Purpose};

/// The longest a turn may take before it is done again.
const TURN_LIMIT: Duration = Duration::from_secs(30);
/// How long a history that should be cut off may wait for what is in flight, in milliseconds. What is not back by then
/// goes on under its claim, and the successor hears of it.
const DRAIN_MS: u64 = 5000;

pub(super) struct Driver<'a> {
    context: &'a WorkflowContext<Interpreter>,
    input: RunInput,
    flights: Flights<'a>,
    alarm: Option<Alarm<'a>>,
    /// What the next turn is asked for.
    ask: Ask,
    /// Something must be decided or looked up.
    turn_due: bool,
    /// How many rings were answered.
    heard: u64,
    /// The run does not start before this time.
    start_at: Option<Timestamp>,
    /// Somebody asked Temporal to cancel the workflow, and that was passed on.
    cancelled: bool,
    /// Until when a successor is waited for.
    drained_by: Option<Timestamp>,
}

struct Alarm<'a> {
    at: Timestamp,
    stop: WorkflowCancellationToken,
    future: Pin<Box<dyn Future<Output = TimerResult> + 'a>>,
}

/// What ended a wait.
enum News {
    Landed(Vec<(Purpose, Landed)>),
    Rung,
    Due,
    Cancelled(String),
}

impl<'a> Driver<'a> {
    pub(super) fn new(context: &'a WorkflowContext<Interpreter>) -> Self {
        let input = context.state(|interpreter| interpreter.input.clone());
        Self {
            context,
            input,
            flights: Flights::default(),
            alarm: None,
            ask: Ask::default(),
            turn_due: true,
            heard: 0,
            start_at: None,
            cancelled: false,
            drained_by: None,
        }
    }

    /// Drives the run to its end. What this process cannot go on with fails the workflow's task, not the run: another
    /// process may know better.
    pub(super) async fn drive(self) -> WorkflowResult<Ended> {
        let context = self.context;
        match self.until_its_end().await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, workflow_id = context.workflow_id(), "a run cannot be driven by this process");
                context.force_task_fail(error);
                std::future::pending().await
            }
        }
    }

    async fn until_its_end(mut self) -> Result<WorkflowResult<Ended>> {
        match self.input.whole.take() {
            Some(whole) => self.restore(whole)?,
            None => self.ask.whole = true,
        }
        loop {
            if self.needs_turn() {
                if self.turn().await? {
                    return Ok(Err(failed("the run could not start; its log tells why")));
                }
                continue;
            }
            let actions = self.run(|run| run.actions());
            if let Some(status) = actions.finish {
                return Ok(self.finish(status));
            }
            let due = self.act(&actions);
            if self.is_time_to_hand_over() {
                return Ok(self.hand_over());
            }
            self.set_alarm(due);
            match self.wait().await {
                News::Landed(landed) => {
                    for (purpose, landed) in landed {
                        self.land(&purpose, landed)?;
                    }
                }
                News::Rung => {}
                News::Due => {
                    if let Some(alarm) = self.alarm.take() {
                        self.ask.due = Some(alarm.at);
                        self.turn_due = true;
                    }
                }
                News::Cancelled(reason) => {
                    self.cancelled = true;
                    self.ask.cancelled = Some(reason);
                    self.turn_due = true;
                }
            }
        }
    }

    fn run<T>(&self, look: impl FnOnce(&Run) -> T) -> T
    where
        T: Default,
    {
        self.context.state(|interpreter| interpreter.run.as_ref().map(look)).unwrap_or_default()
    }

    /// The time, as the history has it.
    fn now(&self) -> Timestamp {
        let since = self.context.workflow_time().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let millis = since.map_or(0, |since| since.as_millis());
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    fn needs_turn(&self) -> bool {
        self.turn_due
            || self.context.state(|interpreter| interpreter.rings) != self.heard
            || self.run(|run| !run.settle().is_empty())
    }

    /// Lets a local activity decide, and folds what the log says then; says whether the run was refused.
    async fn turn(&mut self) -> Result<bool> {
        self.turn_due = false;
        self.heard = self.context.state(|interpreter| interpreter.rings);
        let mut ask = std::mem::take(&mut self.ask);
        ask.of = Some((self.input.tenant_id.clone(), self.input.run_id.clone()));
        ask.after = self.run(|run| run.state().folded_through());
        let whole = ask.whole;
        let options = LocalActivityOptions::builder()
            .start_to_close_timeout(TURN_LIMIT)
            .retry_policy(
                RetryPolicy::builder()
                    .initial_interval(Duration::from_millis(100))
                    .maximum_interval(Duration::from_secs(5))
                    .build(),
            )
            // What must be decided is decided also when the workflow is cancelled.
            .cancellation_token(WorkflowCancellationToken::new())
            .build();
        let told = self.context.execute_local_activity(TurnActivity, ask, options).await;
        let told: Told = told.map_err(|cause| unreadable("what a turn told", cause))?;
        self.start_at = told.start_at;
        if told.refused {
            return Ok(true);
        }
        let news = !told.events.is_empty();
        if let Some(whole) = told.whole {
            self.restore(whole)?;
        }
        self.fold(told.events)?;
        // A driver that has folded siblings in another order may see what the log does not say.
        if !news && !whole && self.run(|run| !run.settle().is_empty()) {
            self.ask.whole = true;
        }
        Ok(false)
    }

    fn restore(&mut self, whole: Whole) -> Result<()> {
        let run = Run::restore(Arc::new(whole.outline.compile()?), whole.state)?;
        self.context.state_mut(|interpreter| interpreter.run = Some(run));
        Ok(())
    }

    fn fold(&mut self, events: Vec<Carried>) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let run_id = &self.input.run_id;
        self.context.state_mut(|interpreter| {
            let Some(run) = &mut interpreter.run else { return Ok(()) };
            let version = run.plan().document().version.clone();
            for carried in events {
                run.evolve(&carried.into_event(run_id, &version)?);
            }
            Ok(())
        })
    }

    /// Folds what an activity came back with.
    fn land(&mut self, purpose: &Purpose, landed: Landed) -> Result<()> {
        match fate(landed) {
            Fate::Done(done) => {
                match done.standing {
                    Standing::Told => {}
                    Standing::NotReleased => (self.ask.whole, self.turn_due) = (true, true),
                    Standing::Over | Standing::SignalsFirst => self.turn_due = true,
                }
                self.fold(done.events)
            }
            Fate::GivenUp(error) => {
                let undo = purpose.undo.is_some();
                self.ask.given_up.push(GivenUp::new(&purpose.attempt, undo, error));
                self.turn_due = true;
                Ok(())
            }
        }
    }

    /// Does what the decider says; says when to look again.
    fn act(&mut self, actions: &Actions) -> Option<Timestamp> {
        let now = self.now();
        let mut due = actions.timers.iter().map(|timer| timer.due_at).chain(self.start_at).min();
        let mut wake_at = |at: Timestamp| due = Some(due.map_or(at, |due| due.min(at)));
        // What has ended without its activity, or is undone otherwise, is not waited for.
        self.flights.keep(|purpose| match purpose.undo {
            None => {
                actions.dispatch.iter().any(|task| task.attempt == purpose.attempt)
                    || actions.cancel.contains(&purpose.attempt)
            }
            Some(try_number) => actions
                .compensate
                .as_ref()
                .is_some_and(|task| task.attempt == purpose.attempt && task.try_number == try_number),
        });
        for attempt in &actions.cancel {
            if !self.flights.cancel(attempt) {
                self.ask.given_up.push(GivenUp::new(attempt, false, None));
                self.turn_due = true;
            }
        }
        let Some(plan) =
            self.context.state(|interpreter| interpreter.run.as_ref().map(|run| run.plan().clone()))
        else {
            return due;
        };
        let draining = self.drained_by.is_some();
        let hand_out = HandOut {
            context: self.context,
            plan: &plan,
            chosen: &self.input.chosen,
            tenant_id: &self.input.tenant_id,
            run_id: &self.input.run_id,
        };
        for task in actions.dispatch.iter().filter(|_| !draining) {
            let purpose = Purpose { attempt: task.attempt.clone(), undo: None };
            if self.flights.has(&purpose) {
                continue;
            }
            match task.not_before.filter(|at| *at > now) {
                Some(at) => wake_at(at),
                None => hand_out.attempt(&mut self.flights, task),
            }
        }
        if let Some(task) = actions.compensate.as_ref().filter(|_| !draining) {
            let purpose = Purpose { attempt: task.attempt.clone(), undo: Some(task.try_number) };
            if !self.flights.has(&purpose) {
                match task.not_before.filter(|at| *at > now) {
                    Some(at) => wake_at(at),
                    None => hand_out.undo(&mut self.flights, task),
                }
            }
        }
        if let Some(by) = self.drained_by {
            wake_at(by);
        }
        due
    }

    /// One timer of Temporal's stands for the earliest of ours.
    fn set_alarm(&mut self, due: Option<Timestamp>) {
        if self.alarm.as_ref().map(|alarm| alarm.at) == due {
            return;
        }
        if let Some(alarm) = self.alarm.take() {
            alarm.stop.cancel_with_reason("something else is due");
        }
        self.alarm = due.map(|at| {
            let stop = WorkflowCancellationToken::new();
            let left = Duration::from_millis(at.millis_since(self.now()).max(1));
            let options = TimerOptions::builder(left).cancellation_token(stop.clone()).build();
            Alarm { at, stop, future: Box::pin(self.context.timer(options)) }
        });
    }

    async fn wait(&mut self) -> News {
        if self.turn_due {
            return News::Rung;
        }
        let heard = self.heard;
        let token =
            if self.cancelled { WorkflowCancellationToken::new() } else { self.context.cancellation_token() };
        let options = WaitConditionOptions::builder().cancellation_token(token).build();
        let mut rung = Box::pin(
            self.context.wait_condition_with_options(move |interpreter| interpreter.rings != heard, options),
        );
        let (flights, alarm) = (&mut self.flights, &mut self.alarm);
        let context = self.context;
        poll_fn(move |waker| {
            let landed = flights.poll(waker);
            if !landed.is_empty() {
                return Poll::Ready(News::Landed(landed));
            }
            match rung.as_mut().poll(waker) {
                Poll::Ready(Ok(())) => return Poll::Ready(News::Rung),
                Poll::Ready(Err(_)) => {
                    let reason = context.cancellation_token().reason().unwrap_or_default();
                    return Poll::Ready(News::Cancelled(reason));
                }
                Poll::Pending => {}
            }
            match alarm {
                Some(alarm) => alarm.future.as_mut().poll(waker).map(|_| News::Due),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Whether the history has become too long and what is in flight is back, or was waited for long enough.
    fn is_time_to_hand_over(&mut self) -> bool {
        let too_long = self.context.continue_as_new_suggested()
            || self.input.chosen.longest_history.is_some_and(|most| self.context.history_length() >= most);
        if !too_long || self.turn_due {
            return false;
        }
        let now = self.now();
        let by = *self.drained_by.get_or_insert_with(|| now.plus_millis(DRAIN_MS));
        self.flights.is_empty() || (by <= now && !self.flights.has_local())
    }

    fn hand_over(mut self) -> WorkflowResult<Ended> {
        let whole = self.context.state(|interpreter| {
            interpreter
                .run
                .as_ref()
                .map(|run| Whole { outline: Outline::of(run.plan()), state: run.state().clone() })
        });
        self.input.whole = whole;
        match self.context.continue_as_new(self.input, ContinueAsNewOptions::default())? {}
    }

    fn finish(&self, status: RunStatus) -> WorkflowResult<Ended> {
        let ended = Ended { status, last_event_seq: self.run(|run| run.state().watermark()) };
        match status {
            RunStatus::Failed => Err(failed("the run has failed; its log tells why")),
            RunStatus::Cancelled => Err(WorkflowTermination::cancelled_with_details(ended)),
            _ => Ok(ended),
        }
    }
}

fn failed(why: &str) -> WorkflowTermination {
    ApplicationFailure::builder(why.to_owned())
        .type_name("RunFailed".to_owned())
        .non_retryable(true)
        .build()
        .into()
}
