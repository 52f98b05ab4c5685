//! Whoever pauses, resumes, approves and completes, from another process than the one that drives. Sends many signals
//! twice; remembers every event it has seen, and every signal that the store took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine_core::event::step::StepOutput;
use engine_core::event::{Body, Event, Slot};
use engine_core::machine::{RunStatus, run};
use engine_core::port::StateStore;
use engine_core::port::store::{ListRequest, ReadRequest, RunRecord};
use engine_core::signal::{Command, ManualCompletion, ManualOutcome, PauseMode, Signal};
use engine_core::{RunId, SignalId, StepId};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::patience::chance;
use super::runs::{log, tenant};

/// Statuses of runs that somebody may have to do something about.
const OPEN: [RunStatus; 4] = [RunStatus::Pending, RunStatus::Approved, RunStatus::Running, RunStatus::Paused];

/// How often a run is paused, at most.
const PAUSES: u32 = 2;

/// Looks at all runs, round by round, and does what they wait for.
#[derive(Debug)]
pub(crate) struct Operator {
    store: Arc<dyn StateStore>,
    /// Whether it pauses runs for no reason.
    capricious: bool,
    /// Events of every run that it has seen open.
    pub(crate) seen: BTreeMap<RunId, Vec<Event>>,
    /// Signals that the store has taken.
    pub(crate) sent: BTreeSet<(RunId, SignalId)>,
    paused: BTreeMap<RunId, u32>,
    /// What follows every run that it has seen open, after its end too: signals are decided then as well.
    tails: JoinSet<()>,
    news: Arc<Notify>,
    /// Whether it owes a run something that it does by chance, and need not wait for news to try again.
    owes: bool,
}

impl Operator {
    pub(crate) fn new(store: Arc<dyn StateStore>, capricious: bool) -> Self {
        let (seen, sent, paused) = Default::default();
        let (tails, news) = (JoinSet::new(), Arc::default());
        Self { store, capricious, seen, sent, paused, tails, news, owes: false }
    }

    /// Waits until there is something new about a run that it knows; for ever when it knows none.
    pub(crate) async fn news(&self) {
        if self.owes {
            return tokio::task::yield_now().await;
        }
        self.news.notified().await;
    }

    /// Hears of every event that comes after a place in a run's log. In a task of its own: a tail that nobody asks keeps
    /// the connection that it reads with.
    fn follow(&mut self, run_id: &RunId, after: u64) {
        let request = ReadRequest { tenant_id: tenant(), run_id: run_id.clone(), after, limit: 100 };
        let (mut tail, news) = (self.store.tail(request), Arc::clone(&self.news));
        self.tails.spawn(async move {
            while let Some(event) = tail.next().await {
                event.expect("the log can be followed");
                news.notify_one();
            }
        });
    }

    /// Looks once at all runs that have not ended, and gives them.
    pub(crate) async fn round(&mut self) -> Vec<RunRecord> {
        let open = list(&*self.store, &OPEN).await;
        self.owes = false;
        for record in &open {
            let run_id = &record.run_id;
            let seen = self.seen.entry(run_id.clone()).or_default();
            let after = seen.last().map_or(0, |event| event.run_seq);
            seen.extend(log(&*self.store, run_id, after).await.expect("the log can be read"));
            let (is_new, through) = (after == 0, seen.last().map_or(0, |event| event.run_seq));
            if is_new {
                self.follow(run_id, through);
            }
            self.act(run_id).await;
        }
        open
    }

    async fn act(&mut self, run_id: &RunId) {
        let view = View::of(&self.seen[run_id]);
        for (step, (attempt, token)) in view.waiting {
            self.send(run_id, format!("complete-{step}-{attempt}"), complete(step, token)).await;
        }
        match view.status {
            Some(RunStatus::Pending) if view.needs_approval => {
                self.send(run_id, "approve".to_owned(), Command::Approve).await;
            }
            Some(RunStatus::Paused) => {
                let id = format!("resume-{}", view.pauses);
                let sent = self.sent.contains(&(run_id.clone(), SignalId::new(id.clone()).expect("an id")));
                // Some pauses are long.
                if chance(4) == 0 {
                    self.send(run_id, id, Command::Resume).await;
                } else {
                    self.owes |= !sent;
                }
            }
            Some(RunStatus::Running) if self.capricious && chance(16) == 0 => {
                let number = self.paused.entry(run_id.clone()).or_default();
                if *number < PAUSES {
                    *number += 1;
                    let id = format!("pause-{number}");
                    self.send(run_id, id, Command::Pause { mode: PauseMode::Drain }).await;
                }
            }
            _ => {}
        }
    }

    async fn send(&mut self, run_id: &RunId, id: String, command: Command) {
        let signal_id = SignalId::new(id).expect("a signal's id");
        let signal = Signal { signal_id: signal_id.clone(), actor: "operator".into(), reason: None, command };
        for _ in 0..=chance(2) {
            self.store.submit(&tenant(), run_id, signal.clone()).await.expect("the store takes the signal");
        }
        self.sent.insert((run_id.clone(), signal_id));
    }
}

/// What an operator sees of a run.
#[derive(Debug, Default)]
struct View {
    status: Option<RunStatus>,
    needs_approval: bool,
    pauses: u32,
    /// Attempts and tokens of steps that wait for a person.
    waiting: BTreeMap<StepId, (u32, String)>,
}

impl View {
    fn of(events: &[Event]) -> Self {
        let mut view = Self::default();
        for event in events {
            if let Some(status) = event.body.event_type().and_then(run::status_after) {
                view.status = Some(status);
            }
            match (&event.body, &event.subject) {
                (Body::RunQueued(queued), _) => {
                    view.needs_approval = queued.policies.approval == engine_core::plan::Approval::Required;
                }
                (Body::RunPaused(_), _) => view.pauses += 1,
                (Body::StepWaiting(waiting), Some(subject)) => {
                    let token = waiting.completion_token.clone();
                    view.waiting.insert(subject.step.clone(), (subject.attempt, token));
                }
                (body, subject) => {
                    if let Some(Slot::AttemptEnd(step, _)) = Slot::of(subject.as_ref(), body) {
                        view.waiting.remove(&step);
                    }
                }
            }
        }
        view
    }
}

/// How a step is completed: one brings a number, one is refused, the others are left as the handler left them.
fn complete(step_id: StepId, completion_token: String) -> Command {
    let outcome =
        if step_id.as_str() == "refused" { ManualOutcome::Failed } else { ManualOutcome::Succeeded };
    let output = (step_id.as_str() == "count")
        .then(|| Box::new(StepOutput { value: Some(json!({"number": 5})), ..StepOutput::default() }));
    let completion = Box::new(ManualCompletion {
        schema_version: 1,
        completion_token,
        outcome,
        actor_user_id: "operator".into(),
        completed_at_iso: engine_core::Timestamp::from_millis(0),
        notes: None,
        evidence_refs: Vec::new(),
    });
    Command::CompleteStep { step_id, completion, output }
}

/// All runs that have one of these statuses; all when there are none.
pub(crate) async fn list(store: &dyn StateStore, statuses: &[RunStatus]) -> Vec<RunRecord> {
    let (mut runs, mut after) = (Vec::new(), None);
    loop {
        let request = ListRequest {
            tenant_id: tenant(),
            statuses: statuses.to_vec(),
            plan_id: None,
            from: None,
            until: None,
            after,
            limit: 500,
        };
        let page = store.list(request).await.expect("the runs can be listed");
        runs.extend(page.runs);
        after = page.next;
        if after.is_none() {
            return runs;
        }
    }
}
