//! What a run's decisions depend on: a fold over its log. No outputs, only statuses and places in the log (CORE-18),
//! so that any engine can carry it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Code;
use crate::event::run::{EffectiveLimits, EffectivePolicies, FrozenCapabilities, StepCounts};
use crate::event::step::SkipReason;
use crate::id::{RunId, SignalId};
use crate::machine::{RunStatus, StepStatus};
use crate::time::Timestamp;

/// The state of a run. Made by `evolve` alone; it can be stored, carried and restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The highest place in the log that was folded.
    pub(super) watermark: u64,
    /// Everything up to this place was folded.
    pub(super) floor: u64,
    /// Places above the floor that were folded: an engine may fold siblings in another order.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) above: BTreeSet<u64>,
    /// How many decision events were folded.
    pub(super) decisions: u64,
    pub(super) status: Option<RunStatus>,
    pub(super) run_id: Option<RunId>,
    pub(super) settings: Settings,
    pub(super) steps: Vec<Cell>,
    pub(super) pause: Pause,
    pub(super) clock: RunClock,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<Ending>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) cancellation: Cancellation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compensating: Option<Compensating>,
    /// Whether any compensation has started: from then on nothing stops the end of the run.
    pub(super) compensation_begun: bool,
    /// Final failures so far.
    pub(super) failures: u32,
    /// A step whose handler asked for a review that nobody has acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) review: Option<u32>,
    /// Signals that were decided; none is decided twice (SIGNAL-6).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) signals: BTreeSet<SignalId>,
}

/// What RunQueued froze.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) limits: EffectiveLimits,
    pub(super) policies: EffectivePolicies,
    pub(super) capabilities: FrozenCapabilities,
    pub(super) triggered_by: Option<Arc<str>>,
    pub(super) plan_hash: Arc<str>,
    pub(super) decider_version: u32,
}

/// One step: its latest attempt, and what later decisions need of earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cell {
    #[serde(skip_serializing_if = "is_one")]
    pub(super) attempt: u32,
    #[serde(skip_serializing_if = "is_pending")]
    pub(super) status: StepStatus,
    /// The attempt may be run. Never taken back.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) released: bool,
    /// What follows from the attempt's end.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) disposition: Disposition,
    /// The place of the attempt's end in the log.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) end_seq: u64,
    /// The error code of a failed or cancelled attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Arc<str>>,
    /// Tries of this attempt that failed and were tried again.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) tries: u32,
    /// How often this attempt lost its worker.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) losses: u32,
    /// The engine's number of the last such try, which tells a duplicate event.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) engine_attempt: u32,
    /// Reviews that this attempt asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) reviews: u32,
    /// The place in the step's chain of agents.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) agent: u32,
    /// New attempts that the failure action `retry` has made.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) retries: u32,
    /// The token of the manual wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<Arc<str>>,
    /// The token of the latest completion by a person, over all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completed_token: Option<Arc<str>>,
    /// The latest attempt that a pause gave up.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) orphaned: u32,
    /// When the next try may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_before: Option<Timestamp>,
    /// The latest attempt that succeeded, which is what compensation undoes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) success: Option<Success>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) compensation: CompensationState,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) delay: Delay,
    /// How many delays have begun: a dependency that is done again makes the step wait again.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) delays: u32,
    /// Taken over from another run.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) reused: bool,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            attempt: 1,
            status: StepStatus::Pending,
            released: false,
            disposition: Disposition::Settled,
            end_seq: 0,
            code: None,
            tries: 0,
            losses: 0,
            engine_attempt: 0,
            reviews: 0,
            agent: 0,
            retries: 0,
            token: None,
            completed_token: None,
            orphaned: 0,
            not_before: None,
            success: None,
            compensation: CompensationState::None,
            delay: Delay::None,
            delays: 0,
            reused: false,
        }
    }
}

impl Cell {
    /// Whether a person must complete the attempt.
    pub(super) fn is_waiting(&self) -> bool {
        self.status == StepStatus::Running && self.token.is_some()
    }

    /// Released, not ended, and not waiting for a person.
    pub(super) fn is_in_flight(&self) -> bool {
        self.released && !self.status.is_terminal() && self.token.is_none()
    }

    /// Whether the attempt ended without doing what it should.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.status, StepStatus::Failed | StepStatus::Cancelled)
    }
}

/// What follows from an attempt's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Disposition {
    /// Nothing: it ended as it should, was skipped, or was cancelled with the run. Also: not ended.
    #[default]
    Settled,
    /// Skipped because a step it needs failed: the same goes for what needs this one (GRAPH-7).
    DependencyFailed,
    /// Skipped by its failure action.
    SkippedByPolicy,
    /// A new attempt is due.
    Retry,
    /// A new attempt on the next agent is due.
    Reassign,
    /// It is to be skipped.
    Skip,
    /// Its fallback stands in and has not ended.
    AwaitFallback,
    /// Its fallback succeeded.
    Resolved,
    /// A person must retry or skip it.
    Held,
    /// It stays failed and the run goes on.
    GivenUp,
    /// It stays failed and the run is ending.
    Aborted,
    /// Draining stopped waiting for it; a new attempt follows on RESUME.
    Orphaned,
}

impl Disposition {
    pub(super) fn after_skip(reason: &SkipReason) -> Self {
        match reason {
            SkipReason::DependencyFailed => Self::DependencyFailed,
            SkipReason::FailurePolicy => Self::SkippedByPolicy,
            _ => Self::Settled,
        }
    }
}

/// What a step means to those that depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not ended.
    #[default]
    Open,
    /// Ended, and something will still be done about it: satisfies no dependency (GRAPH-4).
    Unresolved,
    /// Satisfies every dependency on it (GRAPH-2).
    Satisfied,
    /// Ended for good without success: satisfies optional dependencies only (GRAPH-3).
    Lost,
}

impl Cell {
    pub(super) fn standing(&self) -> Standing {
        match (self.status, self.disposition) {
            (StepStatus::Pending | StepStatus::Running, _) => Standing::Open,
            (StepStatus::Success, _) => Standing::Satisfied,
            (StepStatus::Skipped, Disposition::DependencyFailed) => Standing::Lost,
            (StepStatus::Skipped, _) => Standing::Satisfied,
            (StepStatus::Failed | StepStatus::Cancelled, disposition) => match disposition {
                Disposition::Resolved => Standing::Satisfied,
                Disposition::GivenUp | Disposition::Aborted | Disposition::Settled => Standing::Lost,
                _ => Standing::Unresolved,
            },
        }
    }
}

/// A successful attempt and the place of its StepCompleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Success {
    pub(super) attempt: u32,
    pub(super) seq: u64,
}

/// Whether a step was undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CompensationState {
    #[default]
    None,
    Done,
    Failed,
}

/// The wait of a step with a `schedule`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Delay {
    /// Not begun.
    #[default]
    None,
    /// Until then.
    Due(Timestamp),
    /// Over.
    Over,
}

/// The latest pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pause {
    /// How often the run was paused.
    pub(super) number: u32,
    pub(super) since: Timestamp,
    /// Nothing is in flight any more, or the pause stopped waiting for it.
    pub(super) drained: bool,
    /// The drain timer has fired.
    pub(super) timed_out: bool,
}

/// The time a run has used, pauses not counted (RUN-31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunClock {
    pub(super) used_ms: u64,
    pub(super) running_since: Option<Timestamp>,
}

/// Why a run is coming to its end although work is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ending {
    /// A step failed and the run cannot go on.
    Failing(Failing),
    /// The run took too long.
    TimedOut,
    /// A person cancelled it.
    Cancelling(Cancelling),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failing {
    /// STEP_FAILED or MAX_FAILURES.
    #[serde(with = "code_text")]
    pub(super) code: Code,
    pub(super) step: u32,
    pub(super) attempt: u32,
    pub(super) seq: u64,
    pub(super) step_code: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancelling {
    pub(super) signal: SignalId,
    pub(super) actor: String,
    pub(super) reason: Option<String>,
}

/// The one grace period of a run (CANCEL-5): from when its attempts in flight are asked to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancellation {
    pub(super) since: Option<Timestamp>,
    pub(super) grace_over: bool,
}

/// The compensation that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compensating {
    pub(super) step: u32,
    pub(super) attempt: u32,
    /// Tries that failed.
    pub(super) tries: u32,
    /// When the next try may begin.
    pub(super) not_before: Option<Timestamp>,
}

impl State {
    /// The highest place in the log that was folded.
    #[must_use]
    pub fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Everything up to this place was folded. A driver that meets a conflict reads from here: above it there may be
    /// events that it does not know, although its watermark is higher.
    #[must_use]
    pub fn folded_through(&self) -> u64 {
        self.floor
    }

    /// Remembers that the event at `place` was folded; `false` when it was before.
    pub(super) fn note_place(&mut self, place: u64) -> bool {
        /// A store that leaves gaps must not make the state grow for ever.
        const MOST_ABOVE: usize = 1024;
        self.watermark = self.watermark.max(place);
        if place == self.floor + 1 && self.above.is_empty() {
            self.floor = place;
            return true;
        }
        if place <= self.floor || !self.above.insert(place) {
            return false;
        }
        while self.above.len() > MOST_ABOVE {
            self.floor = self.above.pop_first().unwrap_or(self.floor);
        }
        while self.above.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
        true
    }

    /// How many decision events were folded: the `expectedDecision` of the next append of decisions.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Where the run stands; `None` before RunQueued.
    #[must_use]
    pub fn status(&self) -> Option<RunStatus> {
        self.status
    }

    /// How many steps stand where.
    #[must_use]
    pub fn counts(&self) -> StepCounts {
        let mut counts = StepCounts::default();
        for cell in &self.steps {
            counts.total += 1;
            let count = match cell.status {
                StepStatus::Pending => &mut counts.pending,
                StepStatus::Running => &mut counts.running,
                StepStatus::Success => &mut counts.succeeded,
                StepStatus::Failed => &mut counts.failed,
                StepStatus::Skipped => &mut counts.skipped,
                StepStatus::Cancelled => &mut counts.cancelled,
            };
            *count += 1;
        }
        counts
    }

    /// Whether the run has started and not ended.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.status, Some(RunStatus::Running | RunStatus::Paused))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_pending(status: &StepStatus) -> bool {
    *status == StepStatus::Pending
}

mod code_text {
    use super::Code;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(code.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
        let text = String::deserialize(deserializer)?;
        Code::parse(&text).ok_or_else(|| D::Error::custom(format!("unknown code {text}")))
    }
}
