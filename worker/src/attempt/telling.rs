//! What goes into the log about an attempt: decided by the decider, folded as the store has it.

use engine_core::decider::{Report, StepReport, Stimulus};
use engine_core::event::step::StepError;
use engine_core::event::{Body, Event};
use engine_core::failure::FailureClass;
use engine_core::port::store::{AppendAs, AppendRequest, Appended};
use engine_core::{Code, Error, Result};

use super::reviews::Reviews;
use super::visit::{Visit, note};
use super::{Delivery, Standing};

/// The longest pause between two tries to record an end.
const LONGEST_PAUSE_MS: u64 = 5000;

impl Visit {
    /// Records an end or a failed try, however long the store needs (BUDGET-5, BUDGET-6).
    pub(super) async fn record(&mut self, mut report: Report) -> Result<Standing> {
        let mut pause_ms = 100;
        loop {
            let error = match self.tell(report.clone()).await {
                Ok(()) => return Ok(self.standing()),
                Err(error) => error,
            };
            if is_late(&error) {
                late(&self.delivery, "the end of the attempt", &error);
                if self.delivery.cancellation.is_cancelled() && pause_ms >= LONGEST_PAUSE_MS {
                    return Err(error);
                }
                let time = self.worker.time().clone();
                time.sleep_until(time.now().plus_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
                continue;
            }
            // An output that no log takes is the step's failure, or it would be done for ever.
            let unstorable = matches!(error.code(), Code::SchemaValidationFailed | Code::PayloadTooLarge);
            if unstorable && matches!(report, Report::Completed(_) | Report::Waiting(_)) {
                let message = format!(
                    "the output of step {} cannot be stored: {}",
                    self.delivery.step_id,
                    error.message()
                );
                let error = StepError::new(FailureClass::Permanent, error.code().as_str(), message);
                report = Report::Failed { error, started_at: None, ended_at: None };
                continue;
            }
            return self.refused(error).await;
        }
    }

    /// The decider or the store refused a report: the log may tell why.
    pub(super) async fn refused(&mut self, error: Error) -> Result<Standing> {
        self.catch_up().await?;
        match (self.settled(), error.code()) {
            (Some(standing), _) => Ok(standing),
            (None, Code::RunTerminal) => Ok(Standing::RunEnded),
            (None, Code::StepTerminal | Code::OrphanedTask) => Ok(Standing::Ended),
            (None, Code::RunEnding) => Ok(Standing::GivenBack),
            (None, _) => Err(error),
        }
    }

    fn standing(&self) -> Standing {
        let retried = |event: &Event| match &event.body {
            Body::StepRetried(retried) => Some(Standing::TryAgain { delay_ms: retried.delay_ms }),
            _ => None,
        };
        let last = || self.events.values().next_back().and_then(retried);
        self.settled().or_else(last).unwrap_or(Standing::GivenBack)
    }

    pub(super) fn stimulus(&self, report: Report) -> Stimulus {
        Stimulus::Step(Box::new(StepReport {
            step: self.delivery.step_id.clone(),
            attempt: self.delivery.attempt,
            engine_attempt: self.delivery.engine_attempt,
            released_by_driver: self.delivery.released_by_driver,
            start: self.unwritten.as_ref().map(|(started, _)| started.clone()),
            report,
        }))
    }

    /// Decides about a report, appends what follows and folds what the store has.
    pub(super) async fn tell(&mut self, report: Report) -> Result<()> {
        loop {
            let mut drafts = self.history.run().decide(self.stimulus(report.clone()))?;
            if drafts.is_empty() {
                return Ok(());
            }
            // BUDGET-4: it goes before the next event, and says since when it is true.
            if let Some((_, since)) = &self.unwritten {
                let start = drafts.iter_mut().find(|draft| matches!(draft.body, Body::StepStarted(_)));
                if let Some(start) = start {
                    start.occurred_at = Some(*since);
                }
            }
            let request = AppendRequest {
                tenant_id: self.delivery.tenant_id.clone(),
                run_id: self.delivery.run_id.clone(),
                append_as: AppendAs::of(self.history.run(), &drafts),
                drafts,
                emitted_by: self.worker.shared.name.clone(),
                fence: None,
            };
            let appended = self.worker.append(request).await?;
            match appended {
                Appended::Stored(stored) => {
                    for stored in stored {
                        self.fold(&stored.event);
                    }
                    self.unwritten = None;
                    return Ok(());
                }
                Appended::Conflict(events) => events.iter().for_each(|event| self.fold(event)),
            }
        }
    }

    fn fold(&mut self, event: &Event) {
        self.history.evolve(event);
        note(&mut self.events, &self.delivery, event);
    }

    pub(super) async fn catch_up(&mut self) -> Result<()> {
        let (events, delivery) = (&mut self.events, &self.delivery);
        let see = |event: &Event| note(events, delivery, event);
        self.history.catch_up(&*self.worker.shared.store, see).await
    }

    /// Writes review requests into the log while the handler runs.
    pub(super) async fn tell_reviews_for_ever(&mut self, reviews: &Reviews) {
        loop {
            reviews.news.notified().await;
            self.tell_reviews(reviews).await;
        }
    }

    /// A request stays in the queue until it is written; writing one again changes nothing, for it has a number.
    pub(super) async fn tell_reviews(&mut self, reviews: &Reviews) {
        while let Some((reason, context)) = reviews.first() {
            let told = self.tell(Report::ReviewRequested { reason, context }).await;
            if let Err(error) = &told {
                tracing::warn!(run_id = %self.delivery.run_id, step_id = %self.delivery.step_id, %error,
                    "a request for review was not recorded");
            }
            reviews.done(told.is_ok());
        }
    }
}

pub(super) fn is_late(error: &Error) -> bool {
    matches!(error.code(), Code::WriteBudgetExceeded | Code::StoreUnavailable)
}

pub(super) fn late(delivery: &Delivery, what: &str, error: &Error) {
    tracing::warn!(alert = Code::WriteBudgetExceeded.as_str(), run_id = %delivery.run_id,
        step_id = %delivery.step_id, %error, "{what} is not written yet");
}
