//! Appends call after call, and knows of the runs what a driver knows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine_core::event::{Event, Kind};
use engine_core::port::StateStore;
use engine_core::port::store::{AppendAs, AppendRequest, Appended, CreateRequest, Created, ReadRequest};
use engine_core::{Code, Result, RunId};

use super::acknowledgement::Acknowledgement;
use super::calls::{Call, CallName, EVERYBODY, Target, creation, tenant};

/// The whole log of a run.
pub(crate) async fn log(store: &dyn StateStore, run_id: &RunId) -> Vec<Event> {
    let mut log: Vec<Event> = Vec::new();
    loop {
        let after = log.last().map_or(0, |event| event.run_seq);
        let request = ReadRequest { tenant_id: tenant(), run_id: run_id.clone(), after, limit: 10_000 };
        let page = store.read(request).await.expect("a log");
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

/// The run that all share, made by whoever comes first.
pub(crate) async fn shared_run(store: &dyn StateStore) -> RunId {
    store.create(creation("shared", EVERYBODY)).await.expect("the shared run").run_id
}

/// A request for what a call appends.
pub(crate) fn request(name: CallName, run_id: &RunId, call: &Call, view: &View) -> AppendRequest {
    let Call::Append { decision, drafts, .. } = call else { panic!("{name} appends nothing") };
    AppendRequest {
        tenant_id: tenant(),
        run_id: run_id.clone(),
        drafts: drafts.clone(),
        emitted_by: name.to_string().into(),
        append_as: if *decision { view.append_as() } else { AppendAs::Worker },
        fence: None,
    }
}

/// What a driver knows of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    decisions: BTreeSet<u64>,
    folded_through: u64,
}

impl View {
    pub(crate) fn of(log: &[Event]) -> Self {
        let mut view = Self::default();
        view.fold(log);
        view
    }

    /// Takes in all that comes after what was known.
    pub(crate) fn fold(&mut self, events: &[Event]) {
        self.note(events);
        self.folded_through = events.last().map_or(self.folded_through, |event| event.run_seq);
    }

    /// Takes in some events; what others wrote before them is not known.
    pub(crate) fn note<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) {
        let decisions = events.into_iter().filter(|event| event.body.kind() == Kind::Decision);
        self.decisions.extend(decisions.map(|event| event.run_seq));
    }

    fn append_as(&self) -> AppendAs {
        AppendAs::Decision {
            expected: self.decisions.len() as u64,
            nothing_after: None,
            folded_through: self.folded_through,
        }
    }
}

/// What an author makes of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// There must be none.
    Steady,
    /// When the store was away, the same call is made again until it is acknowledged.
    Insistent,
}

/// A call that was not acknowledged in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) call: CallName,
    pub(crate) code: Code,
    pub(crate) took: Duration,
}

/// All refusals of some authors.
pub(crate) type Refusals = Arc<Mutex<Vec<Refusal>>>;

/// How many refusals there were, by code.
pub(crate) fn by_code(refusals: &[Refusal]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    refusals.iter().for_each(|refusal| *counts.entry(refusal.code.as_str()).or_default() += 1);
    counts
}

/// One task that appends.
#[derive(Debug)]
pub(crate) struct Author {
    store: Arc<dyn StateStore>,
    manner: Manner,
    next: CallName,
    shared: RunId,
    own: Option<RunId>,
    views: HashMap<RunId, View>,
    /// Whether the call at hand was sent before.
    sent_before: bool,
    /// When the store was last asked: a call that meets conflicts asks several times.
    began: Instant,
    refusals: Refusals,
}

impl Author {
    /// `view` is what is known of the shared run.
    pub(crate) fn new(
        store: Arc<dyn StateStore>,
        manner: Manner,
        (generation, task): (u32, u32),
        (shared, view): (RunId, View),
    ) -> Self {
        let next = CallName { generation, task, number: 0 };
        let views = HashMap::from([(shared.clone(), view)]);
        Self {
            store,
            manner,
            next,
            shared,
            own: None,
            views,
            sent_before: false,
            began: Instant::now(),
            refusals: Refusals::default(),
        }
    }

    /// The same author, who tells its refusals there.
    pub(crate) fn telling(self, refusals: &Refusals) -> Self {
        Self { refusals: Arc::clone(refusals), ..self }
    }

    /// Makes the next call.
    pub(crate) async fn call(&mut self) -> Acknowledgement {
        let (name, call) = (self.next, Call::of(self.next));
        loop {
            let error = match self.attempt(name, &call).await {
                Ok(acknowledgement) => {
                    self.next.number += 1;
                    self.sent_before = false;
                    return acknowledgement;
                }
                Err(error) => error,
            };
            assert!(self.manner == Manner::Insistent, "the call {name} was refused: {error}");
            let away = [Code::StoreUnavailable, Code::WriteBudgetExceeded];
            assert!(away.contains(&error.code()), "the call {name} was refused: {error}");
            self.sent_before = true;
            let refusal = Refusal { call: name, code: error.code(), took: self.began.elapsed() };
            self.refusals.lock().unwrap_or_else(PoisonError::into_inner).push(refusal);
        }
    }

    async fn attempt(&mut self, name: CallName, call: &Call) -> Result<Acknowledgement> {
        let target = match call {
            Call::Create(request) => return self.create(name, request.as_ref().clone()).await,
            Call::Append { target, .. } => *target,
        };
        let run_id = match target {
            Target::Shared => self.shared.clone(),
            Target::Own => self.own.clone().expect("the first call makes a run"),
        };
        let view = self.views.entry(run_id.clone()).or_default();
        loop {
            let places = |events: Vec<&Event>| {
                events.into_iter().map(|event| (event.run_seq, event.event_id)).collect::<Vec<_>>()
            };
            self.began = Instant::now();
            match self.store.append(request(name, &run_id, call, view)).await? {
                Appended::Stored(stored) => {
                    assert_eq!(stored.len(), call.events(), "{name}: one stored event a draft");
                    let fresh = stored.iter().all(|stored| stored.fresh);
                    assert!(fresh || self.sent_before, "{name} was sent once and was there before");
                    let events: Vec<&Event> = stored.iter().map(|stored| &stored.event).collect();
                    view.note(events.iter().copied());
                    return Ok(Acknowledgement { call: name, run_id, places: places(events) });
                }
                Appended::Conflict(events) => {
                    let own = |event: &&Event| *event.emitted_by == name.to_string();
                    let own: Vec<&Event> = events.iter().filter(own).collect();
                    let places = places(own);
                    view.fold(&events);
                    if !places.is_empty() {
                        assert!(self.sent_before, "{name} was sent once and is in its own way");
                        return Ok(Acknowledgement { call: name, run_id, places });
                    }
                    assert!(target == Target::Shared, "{name}: nobody else decides about {run_id}");
                    assert!(!events.is_empty(), "{name}: a conflict with nothing");
                }
            }
        }
    }

    async fn create(&mut self, name: CallName, request: CreateRequest) -> Result<Acknowledgement> {
        self.began = Instant::now();
        let Created { run_id, fresh, .. } = self.store.create(request).await?;
        assert!(fresh || self.sent_before, "{name} was sent once and its run was there before");
        // RunQueued is a decision, and the only event so far.
        let view = View { decisions: BTreeSet::from([1]), folded_through: 1 };
        self.views.insert(run_id.clone(), view);
        self.own = Some(run_id.clone());
        Ok(Acknowledgement { call: name, run_id, places: Vec::new() })
    }
}
