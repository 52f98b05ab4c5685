//! Timers: how time comes into a run. An engine starts them, and when one is due TimerFired is appended; only
//! then does a decision see it (TIME-3).

use std::fmt;

use super::Run;
use super::state::Delay;
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
        let pause = self.state.pause.number;
        let fixed = [TimerId::RunTimeout(pause + 1), TimerId::CancelGrace, TimerId::Drain(pause)];
        let delays = self
            .index
            .delayed
            .iter()
            .map(|step| TimerId::StepDelay(self.plan.step(*step).id.clone(), self.cell(*step).delays));
        let all = fixed.into_iter().chain(delays);
        all.filter_map(|timer| self.due_at(&timer).map(|due| (timer, due))).collect()
    }

    /// When a timer is due, if it runs now.
    fn due_at(&self, timer: &TimerId) -> Option<Timestamp> {
        let state = &self.state;
        let limits = &state.settings.limits;
        if !state.is_live() {
            return None;
        }
        match timer {
            TimerId::RunTimeout(stretch) => {
                let since = state.clock.running_since?;
                let left = limits.run_timeout_ms?.saturating_sub(state.clock.used_ms);
                // Once attempts in flight are asked to stop, the grace period bounds the run.
                let settled = state.cancellation.since.is_some() || state.compensation_begun;
                let runs = *stretch == state.pause.number + 1 && !settled;
                runs.then(|| since.plus_millis(left))
            }
            TimerId::CancelGrace => {
                let since = state.cancellation.since?;
                let runs = !state.cancellation.grace_over && !self.index.in_flight.is_empty();
                runs.then(|| since.plus_millis(limits.cancel_grace_ms))
            }
            TimerId::Drain(pause) => {
                let runs = state.status == Some(RunStatus::Paused)
                    && state.ending.is_none()
                    && *pause == state.pause.number
                    && !state.pause.drained
                    && !state.pause.timed_out;
                runs.then(|| state.pause.since.plus_millis(limits.drain_timeout_ms))
            }
            TimerId::StepDelay(step, wait) => {
                let cell = self.cell(self.plan.find(step.as_str())?);
                match cell.delay {
                    Delay::Due(due) if state.ending.is_none() && cell.delays == *wait => Some(due),
                    _ => None,
                }
            }
        }
    }

    /// A timer that does not run any more, or is not due yet, changes nothing (TIME-6).
    pub(super) fn timer_due(&self, timer: &TimerId, now: Timestamp) -> Vec<Draft> {
        let due = self.due_at(timer).filter(|due| *due <= now);
        due.map(|due_at| Draft::run(TimerFired { timer_id: timer.to_string(), due_at })).into_iter().collect()
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
