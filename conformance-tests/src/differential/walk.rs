//! What is done to a run: chosen by chance among what the model can take, and then whatever brings the run to its end. It
//! becomes a scenario, with the answers and the lengths of the log that the model has.

use std::sync::Arc;

use engine_core::machine::RunStatus;
use engine_core::plan::CompiledPlan;
use engine_core::signal::Command;
use engine_core::{StepId, Timestamp};
use serde_json::Value;

use super::model::{Model, Wrong};
use crate::scenario::{Act, Asking, Gate, Scenario, What};

/// More than any run needs.
const ACTS: usize = 500;

/// Times that are let pass: a moment, more than a backoff, more than a grace.
const SPANS: [u64; 3] = [7, 1511, 6007];

/// A model that was walked to the end of its run, and how.
#[derive(Debug)]
pub struct Walk {
    /// The model at the end.
    pub model: Model,
    /// What was done.
    pub scenario: Scenario,
}

/// Something that can be done now.
#[derive(Clone, Debug)]
enum Move {
    Open(String),
    Ask(What, Option<StepId>),
    Pass(u64),
}

impl Walk {
    /// Walks a run of a plan to its end. None when the plan is none that anybody could start.
    ///
    /// # Errors
    /// When the model breaks, which is as bad as an engine that does.
    pub fn of(plan: &Value, choices: &[u16]) -> Result<Option<Self>, Wrong> {
        let Ok(compiled) = CompiledPlan::read(&plan.to_string()) else { return Ok(None) };
        let model = Model::start(Arc::new(compiled), Timestamp::from_millis(0))?;
        let scenario = Scenario {
            about: "A counterexample of random testing.".to_owned(),
            plan: plan.clone(),
            acts: Vec::new(),
            ends: None,
        };
        let mut walk = Self { model, scenario };
        walk.keep_step();
        for choice in choices {
            if walk.ended() {
                break;
            }
            let moves = walk.moves();
            walk.make(&moves[usize::from(*choice) % moves.len()])?;
        }
        while !walk.ended() {
            let next = walk.towards_the_end();
            walk.make(&next)?;
            if walk.scenario.acts.len() > ACTS {
                return Err("the model does not come to its end".to_owned());
            }
        }
        walk.scenario.ends = walk.model.status();
        Ok(Some(walk))
    }

    fn ended(&self) -> bool {
        self.model.status().is_some_and(RunStatus::is_terminal)
    }

    /// What can be done now; what leads on stands there more often.
    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (gate, _) in self.model.at_gates() {
            moves.extend(vec![Move::Open(gate); 4]);
        }
        for step in self.model.waiting() {
            moves.extend(vec![Move::Ask(What::Complete, Some(step)); 2]);
        }
        moves.extend(vec![Move::Ask(What::Resume, None); 2]);
        moves.extend([What::Pause, What::Approve, What::Cancel].map(|what| Move::Ask(what, None)));
        for step in &self.model.run().plan().document().steps {
            moves.push(Move::Ask(What::Retry, Some(step.id.clone())));
            moves.push(Move::Ask(What::Skip, Some(step.id.clone())));
        }
        moves.extend(SPANS.map(Move::Pass));
        moves
    }

    fn towards_the_end(&self) -> Move {
        if let Some((gate, _)) = self.model.at_gates().into_iter().next() {
            return Move::Open(gate);
        }
        if let Some(step) = self.model.waiting().into_iter().next() {
            return Move::Ask(What::Complete, Some(step));
        }
        match self.model.status() {
            Some(RunStatus::Pending) => Move::Ask(What::Approve, None),
            Some(RunStatus::Paused) => Move::Ask(What::Resume, None),
            _ => Move::Ask(What::Cancel, None),
        }
    }

    fn make(&mut self, next: &Move) -> Result<(), Wrong> {
        let act = match next {
            Move::Open(gate) => {
                self.model.open(gate)?;
                Act::Open(Gate { gate: gate.clone(), calls: 1 })
            }
            Move::Pass(millis) => {
                self.model.pass(*millis)?;
                Act::Pass(*millis)
            }
            Move::Ask(what, step) => {
                let answer = self.ask(*what, step.as_ref())?;
                Act::Ask(Asking { what: *what, step: step.clone(), answer })
            }
        };
        self.scenario.acts.push(act);
        self.keep_step();
        Ok(())
    }

    fn ask(&mut self, what: What, step: Option<&StepId>) -> Result<Option<String>, Wrong> {
        let step = || step.cloned().ok_or_else(|| format!("{what:?} names no step"));
        let command = match what {
            What::Pause => Model::pause(),
            What::Resume => Command::Resume,
            What::Cancel => Command::Cancel,
            What::Approve => Command::Approve,
            What::Retry => Command::RetryStep { step_id: step()?, cascade: true },
            What::Skip => Command::SkipStep { step_id: step()? },
            What::Complete => self.model.completion(&step()?)?,
        };
        self.model.ask(command)
    }

    /// The engine does not go on before it has come to where the model is.
    fn keep_step(&mut self) {
        self.scenario.acts.push(Act::Logged(self.model.log().len() as u64));
        for (gate, calls) in self.model.at_gates() {
            self.scenario.acts.push(Act::AtGate(Gate { gate, calls }));
        }
    }
}
