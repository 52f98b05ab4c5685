//! What a turn decides: about what was told, what follows from the state, and what the run wants done.

use engine_core::decider::{Actions, AttemptRef, Dispatched, Report, StepReport, Stimulus};
use engine_core::event::Body;
use engine_core::event::run::RunStarted;
use engine_core::event::step::StepOutput;
use engine_core::machine::RunStatus;
use engine_core::{Error, Result};
use worker::Prepared;

use super::{Driver, Next, record};
use crate::engine::ENGINE;
use crate::flights::Input;
use crate::options::Handover;
use crate::turn::Turn;

/// How long until a step is prepared again when what it needs could not be read.
const AGAIN_MS: u64 = 1000;

impl Driver<'_> {
    pub(super) async fn turn(&mut self) -> Result<Next> {
        self.catch_up().await?;
        let mut turn = Turn::new(&self.history, &self.emitted_by, self.now());
        for input in std::mem::take(&mut self.told) {
            match input {
                Input::Look => self.look_for_signals = true,
                Input::Crash => return Ok(Next::Crash),
                Input::Grown(_) => {}
                Input::Delivered(attempt, done) => {
                    self.flights.landed(&attempt);
                    if !done {
                        self.not_again_before.insert(attempt, turn.now.plus_millis(AGAIN_MS));
                    }
                }
                Input::Attempt(attempt, report) => self.hear(&mut turn, attempt, *report),
                Input::Undone(attempt, outcome) => {
                    self.flights.undone();
                    let stimulus = Stimulus::Compensation { step: attempt.step, outcome };
                    self.settle_with(&mut turn, stimulus);
                }
            }
        }
        // DISPATCH-7: whoever signals may be another process, and its word still on the way.
        self.look_for_signals |= self.history.code().has_local_steps();
        if std::mem::take(&mut self.look_for_signals) {
            self.signals(&mut turn).await?;
        }
        let actions = loop {
            self.settle(&mut turn).await?;
            let actions = self.history.run().actions();
            if !self.act(&mut turn, &actions).await {
                break actions;
            }
        };
        self.commit(turn, &actions).await
    }

    /// Folds what workers have written, where they write.
    async fn catch_up(&mut self) -> Result<()> {
        let folded = self.history.run().state().folded_through();
        let behind = self.told.iter().any(|input| match input {
            Input::Grown(place) => *place > folded,
            Input::Delivered(..) => true,
            _ => false,
        });
        if behind {
            let (tenant_id, run_id) = (self.history.tenant_id().clone(), self.history.run_id().clone());
            self.history = record::load(self.shared, &tenant_id, &run_id, self.fence).await?;
        }
        Ok(())
    }

    /// An attempt has something to tell.
    fn hear(&mut self, turn: &mut Turn, attempt: AttemptRef, report: Report) {
        if !matches!(report, Report::ReviewRequested { .. }) {
            self.flights.landed(&attempt);
            self.between_tries.insert(attempt.clone());
        }
        let report = StepReport::new(attempt.step, attempt.attempt, report);
        self.settle_with(turn, Stimulus::Step(Box::new(report)));
    }

    /// Decides about something that may have come too late.
    fn settle_with(&mut self, turn: &mut Turn, stimulus: Stimulus) {
        if let Err(error) = turn.decide(&mut self.history, stimulus) {
            tracing::debug!(run_id = %self.history.run_id(), %error, "what was told came too late");
        }
    }

    async fn signals(&mut self, turn: &mut Turn) -> Result<()> {
        for signal in self.shared.store().undecided(self.history.run_id()).await? {
            turn.signals.push(signal.signal_id.clone());
            turn.decide(&mut self.history, Stimulus::Signal(Box::new(signal)))?;
        }
        Ok(())
    }

    /// Everything that follows from the state alone, and the start of the run.
    async fn settle(&mut self, turn: &mut Turn) -> Result<()> {
        loop {
            let mut drafts = self.history.run().settle();
            if let Some(started) = self.begin(turn).filter(|_| drafts.is_empty()) {
                drafts = self.history.run().decide(Stimulus::Started(Box::new(started)))?;
            }
            if drafts.is_empty() {
                return Ok(());
            }
            for draft in &mut drafts {
                if let Body::RunCompleted(completed) = &mut draft.body {
                    completed.output = self.output().await?;
                }
            }
            turn.fold(&mut self.history, drafts);
        }
    }

    /// RUN-23. A run whose result cannot be worked out has completed all the same.
    async fn output(&self) -> Result<Option<StepOutput>> {
        match self.shared.worker.run_output(&self.history).await {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                tracing::warn!(run_id = %self.history.run_id(), %error, "the run's output cannot be worked out");
                Ok(None)
            }
        }
    }

    /// The start of the run, when it is time.
    fn begin(&self, turn: &mut Turn) -> Option<RunStarted> {
        if self.history.run().state().status() != Some(RunStatus::Approved) {
            return None;
        }
        let queued = self.history.queued()?;
        if let Some(at) = queued.not_before.filter(|at| *at > turn.now) {
            turn.wake_at(at);
            return None;
        }
        Some(RunStarted {
            engine_run_ref: self.history.run_id().to_string(),
            engine_type: ENGINE.to_owned(),
            interpreter_version: None,
            plan_ref: queued.plan_ref.clone(),
            context: queued.context.clone(),
            started_at: turn.now,
        })
    }

    /// Prepares what the run wants done; says whether anything follows from that.
    async fn act(&mut self, turn: &mut Turn, actions: &Actions) -> bool {
        let mut follows = false;
        // When a timer is due follows from times in the log; those of events that are not stored yet are a guess. What
        // is due nevertheless is due in the next turn.
        let stored = turn.drafts.is_empty();
        for timer in &actions.timers {
            if !stored || timer.due_at > turn.now {
                turn.wake_at(timer.due_at);
                continue;
            }
            let stimulus = Stimulus::TimerDue { timer: timer.timer.clone(), now: turn.now };
            follows |= turn.decide(&mut self.history, stimulus).unwrap_or(false);
        }
        for attempt in &actions.cancel {
            if !self.flights.cancel(attempt) {
                let report = StepReport::new(attempt.step.clone(), attempt.attempt, Report::Cancelled);
                follows |= turn.decide(&mut self.history, Stimulus::Step(Box::new(report))).unwrap_or(false);
            }
        }
        if self.stopping {
            return follows;
        }
        for task in &actions.dispatch {
            if self.flights.has(&task.attempt) || turn.prepared.contains(&task.attempt) {
                continue;
            }
            follows |= self.dispatch(turn, task).await;
            if follows {
                // What was released may have changed.
                return true;
            }
        }
        if let Some(task) = &actions.compensate
            && turn.undo.is_none()
            && !self.flights.undoes(&task.attempt, task.try_number)
        {
            if let Some(at) = task.not_before.filter(|at| *at > turn.now) {
                turn.wake_at(at);
                return follows;
            }
            match self.shared.worker.prepare_compensation(&self.history, task).await {
                Ok(Ok(ready)) => turn.undo = Some((task.clone(), ready)),
                Ok(Err(error)) => {
                    let stimulus =
                        Stimulus::Compensation { step: task.attempt.step.clone(), outcome: Err(error) };
                    follows |= turn.decide(&mut self.history, stimulus).unwrap_or(false);
                }
                Err(error) => self.later(turn, &error),
            }
        }
        follows
    }

    /// Prepares one attempt; says whether anything follows from that.
    async fn dispatch(&mut self, turn: &mut Turn, task: &Dispatched) -> bool {
        if let Some(at) = task.not_before.filter(|at| *at > turn.now) {
            turn.wake_at(at);
            return false;
        }
        if let Handover::Claimed { .. } = self.shared.options.handover {
            let held = self.not_again_before.get(&task.attempt).copied();
            match held.filter(|at| *at > turn.now) {
                Some(at) => turn.wake_at(at),
                None => {
                    turn.prepared.insert(task.attempt.clone());
                    turn.hand_out.push(task.attempt.clone());
                }
            }
            return false;
        }
        let told = |report| {
            let report = StepReport::new(task.attempt.step.clone(), task.attempt.attempt, report);
            Stimulus::Step(Box::new(report))
        };
        if task.started && !self.between_tries.contains(&task.attempt) {
            // WORKER-9: it was started by a process that is gone.
            self.between_tries.insert(task.attempt.clone());
            let message = "the process that ran it is gone".to_owned();
            return turn.decide(&mut self.history, told(Report::WorkerLost { message })).unwrap_or(false);
        }
        match self.shared.worker.prepare(&self.history, task).await {
            Ok(Prepared::Ready(ready)) => {
                if !task.started {
                    let started = Report::Started(ready.started().clone());
                    if let Err(error) = turn.decide(&mut self.history, told(started)) {
                        tracing::error!(run_id = %self.history.run_id(), %error, "a released attempt cannot start");
                        return false;
                    }
                }
                turn.prepared.insert(task.attempt.clone());
                turn.ready.push((task.attempt.clone(), task.try_number, ready));
                false
            }
            Ok(Prepared::Decided(report)) => turn.decide(&mut self.history, told(report)).unwrap_or(false),
            Err(error) => {
                self.later(turn, &error);
                false
            }
        }
    }

    /// Something could not be read; it is tried again soon.
    fn later(&self, turn: &mut Turn, error: &Error) {
        tracing::warn!(run_id = %self.history.run_id(), %error, "a step cannot be prepared for now");
        turn.wake_at(turn.now.plus_millis(AGAIN_MS));
    }
}
