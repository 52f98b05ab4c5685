//! Signals: what is asked of a run, and the decision on it.

use std::time::Duration;

use engine_core::event::signal::SignalRejected;
use engine_core::event::step::StepOutput;
use engine_core::event::{Body, Draft};
use engine_core::port::store::{AppendAs, AppendRequest, ReadRequest};
use engine_core::port::{Capability, Operation, SignalRequest};
use engine_core::signal::{Command, ManualCompletion, PauseMode, Signal};
use engine_core::{Code, Error, Result, RunId, SignalId, StepId};
use futures_util::StreamExt as _;
use serde_json::Value;
use uuid::Uuid;

use crate::Client;
use crate::read::PAGE;

/// What is asked of a run. Asking twice with the same id is asking once.
#[derive(Clone, Debug)]
pub struct Ask {
    command: Command,
    signal_id: Option<SignalId>,
    actor: Option<String>,
    reason: Option<String>,
}

impl Ask {
    fn new(command: Command) -> Self {
        Self { command, signal_id: None, actor: None, reason: None }
    }

    /// Release nothing new; what is in flight finishes.
    #[must_use]
    pub fn pause() -> Self {
        Self::new(Command::Pause { mode: PauseMode::Drain })
    }

    /// Give up what is in flight at once; it is done again after the run resumes. Not every engine can.
    #[must_use]
    pub fn pause_immediately() -> Self {
        Self::new(Command::Pause { mode: PauseMode::Immediate })
    }

    /// Go on.
    #[must_use]
    pub fn resume() -> Self {
        Self::new(Command::Resume)
    }

    /// Stop everything.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(Command::Cancel)
    }

    /// Let a run start that waits for approval.
    #[must_use]
    pub fn approve() -> Self {
        Self::new(Command::Approve)
    }

    /// Do an ended step again, and with `cascade` everything that depends on it.
    #[must_use]
    pub fn retry(step: StepId, cascade: bool) -> Self {
        Self::new(Command::RetryStep { step_id: step, cascade })
    }

    /// Go on without a step.
    #[must_use]
    pub fn skip(step: StepId) -> Self {
        Self::new(Command::SkipStep { step_id: step })
    }

    /// End a step that waits for a person.
    #[must_use]
    pub fn complete(step: StepId, completion: ManualCompletion, output: Option<Value>) -> Self {
        let output = output.map(|value| Box::new(StepOutput { value: Some(value), ..StepOutput::default() }));
        Self::new(Command::CompleteStep { step_id: step, completion: Box::new(completion), output })
    }

    /// The request's own id: asking again with it changes nothing.
    #[must_use]
    pub fn with_id(mut self, id: SignalId) -> Self {
        self.signal_id = Some(id);
        self
    }

    /// Who asks; otherwise whoever the client is for.
    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Why.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The run does it.
    Accepted {
        /// The place of the decision in the log.
        run_seq: u64,
    },
    /// The run does not.
    Rejected {
        /// Why, as a stable code.
        code: String,
        /// Why, for a person.
        message: String,
    },
    /// It is stored and nobody has decided yet; whoever drives the run will.
    Undecided {
        /// To ask again for.
        signal_id: SignalId,
    },
}

impl Decision {
    /// `Ok` when accepted.
    ///
    /// # Errors
    /// The code and reason of a rejection; `ENGINE_UNAVAILABLE` when nobody has decided yet.
    pub fn into_result(self) -> Result<()> {
        match self {
            Self::Accepted { .. } => Ok(()),
            Self::Rejected { code, message } => {
                Err(Error::new(Code::parse(&code).unwrap_or(Code::SignalInvalidPayload), message))
            }
            Self::Undecided { signal_id } => Err(Error::new(
                Code::EngineUnavailable,
                format!("signal {signal_id} is stored, and nobody has decided about it yet"),
            )
            .with_hint("start a worker for this store; the signal is not lost")),
        }
    }
}

impl Client {
    /// Asks something of a run and waits for the decision, up to the signal timeout.
    ///
    /// # Errors
    /// `NOT_FOUND`, `SIGNAL_INVALID_PAYLOAD`, `UNSUPPORTED` for what the engine cannot do, or what keeps the engine
    /// from taking the signal. A refusal, also by the authorizer, is no error but a [`Decision`].
    pub async fn ask(&self, run_id: &RunId, ask: Ask) -> Result<Decision> {
        let asked = self.submit(run_id, ask).await?;
        self.decision(&asked, self.0.signal_timeout).await
    }

    /// Asks something of a run without waiting for the decision.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn submit(&self, run_id: &RunId, ask: Ask) -> Result<Asked> {
        let signal = Signal {
            signal_id: match ask.signal_id {
                Some(id) => id,
                None => SignalId::new(Uuid::now_v7().to_string())?,
            },
            actor: ask.actor.unwrap_or_else(|| self.0.actor.clone()),
            reason: ask.reason,
            command: ask.command,
        };
        signal.check()?;
        if matches!(signal.command, Command::Pause { mode: PauseMode::Immediate }) {
            self.engine().capabilities().require(Capability::ImmediatePause, self.engine().name())?;
        }
        // Only what is new decides: a signal that was decided before is found from the start.
        let record = self.0.store.find(self.tenant(), run_id).await?;
        let asked = Asked { run_id: run_id.clone(), signal_id: signal.signal_id.clone() };
        let operation = Operation::Signal(run_id.clone(), signal.signal_type());
        match self.authorize(&signal.actor, operation).await {
            Ok(()) => {}
            Err(error) if error.code() == Code::AuthzDenied => {
                self.reject(&asked, &signal, &error).await?;
                return Ok(asked);
            }
            Err(error) => return Err(error),
        }
        if record.status.is_terminal() {
            // Nobody drives an ended run any more, so nobody would answer.
            let error = Error::new(Code::RunTerminal, format!("the run is {}", record.status));
            self.reject(&asked, &signal, &error).await?;
            return Ok(asked);
        }
        let request = SignalRequest { tenant_id: self.tenant().clone(), run_id: run_id.clone(), signal };
        self.engine().signal(request).await?;
        Ok(asked)
    }

    /// The decision on a signal, once it is there or the time is over.
    ///
    /// # Errors
    /// `NOT_FOUND` when the tenant has no such run.
    pub async fn decision(&self, asked: &Asked, patience: Duration) -> Result<Decision> {
        match tokio::time::timeout(patience, self.decided(asked)).await {
            Ok(decision) => decision,
            Err(_) => Ok(Decision::Undecided { signal_id: asked.signal_id.clone() }),
        }
    }

    async fn decided(&self, asked: &Asked) -> Result<Decision> {
        let mut events = self.0.store.tail(ReadRequest {
            tenant_id: self.tenant().clone(),
            run_id: asked.run_id.clone(),
            after: 0,
            limit: PAGE,
        });
        while let Some(event) = events.next().await {
            let event = event?;
            match event.body {
                Body::SignalAccepted(accepted) if accepted.signal_id == asked.signal_id => {
                    return Ok(Decision::Accepted { run_seq: event.run_seq });
                }
                Body::SignalRejected(rejected) if rejected.signal_id == asked.signal_id => {
                    return Ok(Decision::Rejected { code: rejected.code, message: rejected.message });
                }
                _ => {}
            }
        }
        Ok(Decision::Undecided { signal_id: asked.signal_id.clone() })
    }

    /// A refusal at the boundary stands in the log like any other. It changes no state.
    async fn reject(&self, asked: &Asked, signal: &Signal, error: &Error) -> Result<()> {
        let rejected = SignalRejected {
            signal_id: signal.signal_id.clone(),
            signal_type: signal.signal_type(),
            actor: signal.actor.clone(),
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
        };
        let request = AppendRequest {
            tenant_id: self.tenant().clone(),
            run_id: asked.run_id.clone(),
            drafts: vec![Draft::run(rejected)],
            emitted_by: self.0.emitted_by.clone(),
            append_as: AppendAs::Worker,
            fence: None,
        };
        self.0.store.append(request).await.map(|_| ())
    }

    /// Releases nothing new; what is in flight finishes.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn pause(&self, run_id: &RunId) -> Result<Decision> {
        self.ask(run_id, Ask::pause()).await
    }

    /// Lets a paused run go on.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn resume(&self, run_id: &RunId) -> Result<Decision> {
        self.ask(run_id, Ask::resume()).await
    }

    /// Stops everything.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn cancel(&self, run_id: &RunId) -> Result<Decision> {
        self.ask(run_id, Ask::cancel()).await
    }

    /// Does an ended step again, with everything that depends on it.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn retry(&self, run_id: &RunId, step: &StepId) -> Result<Decision> {
        self.ask(run_id, Ask::retry(step.clone(), true)).await
    }

    /// Goes on without a step.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn skip(&self, run_id: &RunId, step: &StepId) -> Result<Decision> {
        self.ask(run_id, Ask::skip(step.clone())).await
    }

    /// Lets a run start that waits for approval.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn approve(&self, run_id: &RunId) -> Result<Decision> {
        self.ask(run_id, Ask::approve()).await
    }
}

/// A signal that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The run.
    pub run_id: RunId,
    /// The signal.
    pub signal_id: SignalId,
}
