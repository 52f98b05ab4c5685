//! Scenarios: a plan and what is done to its run, readable without Rust. They lie in `scenarios/`; random testing writes
//! its counterexamples in the same form.
//!
//! - this file: what a scenario says, and how it is played; [`shipped`]: those that the suite brings along.

pub mod shipped;

use client::{Ask, Completion, Decision};
use engine_core::StepId;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ensure_eq;
use crate::verdict::Stop;
use crate::world::{TestRun, World};

/// A plan and what is done to its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is about.
    pub about: String,
    /// The plan, as a user writes one, with the suite's scripts.
    pub plan: Value,
    /// What is done, one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<Act>,
    /// How the run ends; without it, anyhow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<RunStatus>,
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Waits until so many calls have come to a gate.
    AtGate(Gate),
    /// Opens a gate for so many calls.
    Open(Gate),
    /// Waits for an event of this type.
    Until(String),
    /// Waits for an event of this type about a step.
    UntilStep(String, StepId),
    /// Waits until the log has so many events.
    Logged(u64),
    /// Lets so many milliseconds pass.
    Pass(u64),
    /// Asks something of the run.
    Ask(Asking),
    /// Kills everything that drives runs.
    Kill,
    /// Starts it again.
    Restart,
}

/// A gate and a number of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    /// The gate.
    pub gate: String,
    /// How many.
    #[serde(default = "one")]
    pub calls: usize,
}

fn one() -> usize {
    1
}

/// A signal, and the answer that must come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asking {
    /// What is asked.
    pub what: What,
    /// The step it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The code of the refusal that must come, or `any`; without it, the signal must be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// PAUSE.
    Pause,
    /// RESUME.
    Resume,
    /// CANCEL.
    Cancel,
    /// APPROVE.
    Approve,
    /// RETRY_STEP with everything that depends on it.
    Retry,
    /// SKIP_STEP.
    Skip,
    /// COMPLETE_STEP, well.
    Complete,
}

impl Scenario {
    /// Reads a scenario: YAML, of which JSON is a part.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|cause| format!("not a scenario: {cause}"))
    }

    /// Plays it, to the end of its run.
    ///
    /// # Errors
    /// Fail when something does not come, is answered otherwise, or the run ends otherwise.
    pub async fn play(&self, world: &World) -> Result<TestRun, Stop> {
        let run = world.start(&self.plan.to_string()).await?;
        for act in &self.acts {
            self.act(world, &run, act).await?;
        }
        let ended = run.ended().await?;
        if let Some(expected) = self.ends {
            ensure_eq!(ended, expected, "the end of the run");
        }
        Ok(run)
    }

    async fn act(&self, world: &World, run: &TestRun, act: &Act) -> Result<(), Stop> {
        match act {
            Act::AtGate(gate) => world.at_gate(&gate.gate, gate.calls).await.map(|_| ()),
            Act::Open(gate) => {
                world.open_gate_for(&gate.gate, gate.calls);
                Ok(())
            }
            Act::Until(event) => run.until(event_type(event)?).await.map(|_| ()),
            Act::UntilStep(event, step) => {
                run.until_step(event_type(event)?, step.as_str()).await.map(|_| ())
            }
            Act::Logged(events) => {
                let what = format!("event {events}");
                run.until_event(&what, |event| event.run_seq >= *events).await.map(|_| ())
            }
            Act::Pass(millis) => world.pass(*millis).await,
            Act::Ask(asking) => asking.ask(run).await,
            Act::Kill => world.kill().await,
            Act::Restart => world.restart().await,
        }
    }
}

impl Asking {
    async fn ask(&self, run: &TestRun) -> Result<(), Stop> {
        let step = || self.step.clone().ok_or_else(|| Stop::Error(format!("{:?} names no step", self.what)));
        let ask = match self.what {
            What::Pause => Ask::pause(),
            What::Resume => Ask::resume(),
            What::Cancel => Ask::cancel(),
            What::Approve => Ask::approve(),
            What::Retry => Ask::retry(step()?, true),
            What::Skip => Ask::skip(step()?),
            What::Complete => run.completion(step()?.as_str(), Completion::succeeded()).await?,
        };
        let answer = match run.ask(ask).await? {
            Decision::Accepted { .. } => None,
            Decision::Rejected { code, .. } => Some(code),
            Decision::Undecided { .. } => Some("nobody decided".to_owned()),
        };
        if self.answer.as_deref() != Some("any") {
            ensure_eq!(answer, self.answer, "the answer to {:?}", self.what);
        }
        Ok(())
    }
}

fn event_type(name: &str) -> Result<EventType, Stop> {
    EventType::parse(name).ok_or_else(|| Stop::Error(format!("there is no event {name}")))
}
