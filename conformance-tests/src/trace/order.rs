//! What must come before what: each step's own events in their order, the run's own events in theirs, and between them
//! only what the plan and the run demand. Siblings may interleave.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::canonical::{Moment, Trace};

/// The name of the chain of what is about no step.
pub const RUN: &str = "(run)";

/// A place in the order: the how-manieth event of a step, or of the run itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Place {
    /// The step, or [`RUN`].
    pub chain: String,
    /// From 0.
    pub index: usize,
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        format!("{}/{}", place.chain, place.index)
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (chain, index) = text.rsplit_once('/').ok_or_else(|| format!("{text:?} is no place"))?;
        let index = index.parse().map_err(|_| format!("{text:?} is no place"))?;
        Ok(Self { chain: chain.to_owned(), index })
    }
}

/// A partial order of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The events of each step, and of the run itself, one after another.
    pub chains: BTreeMap<String, Vec<String>>,
    /// What waited for what across chains: the later place, and every place before it.
    pub after: BTreeMap<Place, BTreeSet<Place>>,
}

/// Where two traces part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The place of the first event that differs.
    pub place: Place,
    /// What is otherwise.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", String::from(self.place.clone()), self.what)
    }
}

impl Order {
    /// The order that a trace linearises.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut order = Self::default();
        for (place, moment) in places(trace) {
            let before = order.awaited(trace, moment);
            order.chains.entry(place.chain.clone()).or_default().push(moment.to_string());
            if !before.is_empty() {
                order.after.insert(place, before);
            }
        }
        order
    }

    /// What a moment had to wait for, of what has happened so far.
    fn awaited(&self, trace: &Trace, moment: &Moment) -> BTreeSet<Place> {
        let last = |chain: &str, types: &[&str]| self.last(chain, types);
        let mut before = BTreeSet::new();
        match (moment.event.as_str(), &moment.about) {
            ("StepStarted", Some((step, _))) => {
                // GRAPH-12: a step waits for its dependencies, and in a pause for the resume.
                for needed in trace.dependencies.get(step).into_iter().flatten() {
                    before.extend(last(needed, ENDS_OF_STEPS));
                }
                before.extend(last(RUN, &["RunStarted", "RunResumed"]));
            }
            ("CompensationStarted", Some((step, _))) => {
                let dependents = trace.dependencies.iter().filter(|(_, needs)| needs.contains(step));
                for (dependent, _) in dependents {
                    before.extend(last(dependent, &["CompensationCompleted", "CompensationFailed"]));
                }
            }
            ("RunCompleted" | "RunFailed" | "RunCancelled", _) => {
                for step in self.chains.keys().filter(|chain| *chain != RUN) {
                    before.extend(last(step, &[]));
                }
            }
            _ => {}
        }
        before
    }

    /// The last event of a chain so far that is of one of these types; of any when none is named.
    fn last(&self, chain: &str, types: &[&str]) -> Option<Place> {
        let is_one = |label: &String| {
            let event = label.split(' ').next().unwrap_or_default();
            types.is_empty() || types.contains(&event)
        };
        let index = self.chains.get(chain)?.iter().rposition(is_one)?;
        Some(Place { chain: chain.to_owned(), index })
    }

    fn label(&self, place: &Place) -> Option<&String> {
        self.chains.get(&place.chain).and_then(|chain| chain.get(place.index))
    }

    /// The first event of a trace that this order does not have, in the order of the trace; none when the trace
    /// linearises it.
    #[must_use]
    pub fn divergence(&self, trace: &Trace) -> Option<Divergence> {
        let other = Self::of(trace);
        for (place, moment) in places(trace) {
            let what = match self.label(&place) {
                None => format!("{moment} is not expected"),
                Some(expected) if *expected != moment.to_string() => {
                    format!("{moment} stands where {expected} is expected")
                }
                Some(_) => match self.waits_otherwise(&other, &place) {
                    Some(how) => format!("{moment} {how}"),
                    None => continue,
                },
            };
            return Some(Divergence { place, what });
        }
        let missing = self.chains.iter().find_map(|(chain, labels)| {
            let index = other.chains.get(chain).map_or(0, Vec::len);
            let label = labels.get(index)?;
            Some((Place { chain: chain.clone(), index }, format!("{label} is missing")))
        });
        missing.map(|(place, what)| Divergence { place, what })
    }

    fn waits_otherwise(&self, other: &Self, place: &Place) -> Option<String> {
        let none = BTreeSet::new();
        let expected = self.after.get(place).unwrap_or(&none);
        let seen = other.after.get(place).unwrap_or(&none);
        let named = |order: &Self, place: &Place| order.label(place).cloned().unwrap_or_default();
        if let Some(missing) = expected.difference(seen).next() {
            return Some(format!("did not wait for {}", named(self, missing)));
        }
        let more = seen.difference(expected).next()?;
        Some(format!("waited for {}, which is not expected", named(other, more)))
    }
}

const ENDS_OF_STEPS: &[&str] = &["StepCompleted", "StepFailed", "StepSkipped", "StepCancelled"];

/// Each moment with its place.
pub(super) fn places(trace: &Trace) -> Vec<(Place, &Moment)> {
    let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for moment in &trace.moments {
        let chain = moment.about.as_ref().map_or(RUN, |(step, _)| step.as_str());
        let length = lengths.entry(chain).or_default();
        places.push((Place { chain: chain.to_owned(), index: *length }, moment));
        *length += 1;
    }
    places
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A trace of `Type` and `Type step` of a plan in which `c` waits for `a` and `b`.
    pub(crate) fn trace(lines: &[&str]) -> Trace {
        let moment = |line: &&str| {
            let (event, step) =
                line.split_once(' ').map_or((*line, None), |(event, step)| (event, Some(step)));
            Moment {
                event: event.to_owned(),
                about: step.map(|step| (step.to_owned(), 1)),
                details: BTreeMap::new(),
            }
        };
        let needs = |step: &str, needs: &[&str]| {
            (step.to_owned(), needs.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        Trace {
            dependencies: [needs("a", &[]), needs("b", &[]), needs("c", &["a", "b"])].into(),
            moments: lines.iter().map(moment).collect(),
        }
    }

    pub(crate) const STRAIGHT: &[&str] = &[
        "RunStarted",
        "StepStarted a",
        "StepCompleted a",
        "StepStarted b",
        "StepCompleted b",
        "StepStarted c",
        "StepCompleted c",
        "RunCompleted",
    ];

    fn swapped(one: usize, other: usize) -> Trace {
        let mut lines = STRAIGHT.to_vec();
        lines.swap(one, other);
        trace(&lines)
    }

    #[test]
    fn siblings_may_interleave() {
        let order = Order::of(&trace(STRAIGHT));
        assert_eq!(order.divergence(&trace(STRAIGHT)), None);
        let interleaved = swapped(2, 3);
        assert_ne!(interleaved, trace(STRAIGHT));
        assert_eq!(order.divergence(&interleaved), None);
        assert_eq!(Order::of(&interleaved), order);
    }

    #[test]
    fn a_step_before_its_dependency_is_a_divergence() {
        let order = Order::of(&trace(STRAIGHT));
        let early = swapped(4, 5);
        let parted = order.divergence(&early).unwrap();
        assert_eq!(parted.to_string(), "c/0: StepStarted c#1 did not wait for StepCompleted b#1");
        // Whichever of the two is the reference.
        let parted = Order::of(&early).divergence(&trace(STRAIGHT)).unwrap();
        assert_eq!(
            parted.to_string(),
            "c/0: StepStarted c#1 waited for StepCompleted b#1, which is not expected"
        );
    }

    #[test]
    fn other_missing_and_more_events_are_divergences() {
        let order = Order::of(&trace(STRAIGHT));
        let without = |index: usize| {
            let mut lines = STRAIGHT.to_vec();
            lines.remove(index);
            order.divergence(&trace(&lines)).unwrap().what
        };
        assert_eq!(without(7), "RunCompleted is missing");
        assert_eq!(without(4), "StepStarted c#1 did not wait for StepCompleted b#1");
        let mut lines = STRAIGHT.to_vec();
        lines[4] = "StepFailed b";
        assert_eq!(
            order.divergence(&trace(&lines)).unwrap().what,
            "StepFailed b#1 stands where StepCompleted b#1 is expected"
        );
        lines[4] = "StepCompleted b";
        lines.push("StepStarted a");
        assert_eq!(order.divergence(&trace(&lines)).unwrap().what, "StepStarted a#1 is not expected");
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = Order::of(&trace(STRAIGHT));
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
