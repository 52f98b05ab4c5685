//! Variants: the same cases while something goes wrong all the time. What a case says must hold all the same.
//!
//! - this file: which there are; [`excluded`]: which cases a variant leaves out, and why.

pub mod excluded;

use std::fmt;

use serde::{Deserialize, Serialize};

/// What goes wrong all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Every attempt is handed to a worker several times: while the first is at work, and again when it has ended.
    DuplicateDelivery,
    /// Everything that drives runs and runs steps is killed again and again, at any moment, and started again.
    WorkerRestart,
    /// Every call of the store takes a while, and some appends are answered too late, stored or not.
    SlowStore,
    /// After every event, whoever drives forgets what it knows and folds the log again; it must know the same then.
    Rebuild,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 4] = [Self::DuplicateDelivery, Self::WorkerRestart, Self::SlowStore, Self::Rebuild];

    /// Its name, as in reports and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DuplicateDelivery => "duplicate-delivery",
            Self::WorkerRestart => "worker-restart",
            Self::SlowStore => "slow-store",
            Self::Rebuild => "rebuild",
        }
    }

    /// What it does, for people.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::DuplicateDelivery => "every attempt is handed out several times, also when it has ended",
            Self::WorkerRestart => "whatever drives and works is killed at any moment and started again",
            Self::SlowStore => {
                "every call of the store takes a while, and some appends are answered too late"
            }
            Self::Rebuild => "after every event the state is rebuilt from the log, and must be the same",
        }
    }

    /// The variant with a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Chance that falls the same way each time a case runs.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Of a case, and of what is chosen by them.
    pub(crate) fn of(case: &str, what: &str) -> Self {
        // FNV-1a: the same on every machine.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(case.bytes().chain([b'|']).chain(what.bytes()).fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// A number from 0 on, below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_found_by_its_name() {
        for variant in Variant::ALL {
            assert_eq!(Variant::find(variant.name()), Some(variant));
            assert_eq!(serde_json::to_value(variant).unwrap(), variant.name());
        }
        assert_eq!(Variant::find("slow"), None);
    }

    #[test]
    fn chance_falls_the_same_way_each_time() {
        let thrown = |case: &str| {
            let mut dice = Dice::of(case, "kills");
            (0..20).map(|_| dice.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(thrown("a.b"), thrown("a.b"));
        assert_ne!(thrown("a.b"), thrown("a.c"));
        assert!(thrown("a.b").iter().all(|number| *number < 6));
    }
}
