//! Steps that a person ends.

use engine_core::event::Body;
use engine_core::signal::{ManualCompletion, ManualOutcome};
use engine_core::{Code, Error, Result, RunId, StepId};
use serde_json::Value;

use crate::Client;
use crate::ask::{Ask, Decision};

/// How a person completed a step.
#[derive(Clone, Debug)]
pub struct Completion {
    /// How it ended.
    pub outcome: ManualOutcome,
    /// The token of the step's StepWaiting event; `None`: the one that stands in the log now.
    pub token: Option<String>,
    /// What the step produced; `None`: what its handler did.
    pub output: Option<Value>,
    /// What the person wrote about it.
    pub notes: Option<String>,
    /// Evidence for it, by reference.
    pub evidence: Vec<String>,
}

impl Completion {
    /// The step is done.
    #[must_use]
    pub fn succeeded() -> Self {
        Self {
            outcome: ManualOutcome::Succeeded,
            token: None,
            output: None,
            notes: None,
            evidence: Vec::new(),
        }
    }

    /// The step cannot be done.
    #[must_use]
    pub fn failed() -> Self {
        Self { outcome: ManualOutcome::Failed, ..Self::succeeded() }
    }

    /// The step is not wanted any more.
    #[must_use]
    pub fn cancelled() -> Self {
        Self { outcome: ManualOutcome::Cancelled, ..Self::succeeded() }
    }

    /// What the step produced.
    #[must_use]
    pub fn output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }
}

impl Client {
    /// Ends a step that waits for a person.
    ///
    /// # Errors
    /// As [`Client::ask`]; `STEP_NOT_WAITING` when no token was given and the step does not wait.
    pub async fn complete(&self, run_id: &RunId, step: &StepId, completion: Completion) -> Result<Decision> {
        let ask = self.completion(run_id, step, completion, None).await?;
        self.ask(run_id, ask).await
    }

    /// What [`Client::complete`] asks, by `actor` or whoever the client is for.
    ///
    /// # Errors
    /// `STEP_NOT_WAITING` when no token was given and the step does not wait.
    pub async fn completion(
        &self,
        run_id: &RunId,
        step: &StepId,
        completion: Completion,
        actor: Option<&str>,
    ) -> Result<Ask> {
        let token = match completion.token {
            Some(token) => token,
            None => self.completion_token(run_id, step).await?,
        };
        let actor = actor.unwrap_or(&self.0.actor).to_owned();
        let manual = ManualCompletion {
            schema_version: 1,
            completion_token: token,
            outcome: completion.outcome,
            actor_user_id: actor.clone(),
            completed_at_iso: self.0.clock.now(),
            notes: completion.notes,
            evidence_refs: completion.evidence,
        };
        Ok(Ask::complete(step.clone(), manual, completion.output).by(actor))
    }

    /// The token of the step's latest wait, as long as nothing ended it.
    async fn completion_token(&self, run_id: &RunId, step: &StepId) -> Result<String> {
        let mut token = None;
        self.each_event(run_id, |event| {
            let same = event.subject.as_ref().is_some_and(|subject| subject.step == *step);
            match &event.body {
                Body::StepWaiting(waiting) if same => token = Some(waiting.completion_token.clone()),
                Body::StepCompleted(_) | Body::StepFailed(_) | Body::StepCancelled(_) if same => token = None,
                _ => {}
            }
        })
        .await?;
        token.ok_or_else(|| {
            Error::new(Code::StepNotWaiting, format!("step {step} does not wait for a person"))
                .with_hint("look at the run's status for steps that wait")
        })
    }
}
