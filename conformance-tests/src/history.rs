//! The record: what was asked and answered, which handlers were entered and left, and the logs of all runs. Verdicts are
//! computed from it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_core::event::Event;
use engine_core::plan::CompiledPlan;
use engine_core::projection::RunSnapshot;
use engine_core::{AgentName, RunId, StepId, TenantId};
use serde_json::Value;
use tokio::sync::watch;

/// Everything that was recorded in a case, or of one log.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What happened, in the order in which it was seen.
    pub items: Vec<Item>,
    /// Calls of handlers, in the order in which they began.
    pub visits: Vec<Visit>,
    /// Those among them that a variant lost with their worker: they do not count.
    pub lost: BTreeSet<usize>,
    /// Appends that were late, as a case or a variant said.
    pub late: u32,
    /// How often the state of a run was rebuilt from its log and compared.
    pub rebuilt: u32,
    /// The runs, in the order in which they were made.
    pub runs: Vec<RunHistory>,
}

/// One run: its plan, its log, and what its snapshot said when the log was read.
#[derive(Clone, Debug)]
pub struct RunHistory {
    /// Who owns it.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Its plan.
    pub plan: Arc<CompiledPlan>,
    /// Its log.
    pub events: Vec<Event>,
    /// Its snapshot, taken when it had these events; absent when the log alone is judged.
    pub snapshot: Option<RunSnapshot>,
}

/// Something that was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Somebody asked something, and this was the answer.
    Called {
        /// What was asked.
        call: String,
        /// The answer.
        answer: String,
    },
    /// A handler was called: an index into the visits.
    Entered(usize),
    /// A step has come to a gate.
    AtGate {
        /// Whose call.
        visit: usize,
        /// The gate.
        gate: String,
    },
    /// A handler's call has ended.
    Left(usize),
    /// A gate was opened.
    Opened {
        /// The gate.
        gate: String,
        /// For how many.
        count: usize,
    },
    /// So many milliseconds were let pass.
    Passed(u64),
    /// Everything that drives runs was killed.
    Killed,
    /// It was started again.
    Restarted,
}

/// One call of a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_id: StepId,
    /// The logical attempt.
    pub attempt: u32,
    /// The try within it.
    pub try_number: u32,
    /// Under which name it was called.
    pub handler: String,
    /// The executor that it was given to.
    pub agent: Option<AgentName>,
    /// The idempotency token that it was handed.
    pub token: String,
    /// The input, its script included.
    pub input: Value,
    /// The last place in the run's log when it was called, where that could be read.
    pub place: Option<u64>,
    /// How it ended; absent while it has not.
    pub left: Option<Left>,
}

/// How the key ends that a handler gets to undo a step.
pub(crate) const UNDOING: &str = ":compensate";

impl Visit {
    /// Whether it undid a step.
    #[must_use]
    pub fn undoes(&self) -> bool {
        self.token.ends_with(UNDOING)
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}.{}", self.step_id, self.attempt, self.try_number)?;
        if self.undoes() { write!(formatter, " (undo)") } else { Ok(()) }
    }
}

/// How a handler's call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Well.
    Done,
    /// With an error of this code.
    Failed(String),
    /// Somebody cut it off, or it panicked.
    CutOff,
}

impl History {
    /// The record in lines, for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let who = |visit: &usize| self.visits.get(*visit).map(ToString::to_string).unwrap_or_default();
        let mut lines: Vec<String> = self
            .items
            .iter()
            .map(|item| match item {
                Item::Called { call, answer } => format!("{call} -> {answer}"),
                Item::Entered(visit) => format!("entered {}", who(visit)),
                Item::AtGate { visit, gate } => format!("{} is at gate {gate}", who(visit)),
                Item::Left(visit) => {
                    format!("left {} {:?}", who(visit), self.visits.get(*visit).and_then(|v| v.left.as_ref()))
                }
                Item::Opened { gate, count } => format!("opened gate {gate} for {count}"),
                Item::Passed(millis) => format!("{millis} ms were let pass"),
                Item::Killed => "killed".to_owned(),
                Item::Restarted => "restarted".to_owned(),
            })
            .collect();
        for run in &self.runs {
            lines.push(format!("log of {} ({}):", run.run_id, run.plan.document().id));
            lines.extend(run.events.iter().map(|event| format!("  {} {}", event.run_seq, line(event))));
        }
        lines
    }
}

/// An event in a line: `Type` or `Type step#attempt`, and what tells it apart.
#[must_use]
pub fn line(event: &Event) -> String {
    match &event.subject {
        Some(subject) => format!("{} {}#{}", event.body.type_name(), subject.step, subject.attempt),
        None => event.body.type_name().to_owned(),
    }
}

/// Takes the record while a case runs.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    taken: Mutex<Taken>,
    changed: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Taken {
    items: Vec<Item>,
    visits: Vec<Visit>,
    /// Calls that a variant lost: nobody counts them.
    hidden: HashSet<usize>,
    /// The gate that a call went through.
    through: HashMap<usize, String>,
}

impl Taken {
    fn seen(&self) -> impl Iterator<Item = (usize, &Visit)> {
        self.visits.iter().enumerate().filter(|(number, _)| !self.hidden.contains(number))
    }
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, item: Item, change: impl FnOnce(&mut Taken)) -> usize {
        let mut taken = self.lock();
        change(&mut taken);
        taken.items.push(item);
        let count = taken.items.len();
        drop(taken);
        self.changed.send_replace(count);
        count
    }

    pub(crate) fn note(&self, item: Item) {
        self.add(item, |_| {});
    }

    pub(crate) fn called(&self, call: String, answer: String) {
        self.note(Item::Called { call, answer });
    }

    pub(crate) fn enter(&self, visit: Visit) -> usize {
        let mut taken = self.lock();
        let number = taken.visits.len();
        taken.visits.push(visit);
        taken.items.push(Item::Entered(number));
        let count = taken.items.len();
        drop(taken);
        self.changed.send_replace(count);
        number
    }

    pub(crate) fn leave(&self, number: usize, how: Left) {
        self.add(Item::Left(number), |taken| {
            if let Some(visit) = taken.visits.get_mut(number) {
                visit.left = Some(how);
            }
        });
    }

    /// The how-manieth call of its step in its run this one is; undoing counts apart.
    pub(crate) fn calls_up_to(&self, number: usize) -> u32 {
        let taken = self.lock();
        let Some(this) = taken.visits.get(number) else { return 0 };
        let same = taken.seen().filter(|(other, visit)| {
            *other <= number
                && visit.run_id == this.run_id
                && visit.step_id == this.step_id
                && visit.undoes() == this.undoes()
        });
        u32::try_from(same.count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn visits(&self) -> Vec<Visit> {
        self.lock().seen().map(|(_, visit)| visit.clone()).collect()
    }

    /// Every call that counts, by its number.
    pub(crate) fn numbered(&self) -> Vec<(usize, Visit)> {
        self.lock().seen().map(|(number, visit)| (number, visit.clone())).collect()
    }

    /// A call went through a gate.
    pub(crate) fn went_through(&self, number: usize, gate: &str) {
        self.lock().through.insert(number, gate.to_owned());
    }

    /// A call does not count any more; gives the gate that it went through.
    pub(crate) fn hide(&self, number: usize) -> Option<String> {
        let mut taken = self.lock();
        taken.hidden.insert(number);
        taken.through.remove(&number)
    }

    /// Visits that have come to a gate and are still there or have gone through, in order.
    pub(crate) fn at_gate(&self, gate: &str) -> Vec<Visit> {
        let taken = self.lock();
        let visits = taken.items.iter().filter_map(|item| match item {
            Item::AtGate { visit, gate: at } if at == gate && !taken.hidden.contains(visit) => {
                taken.visits.get(*visit).cloned()
            }
            _ => None,
        });
        visits.collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.changed.subscribe()
    }

    pub(crate) fn take(&self) -> History {
        let taken = self.lock();
        let lost = taken.hidden.iter().copied().collect();
        let (items, visits) = (taken.items.clone(), taken.visits.clone());
        History { items, visits, lost, ..History::default() }
    }
}
