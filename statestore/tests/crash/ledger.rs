//! What is known from outside: which calls were acknowledged, and where. The database is held against it.
//!
//! A process that was killed leaves at most one call a task open: the one after its last acknowledged one. It is there
//! as a whole or not at all; every other event in every log was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use engine_core::RunId;
use engine_core::event::{Event, EventType, IdempotencyKey, Slot};
use engine_core::port::StateStore;
use engine_core::port::store::{Appended, ClaimOutbox, Created, Delivered, ListRequest, RunRecord};
use futures_util::{StreamExt as _, stream};
use uuid::Uuid;

use super::acknowledgement::Acknowledgement;
use super::author::{View, log, request};
use super::calls::{CHECKER, Call, CallName, EVERYBODY, Target, tenant};

/// Logs that are read at once; a store has as many readers.
const READERS: usize = 4;

/// The logs of all runs, as they are in the database.
pub(crate) type Logs = BTreeMap<RunId, Vec<Event>>;

/// What is known from outside.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tasks: BTreeMap<(u32, u32), Task>,
    /// Every call that was acknowledged.
    acknowledged: BTreeMap<CallName, Acknowledgement>,
    /// Every event that was ever seen in a log: it stays.
    seen: BTreeMap<(RunId, u64), Uuid>,
}

/// How far a task is.
#[derive(Clone, Debug, Default)]
struct Task {
    /// Its next call.
    next: u32,
    /// The run it made last.
    own: Option<RunId>,
    /// Whether the next call may have been made without an acknowledgement.
    open: bool,
}

impl Ledger {
    /// Tasks whose calls may be cut off.
    pub(crate) fn open(&mut self, generation: u32, tasks: u32) {
        for task in 0..tasks {
            self.tasks.insert((generation, task), Task { open: true, ..Task::default() });
        }
    }

    /// Nothing of this generation was cut off.
    pub(crate) fn close(&mut self, generation: u32) {
        let tasks = self.tasks.iter_mut().filter(|((of, _), _)| *of == generation);
        tasks.for_each(|(_, task)| task.open = false);
    }

    /// A call was acknowledged.
    pub(crate) fn acknowledge(&mut self, acknowledgement: Acknowledgement) {
        let call = acknowledgement.call;
        let task = self.tasks.entry((call.generation, call.task)).or_default();
        assert_eq!(call.number, task.next, "the calls of a task are acknowledged one after another");
        task.next += 1;
        if matches!(Call::of(call), Call::Create(_)) {
            task.own = Some(acknowledgement.run_id.clone());
        }
        self.acknowledged.insert(call, acknowledgement);
    }

    /// How many calls were acknowledged.
    pub(crate) fn calls(&self) -> usize {
        self.acknowledged.len()
    }

    /// Holds the database against what is known, and knows all that is in it from then on.
    pub(crate) async fn check(&mut self, store: &dyn StateStore) -> Logs {
        let mut logs = Logs::new();
        let mut calls: BTreeMap<CallName, Vec<&Event>> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        let runs = runs(store).await;
        let read = |record: RunRecord| async { (log(store, &record.run_id).await, record) };
        let mut read = stream::iter(runs).map(read).buffer_unordered(READERS);
        while let Some((log, record)) = read.next().await {
            sound(&log);
            let last = log.last().map_or(0, |event| event.run_seq);
            assert_eq!(record.last_event_seq, last, "the head of {} is where its log ends", record.run_id);
            logs.insert(record.run_id, log);
        }
        for event in logs.values().flatten() {
            assert!(ids.insert(event.event_id), "the event {} is there twice", event.event_id);
            if *event.emitted_by != *EVERYBODY || event.run_seq != 1 {
                calls.entry(event.emitted_by.parse().expect("an event of ours")).or_default().push(event);
            }
        }
        for acknowledgement in self.acknowledged.values() {
            let events = calls.get(&acknowledgement.call);
            let events =
                events.unwrap_or_else(|| panic!("{acknowledgement} was acknowledged and is not there"));
            holds(acknowledgement, events);
        }
        for (name, events) in &calls {
            if !self.acknowledged.contains_key(name) {
                self.may_be_there(*name);
                whole(*name, events);
            }
        }
        for ((run_id, place), event_id) in &self.seen {
            let event =
                logs.get(run_id).and_then(|log| log.get(usize::try_from(place - 1).expect("a place")));
            assert_eq!(
                event.map(|event| event.event_id),
                Some(*event_id),
                "event {place} of {run_id} changed"
            );
        }
        let seen =
            logs.values().flatten().map(|event| ((event.run_id.clone(), event.run_seq), event.event_id));
        self.seen = seen.collect();
        logs
    }

    fn may_be_there(&self, name: CallName) {
        let task = self.tasks.get(&(name.generation, name.task));
        let open = task.is_some_and(|task| task.open && task.next == name.number);
        assert!(open, "nobody can have sent {name}, and it is there: {task:?}");
    }

    /// Sends every call again that may have been cut off, as its sender would, and knows then what became of it. What
    /// was there is found and nothing else is stored. How many of them were there.
    pub(crate) async fn send_open_calls_again(
        &mut self,
        store: &dyn StateStore,
        shared: &RunId,
        logs: &Logs,
    ) -> usize {
        let open: Vec<((u32, u32), Task)> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.open)
            .map(|(place, task)| (*place, task.clone()))
            .collect();
        let mut views: BTreeMap<RunId, View> = BTreeMap::new();
        let mut found = 0;
        for ((generation, task_number), task) in open {
            let name = CallName { generation, task: task_number, number: task.next };
            let call = Call::of(name);
            let there: Vec<&Event> =
                logs.values().flatten().filter(|event| *event.emitted_by == *name.to_string()).collect();
            found += usize::from(!there.is_empty());
            let (run_id, places) = match &call {
                Call::Create(request) => {
                    let Created { run_id, fresh, .. } =
                        store.create((**request).clone()).await.expect("a run");
                    assert_eq!(fresh, there.is_empty(), "{name} again");
                    (run_id, Vec::new())
                }
                Call::Append { target, .. } => {
                    let own = || task.own.clone().expect("the first call makes a run");
                    let run_id = if *target == Target::Shared { shared.clone() } else { own() };
                    let log = logs.get(&run_id).expect("its log");
                    let view = views.entry(run_id.clone()).or_insert_with(|| View::of(log));
                    let places = send_again(store, name, &run_id, &call, view, &there).await;
                    (run_id, places)
                }
            };
            self.acknowledge(Acknowledgement { call: name, run_id, places });
        }
        self.tasks.values_mut().for_each(|task| task.open = false);
        found
    }

    /// The number of decisions that the database keeps is that of the log: a decision with it is taken.
    pub(crate) async fn decide(&mut self, store: &dyn StateStore, shared: &RunId, generation: u32) {
        let view = View::of(&log(store, shared).await);
        let name = CallName { generation, task: CHECKER, number: 0 };
        let call = Call::of(name);
        match store.append(request(name, shared, &call, &view)).await.expect("appended") {
            Appended::Stored(stored) => {
                let places =
                    stored.iter().map(|stored| (stored.event.run_seq, stored.event.event_id)).collect();
                self.acknowledge(Acknowledgement { call: name, run_id: shared.clone(), places });
            }
            Appended::Conflict(events) => {
                panic!(
                    "the view {view:?} is not what the store has; it tells of {} more events",
                    events.len()
                )
            }
        }
    }
}

async fn send_again(
    store: &dyn StateStore,
    name: CallName,
    run_id: &RunId,
    call: &Call,
    view: &mut View,
    there: &[&Event],
) -> Vec<(u64, Uuid)> {
    let places = |events: &[&Event]| {
        events.iter().map(|event| (event.run_seq, event.event_id)).collect::<Vec<(u64, Uuid)>>()
    };
    match store.append(request(name, run_id, call, view)).await.expect("appended") {
        Appended::Stored(stored) => {
            let fresh: Vec<bool> = stored.iter().map(|stored| stored.fresh).collect();
            assert_eq!(fresh, vec![there.is_empty(); call.events()], "{name} again");
            let events: Vec<Event> = stored.into_iter().map(|stored| stored.event).collect();
            let events: Vec<&Event> = events.iter().collect();
            if !there.is_empty() {
                assert_eq!(events, there, "{name} again");
            }
            view.note(events.iter().copied());
            places(&events)
        }
        Appended::Conflict(events) => {
            assert!(!there.is_empty(), "{name} again meets a conflict with {events:?}");
            places(there)
        }
    }
}

/// An acknowledged call is where its sender was told.
fn holds(acknowledgement: &Acknowledgement, events: &[&Event]) {
    let call = acknowledgement.call;
    whole(call, events);
    assert_eq!(events[0].run_id, acknowledgement.run_id, "the run of {call}");
    if !matches!(Call::of(call), Call::Create(_)) {
        let places: Vec<(u64, Uuid)> = events.iter().map(|event| (event.run_seq, event.event_id)).collect();
        assert_eq!(places, acknowledgement.places, "the events of {call}");
    }
}

/// All events of a call are there, one after another in one run, as they were sent.
fn whole(name: CallName, events: &[&Event]) {
    let call = Call::of(name);
    assert_eq!(events.len(), call.events(), "all events of {name} are there, or none");
    for (event, place) in events.iter().zip(events[0].run_seq..) {
        assert_eq!(event.run_id, events[0].run_id, "{name} is in one run");
        assert_eq!(event.run_seq, place, "nothing stands between the events of {name}");
    }
    match call {
        Call::Create(_) => {
            assert_eq!((events[0].body.event_type(), events[0].run_seq), (Some(EventType::RunQueued), 1));
        }
        Call::Append { drafts, .. } => {
            for (event, draft) in events.iter().zip(drafts) {
                assert_eq!((&event.subject, &event.body), (&draft.subject, &draft.body), "content of {name}");
            }
        }
    }
}

/// A whole log is in order from 1 without gaps (STORE-2), and no key, slot or event id is in it twice (STORE-4,
/// STORE-5).
fn sound(log: &[Event]) {
    let mut keys = BTreeSet::new();
    let mut slots = BTreeSet::new();
    for (event, place) in log.iter().zip(1..) {
        assert_eq!(event.run_seq, place, "the log of {} counts from 1 without gaps", event.run_id);
        let key = IdempotencyKey::of(&event.run_id, event.subject.as_ref(), &event.body, &event.plan_version);
        assert_eq!(event.idempotency_key, key, "the key of event {place} of {}", event.run_id);
        assert!(keys.insert(key), "the key {key} is twice in {}", event.run_id);
        if let Some(slot) = Slot::of(event.subject.as_ref(), &event.body) {
            assert!(slots.insert(slot.clone()), "the slot {slot} is taken twice in {}", event.run_id);
        }
    }
}

/// Every run that there is.
async fn runs(store: &dyn StateStore) -> Vec<RunRecord> {
    let mut runs = Vec::new();
    let mut after = None;
    loop {
        let request = ListRequest {
            tenant_id: tenant(),
            statuses: Vec::new(),
            plan_id: None,
            from: None,
            until: None,
            after,
            limit: 1000,
        };
        let page = store.list(request).await.expect("a list");
        runs.extend(page.runs);
        after = page.next;
        if after.is_none() {
            return runs;
        }
    }
}

/// Every event is in the outbox, once and in the order of its log (BUS-1). Empties the outbox.
pub(crate) async fn outbox_has_all(store: &dyn StateStore, logs: &Logs) {
    const RELAY: &str = "checker";
    let mut waiting: BTreeMap<RunId, Vec<Uuid>> = BTreeMap::new();
    loop {
        let request = ClaimOutbox { relay: RELAY.into(), limit: 1000, duration_ms: 60_000 };
        let entries = store.claim_outbox(request).await.expect("the outbox");
        if entries.is_empty() {
            break;
        }
        let mut delivered = BTreeMap::new();
        for entry in entries {
            delivered.insert(entry.event.run_id.clone(), entry.event.run_seq);
            waiting.entry(entry.event.run_id).or_default().push(entry.event.event_id);
        }
        for (run_id, up_to_seq) in delivered {
            let delivered = Delivered { relay: RELAY.into(), run_id, up_to_seq };
            store.acknowledge(delivered).await.expect("acknowledged");
        }
    }
    for (run_id, log) in logs {
        let stored: Vec<Uuid> = log.iter().map(|event| event.event_id).collect();
        let waited = waiting.remove(run_id).unwrap_or_default();
        let lengths = (waited.len(), stored.len());
        assert!(waited == stored, "the outbox and the log of {run_id} differ; events in each: {lengths:?}");
    }
    assert!(waiting.is_empty(), "the outbox has runs that are not there: {:?}", waiting.keys());
}
