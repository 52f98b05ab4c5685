//! One case: what it proves, what it needs, and what it does.

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::harness::Need;
use crate::verdict::Outcome;
use crate::world::World;

/// A group of cases that an implementation passes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Start, order, identity, ends, tenants, events. No case is skipped here.
    Core,
    /// Pause, resume, cancel, retry-step, skip-step.
    Control,
    /// Approval and completion by people.
    Manual,
    /// Compensation.
    Saga,
    /// Priorities, limits, delays.
    Schedule,
    /// Mapping, schemas, sizes, artifacts.
    Data,
    /// What the store promises, seen through runs.
    Store,
    /// Kills and restarts.
    Durability,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 8] = [
        Self::Core,
        Self::Control,
        Self::Manual,
        Self::Saga,
        Self::Schedule,
        Self::Data,
        Self::Store,
        Self::Durability,
    ];

    /// Its name, as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Control => "control",
            Self::Manual => "manual",
            Self::Saga => "saga",
            Self::Schedule => "schedule",
            Self::Data => "data",
            Self::Store => "store",
            Self::Durability => "durability",
        }
    }
}

impl Profile {
    /// What it is about, for people.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Core => "start, order, identity, ends, tenants, events; nothing may be skipped",
            Self::Control => "pause, resume, cancel, retry and skip of steps, what follows failures",
            Self::Manual => "approval, completion and review by people",
            Self::Saga => "undoing what succeeded",
            Self::Schedule => "priorities, limits, delays, timeouts",
            Self::Data => "what steps see, are given and leave",
            Self::Store => "what the store promises",
            Self::Durability => "kills, restarts, other processes, slow writes",
        }
    }
}

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// `topic.what_it_says`, unique.
    pub name: &'static str,
    /// The group it belongs to.
    pub profile: Profile,
    /// The requirements it proves: it fails when one of them is broken.
    pub requirements: &'static [&'static str],
    /// What it needs beyond the core.
    pub needs: &'static [Need],
    /// What it does.
    pub run: for<'a> fn(&'a World) -> BoxFuture<'a, Outcome>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The table of a file's cases: `cases!("topic", Profile; function => ["ID-1", "ID-2"], …)`. A case that needs something
/// beyond the core says so: `function => ["ID-1"] needs [Need::Can(Fault::Kill)]`.
macro_rules! cases {
    ($topic:literal, $profile:ident; $($function:ident => [$($id:literal),+ $(,)?] $(needs [$($need:expr),+])?,)+) => {
        /// The cases of this file.
        pub(super) const CASES: &[$crate::Case] = &[$(
            $crate::Case {
                name: concat!($topic, ".", stringify!($function)),
                profile: $crate::Profile::$profile,
                requirements: &[$($id),+],
                needs: &[$($($need),+)?],
                run: |world| Box::pin($function(world)),
            },
        )+];
    };
}

pub(crate) use cases;
