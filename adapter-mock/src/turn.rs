//! What one turn of a driver decides: events that are folded at once, as if they were stored, and appended together. So the
//! end of an attempt, what follows from it and the start of the next cost one commit. No handler is called before that
//! commit; and when it turns out otherwise, the log is read again.

use std::collections::HashSet;
use std::sync::Arc;

use engine_core::decider::{AttemptRef, CompensationTask, Stimulus};
use engine_core::event::{Draft, Seal};
use engine_core::port::store::AppendAs;
use engine_core::{Result, SignalId, Timestamp};
use worker::{History, ReadyStep};

/// What one turn decides.
pub(crate) struct Turn {
    /// What is to be appended.
    pub(crate) drafts: Vec<Draft>,
    /// What is called once that is stored.
    pub(crate) ready: Vec<(AttemptRef, u32, ReadyStep)>,
    /// What is handed out once that is stored.
    pub(crate) hand_out: Vec<AttemptRef>,
    /// The attempts among these.
    pub(crate) prepared: HashSet<AttemptRef>,
    /// What is undone once that is stored.
    pub(crate) undo: Option<(CompensationTask, ReadyStep)>,
    /// Signals that are decided by this.
    pub(crate) signals: Vec<SignalId>,
    /// When to look again, if nothing comes before.
    pub(crate) due: Option<Timestamp>,
    pub(crate) now: Timestamp,
    expected: u64,
    folded_through: u64,
    emitted_by: Arc<str>,
    correlation_id: Arc<str>,
}

impl Turn {
    pub(crate) fn new(history: &History, emitted_by: &Arc<str>, now: Timestamp) -> Self {
        let state = history.run().state();
        Self {
            drafts: Vec::new(),
            ready: Vec::new(),
            hand_out: Vec::new(),
            prepared: HashSet::new(),
            undo: None,
            signals: Vec::new(),
            due: None,
            now,
            expected: state.decisions(),
            folded_through: state.folded_through(),
            emitted_by: Arc::clone(emitted_by),
            correlation_id: Arc::from(""),
        }
    }

    /// Asks for a look at this time, or before.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Decides about something and folds what follows; says whether anything does.
    ///
    /// # Errors
    /// When the run does not allow it.
    pub(crate) fn decide(&mut self, history: &mut History, stimulus: Stimulus) -> Result<bool> {
        let drafts = history.run().decide(stimulus)?;
        let some = !drafts.is_empty();
        self.fold(history, drafts);
        Ok(some)
    }

    /// Folds events as if they were stored.
    pub(crate) fn fold(&mut self, history: &mut History, drafts: Vec<Draft>) {
        let (run_id, plan_version) =
            (history.run_id().clone(), history.code().plan().document().version.clone());
        for draft in drafts {
            let seal = Seal {
                event_id: uuid::Uuid::nil(),
                run_id: &run_id,
                run_seq: history.run().state().watermark() + 1,
                emitted_at: self.now,
                emitted_by: &self.emitted_by,
                correlation_id: &self.correlation_id,
                plan_version: &plan_version,
            };
            let event = draft.seal(seal);
            history.evolve(&event);
            self.drafts.push(Draft {
                subject: event.subject,
                occurred_at: event.occurred_at,
                body: event.body,
            });
        }
    }

    /// How it is appended.
    pub(crate) fn append_as(&self) -> AppendAs {
        AppendAs::on(self.expected, self.folded_through, &self.drafts)
    }

    /// Where the first of its events stands when nobody else has written.
    pub(crate) fn first_place(&self) -> u64 {
        self.folded_through + 1
    }
}
