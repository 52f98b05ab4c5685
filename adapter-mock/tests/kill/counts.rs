//! What a campaign met. One that met too little has proved nothing.

use std::collections::BTreeMap;

use engine_core::event::{Body, Event};

use super::diary::{CallName, Moment};

/// What must have been met.
const WANTED: [&str; 13] = [
    "calls cut off",
    "undoings cut off",
    "lost workers",
    "careful steps lost",
    "retries",
    "failures",
    "pauses",
    "drained",
    "resumed",
    "waits",
    "completed by a person",
    "undone",
    "timers",
];

/// How often what was met.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    met: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn add(&mut self, what: &'static str, count: u64) {
        *self.met.entry(what).or_default() += count;
    }

    /// Counts what a log tells.
    pub(crate) fn log(&mut self, events: &[Event]) {
        self.add("runs", 1);
        self.add("events", events.len() as u64);
        for event in events {
            let what = match &event.body {
                Body::StepRetried(retried) if retried.worker_lost => "lost workers",
                Body::StepFailed(failed) if failed.error.code == "WORKER_LOST" => "careful steps lost",
                Body::StepRetried(_) => "retries",
                Body::StepFailed(_) => "failures",
                Body::RunPaused(_) => "pauses",
                Body::RunDrained(_) => "drained",
                Body::RunResumed(_) => "resumed",
                Body::StepWaiting(_) => "waits",
                Body::StepCompleted(completed) if completed.manual.is_some() => "completed by a person",
                Body::CompensationCompleted(_) => "undone",
                Body::TimerFired(_) => "timers",
                Body::SignalRejected(_) => "signals refused",
                _ => continue,
            };
            self.add(what, 1);
        }
    }

    /// Counts what a diary tells.
    pub(crate) fn diary(&mut self, lines: &[(Moment, CallName)]) {
        let mut inside: BTreeMap<&CallName, bool> = BTreeMap::new();
        for (moment, call) in lines {
            match moment {
                Moment::Enter => drop(inside.insert(call, true)),
                Moment::Leave => drop(inside.insert(call, false)),
                Moment::Late => {}
            }
        }
        self.add("calls", inside.len() as u64);
        for (call, _) in inside.into_iter().filter(|(_, inside)| *inside) {
            self.add(if call.undoes { "undoings cut off" } else { "calls cut off" }, 1);
        }
    }

    /// Everything that is wanted was met, by a campaign that is long enough to meet it.
    pub(crate) fn assert_met(&self) {
        let missing: Vec<&str> =
            WANTED.into_iter().filter(|what| self.met.get(what).is_none_or(|count| *count == 0)).collect();
        assert!(missing.is_empty(), "the campaign never met {missing:?}: {self}");
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let met: Vec<String> = self.met.iter().map(|(what, count)| format!("{count} {what}")).collect();
        formatter.write_str(&met.join(", "))
    }
}
