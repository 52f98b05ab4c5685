//! Timers: how time comes into a run. An engine starts them, and when one is due TimerFired is appended; only
//! then does a decision see it (TIME-3).

use std::fmt;

use super::Run;
use super::state::{Delay, Ending};
use crate::error::{Code, Error, Result};
use crate::event::Draft;
use crate::event::run::TimerFired;
use crate::id::StepId;
use crate::machine::RunStatus;
use crate::time::Timestamp;

/// What a timer is for. Its text form stands in TimerFired.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerId {
    /// The `schedule` of a step, its n-th wait.
    StepDelay(StepId, u32),
    /// The run's timeout, for its n-th stretch of running; each pause ends a stretch.
    RunTimeout(u32),
    /// How long the n-th pause waits for what is in flight.
    Drain(u32),
    /// How long attempts have that were asked to stop.
    CancelGrace,
}

impl fmt::Display for TimerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepDelay(step, wait) => write!(formatter, "delay.{wait}.{step}"),
            Self::RunTimeout(stretch) => write!(formatter, "run-timeout.{stretch}"),
            Self::Drain(pause) => write!(formatter, "drain.{pause}"),
            Self::CancelGrace => formatter.write_str("cancel-grace"),
        }
    }
}

impl std::str::FromStr for TimerId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::new(Code::InvalidId, format!("{text:?} is not a timer id"));
        let number = |text: &str| text.parse().map_err(|_| refuse());
        match text.split_once('.') {
            Some(("delay", rest)) => {
                let (wait, step) = rest.split_once('.').ok_or_else(refuse)?;
                Ok(Self::StepDelay(step.parse()?, number(wait)?))
            }
            Some(("run-timeout", rest)) => Ok(Self::RunTimeout(number(rest)?)),
            Some(("drain", rest)) => Ok(Self::Drain(number(rest)?)),
            None if text == "cancel-grace" => Ok(Self::CancelGrace),
            _ => Err(refuse()),
        }
    }
}

impl Run {
    /// The timers that run now, and when each is due.
    pub(super) fn timers(&self) -> Vec<(TimerId, Timestamp)> {
        let state = &self.state;
        let limits = &state.settings.limits;
        let mut timers = Vec::new();
        if !state.is_live() {
            return timers;
        }
        if let (Some(timeout), Some(since), Some(RunStatus::Running)) =
            (limits.run_timeout_ms, state.clock.running_since, state.status)
        {
            let settled = matches!(state.ending, Some(Ending::Cancelling(_) | Ending::TimedOut))
                || state.compensation_begun
                || state.cancellation.since.is_some();
            if !settled {
                let left = timeout.saturating_sub(state.clock.used_ms);
                timers.push((TimerId::RunTimeout(state.pause.number + 1), since.plus_millis(left)));
            }
        }
        if let Some(since) = state.cancellation.since
            && !state.cancellation.grace_over
            && !self.index.in_flight.is_empty()
        {
            timers.push((TimerId::CancelGrace, since.plus_millis(limits.cancel_grace_ms)));
        }
        if state.ending.is_some() {
            return timers;
        }
        if state.status == Some(RunStatus::Paused) && !state.pause.drained && !state.pause.timed_out {
            let due = state.pause.since.plus_millis(limits.drain_timeout_ms);
            timers.push((TimerId::Drain(state.pause.number), due));
        }
        for step in &self.index.delayed {
            let cell = self.cell(*step);
            if let Delay::Due(due) = cell.delay {
                timers.push((TimerId::StepDelay(self.plan.step(*step).id.clone(), cell.delays), due));
            }
        }
        timers
    }

    /// A timer that does not run any more, or is not due yet, changes nothing (TIME-6).
    pub(super) fn timer_due(&self, timer: &TimerId, now: Timestamp) -> Vec<Draft> {
        self.timers()
            .into_iter()
            .filter(|(running, due)| running == timer && *due <= now)
            .map(|(running, due)| Draft::run(TimerFired { timer_id: running.to_string(), due_at: due }))
            .collect()
    }

    pub(super) fn timer_fired(&mut self, timer: &TimerId, now: Timestamp) {
        match timer {
            TimerId::StepDelay(step, wait) => {
                if let Some(step) = self.plan.find(step.as_str())
                    && self.cell(step).delays == *wait
                    && matches!(self.cell(step).delay, Delay::Due(_))
                {
                    self.change(step, now, |cell| cell.delay = Delay::Over);
                }
            }
            TimerId::RunTimeout(stretch) => {
                let current =
                    self.state.status == Some(RunStatus::Running) && *stretch == self.state.pause.number + 1;
                if current {
                    self.time_out(now);
                }
            }
            TimerId::Drain(pause) => {
                if self.state.status == Some(RunStatus::Paused) && *pause == self.state.pause.number {
                    self.state.pause.timed_out = true;
                }
            }
            TimerId::CancelGrace => {
                if self.state.cancellation.since.is_some() {
                    self.state.cancellation.grace_over = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_ids_round_trip_also_for_awkward_step_ids() {
        let step = StepId::new("drain.3.a-b").unwrap();
        for timer in
            [TimerId::StepDelay(step, 12), TimerId::RunTimeout(1), TimerId::Drain(2), TimerId::CancelGrace]
        {
            assert_eq!(timer.to_string().parse::<TimerId>().unwrap(), timer);
        }
        for bad in ["", "delay", "delay.x.a", "drain.", "cancel-grace.1", "other.1"] {
            assert!(bad.parse::<TimerId>().is_err(), "{bad}");
        }
    }
}
