//! Storing what a turn decided, once, and acting on it.

use std::sync::Arc;

use engine_core::decider::{Actions, AttemptRef};
use engine_core::event::{Body, Draft, Kind, Slot};
use engine_core::port::store::{AppendAs, AppendRequest, Appended};
use engine_core::{Code, Result, Timestamp};

use super::{AWAY, Driver, Next, record};
use crate::faults::{Fault, Moment};
use crate::options::Handover;
use crate::turn::Turn;

impl Driver<'_> {
    /// Appends what the turn decided, once, and then acts on it.
    pub(super) async fn commit(&mut self, mut turn: Turn, actions: &Actions) -> Result<Next> {
        let append_as = turn.append_as();
        let drafts = std::mem::take(&mut turn.drafts);
        let count = drafts.len();
        let ended: Vec<AttemptRef> = drafts.iter().filter_map(ended).collect();
        if count > 0 {
            if self.shared.fault(self.history.run_id(), Moment::BeforeAppend(&drafts)) == Fault::Crash {
                return Ok(Next::Crash);
            }
            if !self.append(drafts, append_as, turn.first_place(), turn.now).await? {
                self.look_for_signals |= !turn.signals.is_empty();
                return Ok(Next::Again);
            }
            match self.shared.fault(self.history.run_id(), Moment::AfterAppend(count)) {
                Fault::None => {}
                Fault::Crash => return Ok(Next::Crash),
                Fault::Forget => self.rebuild().await?,
            }
        }
        for signal_id in &turn.signals {
            self.shared.store().decided(self.history.run_id(), signal_id).await?;
        }
        ended.iter().for_each(|attempt| self.flights.cut_off(attempt));
        for (attempt, try_number, ready) in turn.ready {
            self.between_tries.remove(&attempt);
            self.flights.launch(self.shared, &self.post.mailbox, attempt, try_number, ready);
        }
        if let Handover::Claimed { copies } = self.shared.options.handover {
            for attempt in turn.hand_out {
                let run = (self.history.tenant_id().clone(), self.history.run_id().clone());
                self.flights.deliver(self.shared, &self.post.mailbox, run, attempt, copies);
            }
        }
        if let Some((task, ready)) = turn.undo {
            let mailbox = &self.post.mailbox;
            self.flights.undo(self.shared, mailbox, task.attempt, task.try_number, ready);
        }
        Ok(if actions.finish.is_some() { Next::Ended } else { Next::Wait(turn.due) })
    }

    /// Forgets what is known of the run, and folds its log again (CORE-19).
    async fn rebuild(&mut self) -> Result<()> {
        let (tenant_id, run_id) = (self.history.tenant_id().clone(), self.history.run_id().clone());
        let rebuilt = record::load(self.shared, &tenant_id, &run_id, self.fence).await?;
        if let Some(faults) = &self.shared.options.faults {
            faults.rebuilt(&run_id, rebuilt.run() == self.history.run());
        }
        self.history = rebuilt;
        Ok(())
    }

    /// Appends until the store has it. `false` when it turned out otherwise: then the log was read again, and what workers
    /// told is in it.
    async fn append(
        &mut self,
        drafts: Vec<Draft>,
        append_as: AppendAs,
        first_place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let appended = self.insist(&drafts, append_as).await?;
        if let Some(Appended::Stored(stored)) = &appended {
            let as_thought = stored.iter().zip(first_place..).all(|(stored, place)| {
                let event = &stored.event;
                // A pause before the next try is a minimum: it counts from when the log has it.
                let in_time = event.emitted_at <= now || !backs_off(&event.body);
                stored.fresh && event.run_seq == place && in_time
            });
            if as_thought {
                return Ok(true);
            }
        } else if appended.is_some() {
            // Whatever was decided on an old view is decided anew; what happened has happened.
            let facts: Vec<Draft> = drafts
                .iter()
                .filter(|draft| {
                    draft.body.kind() != Kind::Decision && !matches!(draft.body, Body::StepStarted(_))
                })
                .cloned()
                .collect();
            self.insist(&facts, AppendAs::Worker).await?;
        }
        for draft in &drafts {
            if let (Body::StepStarted(_), Some(subject)) = (&draft.body, &draft.subject) {
                let attempt = AttemptRef { step: subject.step.clone(), attempt: subject.attempt };
                self.between_tries.insert(attempt);
            }
        }
        let (tenant_id, run_id) = (self.history.tenant_id().clone(), self.history.run_id().clone());
        self.history = record::load(self.shared, &tenant_id, &run_id, self.fence).await?;
        Ok(false)
    }

    /// Appends, and goes on trying while the store is away. Nothing when the run has ended meanwhile.
    async fn insist(&self, drafts: &[Draft], append_as: AppendAs) -> Result<Option<Appended>> {
        if drafts.is_empty() {
            return Ok(None);
        }
        loop {
            let request = AppendRequest {
                tenant_id: self.history.tenant_id().clone(),
                run_id: self.history.run_id().clone(),
                drafts: drafts.to_vec(),
                emitted_by: Arc::clone(&self.emitted_by),
                append_as,
                fence: Some(self.fence),
            };
            match self.shared.worker.append(request).await {
                Ok(appended) => return Ok(Some(appended)),
                Err(error) if error.code() == Code::RunTerminal => return Ok(None),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(run_id = %self.history.run_id(), %error, "the log cannot be written for now");
                    tokio::time::sleep(AWAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The attempt that an event ends.
fn ended(draft: &Draft) -> Option<AttemptRef> {
    match Slot::of(draft.subject.as_ref(), &draft.body) {
        Some(Slot::AttemptEnd(step, attempt)) => Some(AttemptRef { step, attempt }),
        _ => None,
    }
}

/// Whether an event is the begin of a pause before the next try.
fn backs_off(body: &Body) -> bool {
    matches!(body, Body::StepRetried(_) | Body::CompensationFailed(_))
}
