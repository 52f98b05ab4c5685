//! What must hold for the log of every run that has ended, whatever happened to the processes that wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use engine_core::decider::{Report, Run, Stimulus};
use engine_core::event::{Body, Event, EventType, IdempotencyKey, Kind, Slot};
use engine_core::machine::{StepStatus, run, step};
use engine_core::plan::CompiledPlan;

/// The log of a run that has ended, checked.
#[derive(Debug)]
pub(crate) struct Lawful<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) run: Run,
}

impl<'a> Lawful<'a> {
    /// Checks a log event by event, each against what stands before it.
    pub(crate) fn check(plan: &Arc<CompiledPlan>, events: &'a [Event]) -> Self {
        let mut checked = Self { events, run: Run::new(Arc::clone(plan)) };
        checked.each_once();
        let mut attempts: BTreeMap<(&str, u32), StepStatus> = BTreeMap::new();
        let mut in_flight: BTreeSet<&str> = BTreeSet::new();
        for event in events {
            checked.follows(event);
            if let (Some(on), Some(subject)) = (event.body.event_type(), &event.subject) {
                let (step, attempt) = (subject.step.as_str(), subject.attempt);
                if step::EDGES.iter().any(|edge| edge.on == on) {
                    let before = attempts.get(&(step, attempt)).copied();
                    // A first attempt, and one that only says that its step is skipped, are there without an event.
                    let unsaid = (on != EventType::StepRetryRequested).then_some(StepStatus::Pending);
                    let after = step::next(before.or(unsaid), on)
                        .unwrap_or_else(|error| panic!("{error} at {}; {checked}", event.run_seq));
                    attempts.insert((step, attempt), after);
                }
                match on {
                    EventType::StepStarted => drop(in_flight.insert(step)),
                    EventType::StepWaiting => drop(in_flight.remove(step)),
                    _ if Slot::of(event.subject.as_ref(), &event.body).is_some() => {
                        in_flight.remove(step);
                    }
                    _ => {}
                }
                let most = plan.document().limits.max_concurrency as usize;
                assert!(in_flight.len() <= most, "too many at once at {}; {checked}", event.run_seq);
            }
            checked.run.evolve(event);
        }
        let folded = Run::fold(Arc::clone(plan), events).expect("the log folds");
        assert!(folded == checked.run && folded.actions().finish.is_some(), "it has not ended; {checked}");
        assert_eq!(folded.settle(), [], "something still follows; {checked}");
        checked.tries_are_counted();
        checked.undone_in_reverse();
        checked
    }

    /// Places without a gap, and keys, ids and slots that nobody else has.
    fn each_once(&self) {
        let (mut keys, mut ids, mut slots) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (event, place) in self.events.iter().zip(1..) {
            assert_eq!(event.run_seq, place, "a gap; {self}");
            let key =
                IdempotencyKey::of(&event.run_id, event.subject.as_ref(), &event.body, &event.plan_version);
            assert_eq!(event.idempotency_key, key, "another event's key at {place}; {self}");
            assert!(keys.insert(key), "the key at {place} was there before; {self}");
            assert!(ids.insert(event.event_id), "the id at {place} was there before; {self}");
            if let Some(slot) = Slot::of(event.subject.as_ref(), &event.body) {
                assert!(slots.insert(slot), "the slot at {place} was taken before; {self}");
            }
        }
        assert!(slots.contains(&Slot::RunEnd), "the run has not ended; {self}");
    }

    /// The run allowed this event when it was written.
    fn follows(&self, event: &Event) {
        let place = event.run_seq;
        let status = self.run.state().status();
        let over = status.is_some_and(|status| status.is_terminal());
        assert!(!over || event.body.kind() == Kind::Audit, "{place} is after the end; {self}");
        if let Some(on) = event.body.event_type().filter(|on| run::status_after(*on).is_some()) {
            run::next(status, on).unwrap_or_else(|error| panic!("{error} at {place}; {self}"));
        }
        match (&event.body, &event.subject) {
            (Body::StepStarted(started), Some(subject)) => {
                let report = Report::Started((**started).clone());
                let stimulus = Stimulus::step(subject.step.clone(), subject.attempt, report);
                let decided = self.run.decide(stimulus);
                decided.unwrap_or_else(|error| panic!("{error} at {place}; {self}"));
            }
            (
                Body::CompensationStarted(_)
                | Body::StepRetryRequested(_)
                | Body::RunCompleted(_)
                | Body::RunFailed(_),
                subject,
            ) => {
                let settled = self.run.settle();
                let follows = settled.iter().any(|draft| {
                    draft.body.event_type() == event.body.event_type() && draft.subject == *subject
                });
                assert!(follows, "{place} does not follow, but {settled:?}; {self}");
            }
            _ => {}
        }
    }

    /// Every try that was followed by another has its event, numbered without a gap.
    fn tries_are_counted(&self) {
        let mut tries: BTreeMap<(&str, u32), u32> = BTreeMap::new();
        for event in self.events {
            let (Body::StepRetried(_), Some(subject)) = (&event.body, &event.subject) else { continue };
            let last = tries.entry((subject.step.as_str(), subject.attempt)).or_default();
            assert_eq!(subject.engine_attempt, Some(*last + 1), "tries at {}; {self}", event.run_seq);
            *last += 1;
        }
    }

    /// What succeeded last is undone first, one at a time, each once; a run that completed undoes nothing.
    fn undone_in_reverse(&self) {
        let (mut succeeded, mut undone, mut undoing) = (Vec::new(), Vec::new(), None);
        let mut failed = false;
        for event in self.events {
            let step = event.subject.as_ref().map(|subject| subject.step.as_str());
            match &event.body {
                Body::StepCompleted(_) => {
                    let index = self.run.plan().find(step.expect("a step")).expect("a step of the plan");
                    if self.run.plan().step(index).compensation.is_some() {
                        succeeded.push(step);
                    }
                }
                Body::CompensationStarted(_) => {
                    assert_eq!(undoing, None, "two are undone at once; {self}");
                    undoing = Some(step);
                    undone.push(step);
                }
                Body::CompensationFailed(tried) if tried.will_retry => assert_eq!(undoing, Some(step)),
                Body::CompensationFailed(_) | Body::CompensationCompleted(_) => {
                    assert_eq!(undoing.take(), Some(step), "{step:?} was not being undone; {self}");
                }
                Body::RunFailed(_) => failed = true,
                _ => {}
            }
        }
        succeeded.reverse();
        let expected = if failed { succeeded } else { Vec::new() };
        assert_eq!(undone, expected, "undone in another order; {self}");
    }
}

impl fmt::Display for Lawful<'_> {
    /// The log, a line for each event.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in self.events {
            let (place, name, by) = (event.run_seq, event.body.type_name(), &event.emitted_by);
            write!(formatter, "\n{place:>4} {} {by} {name}", event.emitted_at)?;
            if let Some(subject) = &event.subject {
                write!(formatter, " {} {} {:?}", subject.step, subject.attempt, subject.engine_attempt)?;
            }
            match &event.body {
                Body::StepRetried(retried) => write!(formatter, " {}", retried.error.code)?,
                Body::StepFailed(failed) => write!(formatter, " {}", failed.error.code)?,
                Body::SignalAccepted(signal) => write!(formatter, " {}", signal.signal_id)?,
                Body::SignalRejected(signal) => write!(formatter, " {} {}", signal.signal_id, signal.code)?,
                _ => {}
            }
        }
        Ok(())
    }
}
