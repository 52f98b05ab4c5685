//! One run of a case: signals, waiting, reading.

use client::{Ask, Completion, Decision};
use engine_core::event::{Body, Event, EventType};
use engine_core::machine::RunStatus;
use engine_core::port::store::{ReadRequest, StepProgress};
use engine_core::projection::{RunSnapshot, StepSnapshot};
use engine_core::{Code, Error, RunId, SignalId, StepId};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::World;
use crate::history::line;
use crate::verdict::Stop;
use crate::{ensure, ensure_eq};

/// A run of a case.
#[derive(Clone, Debug)]
pub struct TestRun {
    pub(super) world: World,
    /// The run.
    pub run_id: RunId,
    /// Whether the call that gave it made it.
    pub fresh: bool,
}

impl TestRun {
    /// The same run, seen by somebody else: another tenant, another actor, another process.
    #[must_use]
    pub fn seen_by(&self, world: &World) -> Self {
        Self { world: world.clone(), ..self.clone() }
    }

    /// Asks something of the run, and gives the answer whatever it is.
    ///
    /// # Errors
    /// The answer of the implementation, when it decided nothing.
    pub async fn ask(&self, ask: Ask) -> Result<Decision, Error> {
        let call = format!("{ask:?}");
        let answer = self.world.client.ask(&self.run_id, ask).await;
        self.world.called(&call, &answer);
        answer
    }

    /// Asks something of the run that must be accepted; gives the place of the acceptance in the log.
    ///
    /// # Errors
    /// Fail when it is refused or not decided.
    pub async fn accept(&self, ask: Ask) -> Result<u64, Stop> {
        let call = format!("{ask:?}");
        match self.ask(ask).await? {
            Decision::Accepted { run_seq } => Ok(run_seq),
            other => Err(Stop::Fail(format!("{call} must be accepted, and the answer is {other:?}"))),
        }
    }

    /// Asks something of the run that must be refused with a code. The log grows by exactly one SignalRejected with that
    /// code, and nothing else changes.
    ///
    /// # Errors
    /// Fail when it is accepted, refused otherwise, or leaves something else in the log.
    pub async fn refuse(&self, ask: Ask, code: Code) -> Result<(), Stop> {
        let signal_id = SignalId::new(uuid::Uuid::new_v4().to_string())?;
        let call = format!("{ask:?}");
        let before = self.events().await?;
        let decision = self.ask(ask.with_id(signal_id.clone())).await?;
        let Decision::Rejected { code: seen, .. } = &decision else {
            return Err(Stop::Fail(format!(
                "{call} must be refused with {}, and the answer is {decision:?}",
                code.as_str()
            )));
        };
        ensure_eq!(seen.as_str(), code.as_str(), "the code of the refusal of {call}");
        let grown = self.grown_since(&before).await?;
        let as_expected = match grown.as_slice() {
            [event] => matches!(&event.body, Body::SignalRejected(rejected)
                if rejected.signal_id == signal_id && rejected.code == code.as_str()),
            _ => false,
        };
        let lines: Vec<String> = grown.iter().map(line).collect();
        ensure!(as_expected, "a refused {call} leaves one SignalRejected and nothing else: {lines:?}");
        Ok(())
    }

    /// Asks something that is refused before anything is stored, as what is malformed or unsupported: an error with a
    /// code, and a log that did not grow.
    ///
    /// # Errors
    /// Fail when it is decided, answered with another code, or leaves something in the log.
    pub async fn refuse_at_the_door(&self, ask: Ask, code: Code) -> Result<(), Stop> {
        let call = format!("{ask:?}");
        let before = self.events().await?;
        match self.ask(ask).await {
            Err(error) => ensure_eq!(error.code(), code, "the code of the error of {call}"),
            Ok(decision) => {
                return Err(Stop::Fail(format!("{call} must be an error, and the answer is {decision:?}")));
            }
        }
        let grown: Vec<String> = self.grown_since(&before).await?.iter().map(line).collect();
        ensure!(grown.is_empty(), "{call} must leave nothing in the log: {grown:?}");
        Ok(())
    }

    /// What the log has now and had not then; what was there is still the same.
    async fn grown_since(&self, before: &[Event]) -> Result<Vec<Event>, Stop> {
        let mut events = self.events().await?;
        ensure!(events.starts_with(before), "what is in a log does not change");
        Ok(events.split_off(before.len()))
    }

    /// What COMPLETE_STEP asks, with the token that stands in the log.
    ///
    /// # Errors
    /// Fail when the step does not wait.
    pub async fn completion(&self, step: &str, completion: Completion) -> Result<Ask, Stop> {
        let step = StepId::new(step)?;
        Ok(self.world.client.completion(&self.run_id, &step, completion, None).await?)
    }

    /// Waits for an event of a type.
    ///
    /// # Errors
    /// Fail when it does not come.
    pub async fn until(&self, event_type: EventType) -> Result<Event, Stop> {
        self.until_event(event_type.as_str(), |event| event.body.event_type() == Some(event_type)).await
    }

    /// Waits for an event of a type about a step.
    ///
    /// # Errors
    /// Fail when it does not come.
    pub async fn until_step(&self, event_type: EventType, step: &str) -> Result<Event, Stop> {
        self.until_event(&format!("{event_type} of {step}"), |event| {
            event.body.event_type() == Some(event_type)
                && event.subject.as_ref().is_some_and(|subject| subject.step.as_str() == step)
        })
        .await
    }

    /// Waits for the event that `met` wants, from the beginning of the log.
    ///
    /// # Errors
    /// Fail when it does not come.
    pub async fn until_event(&self, what: &str, met: impl Fn(&Event) -> bool) -> Result<Event, Stop> {
        let request = ReadRequest {
            tenant_id: self.world.client.scope().tenant_id.clone(),
            run_id: self.run_id.clone(),
            after: 0,
            limit: 1000,
        };
        let mut events = self.world.shared.subject.store.tail(request);
        let found = async {
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) if self.world.counts(&event) && met(&event) => return Ok(event),
                    Ok(_) => {}
                    Err(error) => return Err(Stop::from(error)),
                }
            }
            Err(Stop::Fail(format!("the log ended before {what}")))
        };
        self.world.in_time(what, found).await?
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// Fail when it does not end.
    pub async fn ended(&self) -> Result<RunStatus, Stop> {
        let ends = |event: &Event| client::read::ends_a_run(event);
        Ok(match self.until_event("the end of the run", ends).await?.body {
            Body::RunCompleted(_) => RunStatus::Completed,
            Body::RunFailed(_) => RunStatus::Failed,
            _ => RunStatus::Cancelled,
        })
    }

    /// Waits for the end of the run, which must be this one.
    ///
    /// # Errors
    /// Fail when it does not end, or otherwise.
    pub async fn ends(&self, status: RunStatus) -> Result<(), Stop> {
        ensure_eq!(self.ended().await?, status, "the end of the run");
        Ok(())
    }

    /// Waits until a step shows that it is so far.
    ///
    /// # Errors
    /// Fail when it does not.
    pub async fn until_progress(&self, step: &str, done: f64) -> Result<StepProgress, Stop> {
        let shown = async {
            loop {
                let told = self.world.client.step_progress(&self.run_id).await?;
                let so_far = |found: &StepProgress| {
                    found.step_id.as_str() == step && (found.done - done).abs() < f64::EPSILON
                };
                if let Some(found) = told.into_iter().find(so_far) {
                    return Ok(found);
                }
                // Progress is no event: nobody tells when there is more.
                tokio::task::yield_now().await;
            }
        };
        self.world.in_time(&format!("progress {done} of {step}"), shown).await?
    }

    /// Says that nothing that `met` wants comes while so much time passes, nor has come before. Where time is the
    /// machine's, no longer than [`crate::Timeouts::quiet`].
    ///
    /// # Errors
    /// Fail when it comes.
    pub async fn never(&self, millis: u64, what: &str, met: impl Fn(&Event) -> bool) -> Result<(), Stop> {
        let millis = self.world.lookout(millis);
        self.world.pass(millis).await?;
        let events = self.events().await?;
        let found: Vec<String> = events.iter().filter(|event| met(event)).map(line).collect();
        ensure!(found.is_empty(), "{what} must not come within {millis} ms: {found:?}");
        Ok(())
    }

    /// The log as it stands now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn events(&self) -> Result<Vec<Event>, Stop> {
        let mut events = self.world.log(&self.run_id).await?;
        events.retain(|event| self.world.counts(event));
        Ok(events)
    }

    /// The log as lines: `Type` or `Type step#attempt`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn lines(&self) -> Result<Vec<String>, Stop> {
        Ok(self.events().await?.iter().map(line).collect())
    }

    /// The first event of a type that stands in the log now, as JSON.
    ///
    /// # Errors
    /// Fail when there is none.
    pub async fn event(&self, event_type: EventType) -> Result<Value, Stop> {
        let events = self.events().await?;
        let found = events.iter().find(|event| event.body.event_type() == Some(event_type));
        let Some(event) = found else { return Err(Stop::Fail(format!("there is no {event_type}"))) };
        json(event)
    }

    /// How many events of a type stand in the log now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn count(&self, event_type: EventType) -> Result<usize, Stop> {
        let events = self.events().await?;
        Ok(events.iter().filter(|event| event.body.event_type() == Some(event_type)).count())
    }

    /// The run's snapshot.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn snapshot(&self) -> Result<RunSnapshot, Stop> {
        Ok(self.world.client.get(&self.run_id).await?)
    }

    /// The snapshot of one step.
    ///
    /// # Errors
    /// Fail when the snapshot has no such step.
    pub async fn step(&self, step: &str) -> Result<StepSnapshot, Stop> {
        let snapshot = self.snapshot().await?;
        let found = snapshot.steps.into_iter().find(|found| found.step_id.as_str() == step);
        found.ok_or_else(|| Stop::Fail(format!("the snapshot has no step {step}")))
    }
}

/// An event as it is written.
///
/// # Errors
/// When it cannot be written.
pub fn json(event: &Event) -> Result<Value, Stop> {
    serde_json::to_value(event).map_err(|cause| Stop::Fail(format!("an event cannot be written: {cause}")))
}
