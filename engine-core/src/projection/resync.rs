//! Getting back in step: a reader that was delivered events with a gap does not guess. It marks the run stale, asks
//! the store, and goes on once the answer has taken it past the gap.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Projection, ProjectionRecord};
use crate::error::Result;
use crate::event::Event;
use crate::event::audit::Severity;
use crate::id::StepId;
use crate::plan::CompiledPlan;
use crate::time::Timestamp;

/// The most that a projection may be behind before somebody is told.
pub const LAG_LIMIT_MS: u64 = 5000;

/// Whether a reader has seen everything up to its watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It has.
    Fresh,
    /// Events between its watermark and `seen` are missing.
    Stale {
        /// The place of the event that showed the gap.
        seen: u64,
    },
}

/// What a reader asks the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum ResyncRequest {
    /// Every event from the first.
    Full,
    /// The latest stored snapshot up to `snapshot_seq`, and every event after that snapshot. A store without
    /// snapshots answers as for `Full`.
    FromSnapshot {
        /// The place up to which the reader knows the run.
        snapshot_seq: u64,
    },
}

/// What the store answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResyncReply {
    /// Where to continue from; `None` from the beginning.
    pub snapshot: Option<ProjectionRecord>,
    /// Every event after it that the store has, in order.
    pub events: Vec<Event>,
}

/// What became of delivered events.
#[derive(Clone, Debug, PartialEq)]
pub enum Advance {
    /// They were applied; alerts for the machinery, if any.
    Applied(Vec<MachineryAlert>),
    /// There is a gap: nothing after it was applied, and this must be asked of the store.
    Gap(ResyncRequest, MachineryAlert),
}

/// What became of a resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resync {
    /// The watermark is past the gap; incremental projection goes on.
    Done,
    /// It is not: ask again later.
    StillStale,
}

/// Something about the machinery, for metrics and the alert sink. Never written to a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineryAlert {
    /// What it is about.
    pub code: &'static str,
    /// How urgent it is.
    pub severity: Severity,
    /// What happened, for a person.
    pub message: String,
}

impl MachineryAlert {
    pub(super) fn causal_violation(step: &StepId) -> Self {
        Self {
            code: "PROJECTOR_CAUSAL_VIOLATION",
            severity: Severity::P3,
            message: format!("{step} started before what it depends on was seen to end"),
        }
    }

    fn gap(expected: u64, seen: u64) -> Self {
        Self {
            code: "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED",
            severity: Severity::P2,
            message: format!("event {seen} was delivered where {expected} was next"),
        }
    }

    /// Tells when a projection lags: its newest event was stored at `newest` and it is `now`.
    #[must_use]
    pub fn lag(newest: Timestamp, now: Timestamp) -> Option<Self> {
        let lag = now.millis_since(newest);
        (lag > LAG_LIMIT_MS).then(|| Self {
            code: "PROJECTOR_LAG_HIGH",
            severity: Severity::P2,
            message: format!("the projection is {lag} ms behind"),
        })
    }
}

/// An incremental reader of one run's log.
#[derive(Clone, Debug)]
pub struct Projector {
    plan: Arc<CompiledPlan>,
    projection: Projection,
    freshness: Freshness,
}

impl Projector {
    /// A reader that has seen nothing.
    #[must_use]
    pub fn new(plan: Arc<CompiledPlan>) -> Self {
        Self { projection: Projection::new(plan.clone()), plan, freshness: Freshness::Fresh }
    }

    /// What it has seen.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// Whether it has seen everything up to its watermark.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.freshness
    }

    /// Applies delivered events in order. What it has seen before changes nothing. At a gap it stops, and until a
    /// resync has taken it past the gap it applies nothing (SNAP-10).
    pub fn advance<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) -> Advance {
        let mut alerts = Vec::new();
        for event in events {
            let expected = self.projection.last_event_seq() + 1;
            if event.run_seq < expected {
                continue;
            }
            if event.run_seq > expected || self.freshness != Freshness::Fresh {
                let seen = match self.freshness {
                    Freshness::Stale { seen } => seen.max(event.run_seq),
                    Freshness::Fresh => event.run_seq,
                };
                self.freshness = Freshness::Stale { seen };
                let request = ResyncRequest::FromSnapshot { snapshot_seq: expected - 1 };
                return Advance::Gap(request, MachineryAlert::gap(expected, seen));
            }
            alerts.extend(self.projection.apply(event));
        }
        Advance::Applied(alerts)
    }

    /// Applies the store's answer. Gaps in it are as they are: the store is the authority. Only an answer that
    /// takes the watermark on, past the gap, ends the staleness (SNAP-13).
    ///
    /// # Errors
    /// `PLAN_HASH_MISMATCH` when the stored snapshot is of another plan; nothing has changed then.
    pub fn resync(&mut self, reply: ResyncReply) -> Result<Resync> {
        let before = self.projection.last_event_seq();
        let from_start =
            reply.snapshot.is_none() && reply.events.first().is_none_or(|first| first.run_seq <= before);
        let mut fresh = match reply.snapshot {
            Some(record) if record.last_event_seq() >= before => {
                Projection::restore(self.plan.clone(), record)?
            }
            // An older snapshot than what is here already: only the events matter.
            Some(_) => self.projection.clone(),
            None if from_start => Projection::new(self.plan.clone()),
            None => self.projection.clone(),
        };
        for event in &reply.events {
            if event.run_seq > fresh.last_event_seq() {
                fresh.apply(event);
            }
        }
        let after = fresh.last_event_seq();
        if after < before {
            // The store knows less than was seen: keep what is here.
            return Ok(Resync::StillStale);
        }
        self.projection = fresh;
        let past_the_gap = match self.freshness {
            Freshness::Fresh => true,
            Freshness::Stale { seen } => after >= seen,
        };
        if after > before && past_the_gap {
            self.freshness = Freshness::Fresh;
            Ok(Resync::Done)
        } else {
            Ok(Resync::StillStale)
        }
    }
}
