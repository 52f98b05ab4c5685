//! Everything that can happen next in a world, and walks through it.

use std::collections::BTreeMap;

use engine_core::decider::{Dispatched, Report, Stimulus};
use engine_core::event::step::{StepCompleted, StepError, StepWaiting};
use engine_core::failure::FailureClass;
use engine_core::machine::RunStatus;
use engine_core::plan::Completion;
use engine_core::signal::{Command, ManualOutcome, PauseMode};
use serde_json::{Value, json};

use super::plans::{Behaviour, Scenario};
use super::{TOKEN, World, completion, id};

/// One thing that a worker, a timer or a person can do.
#[derive(Clone, Debug)]
pub enum Move {
    Start(String),
    Succeed(String),
    Fail(String),
    Skip(String),
    GiveUp(String),
    LoseWorker(String),
    Wait(String),
    Review(String),
    Stop(String),
    Compensate { step: String, well: bool },
    FireTimer(usize),
    Signal(Command),
}

impl World {
    /// What a worker does with an attempt that was dispatched.
    pub fn work_moves(&self, dispatched: &Dispatched, rich: bool) -> Vec<Move> {
        let step = dispatched.attempt.step.to_string();
        if !dispatched.started {
            let mut moves = vec![Move::Start(step.clone())];
            if rich {
                moves.push(Move::Skip(step));
            }
            return moves;
        }
        let plan = self.run.plan();
        let definition = plan.step(plan.find(&step).expect("a step"));
        let mut moves = match definition.completion {
            Completion::Auto => vec![Move::Succeed(step.clone())],
            Completion::Manual => vec![Move::Wait(step.clone())],
        };
        moves.push(Move::Fail(step.clone()));
        if rich {
            moves.extend([Move::GiveUp(step.clone()), Move::LoseWorker(step.clone()), Move::Review(step)]);
        }
        moves
    }

    /// Steps that wait for a person.
    pub fn waiting(&self) -> Vec<String> {
        let waits = |substatus: Option<engine_core::machine::StepSubstatus>| {
            substatus == Some(engine_core::machine::StepSubstatus::WaitingForManualCompletion)
        };
        self.run.attempts().filter(|view| waits(view.substatus)).map(|view| view.step.to_string()).collect()
    }

    /// Everything the machinery can do, people not counted.
    pub fn machine_moves(&self, rich: bool) -> Vec<Move> {
        let actions = self.actions();
        let mut moves: Vec<Move> =
            actions.dispatch.iter().flat_map(|dispatched| self.work_moves(dispatched, rich)).collect();
        moves.extend(actions.cancel.iter().map(|attempt| Move::Stop(attempt.step.to_string())));
        moves.extend((0..actions.timers.len()).map(Move::FireTimer));
        if let Some(task) = &actions.compensate {
            let step = task.attempt.step.to_string();
            moves.push(Move::Compensate { step: step.clone(), well: true });
            moves.push(Move::Compensate { step, well: false });
        }
        moves
    }

    /// Every signal that makes a difference, and some that are refused.
    pub fn people_moves(&self) -> Vec<Move> {
        let mut commands = vec![
            Command::Pause { mode: PauseMode::Drain },
            Command::Pause { mode: PauseMode::Immediate },
            Command::Resume,
        ];
        for view in self.run.attempts() {
            for cascade in [true, false] {
                commands.push(Command::RetryStep { step_id: view.step.clone(), cascade });
            }
            commands.push(Command::SkipStep { step_id: view.step.clone() });
        }
        for step in self.waiting() {
            for outcome in [ManualOutcome::Succeeded, ManualOutcome::Failed, ManualOutcome::Cancelled] {
                commands.push(completion(&step, TOKEN, outcome, "bob"));
            }
        }
        commands.into_iter().map(Move::Signal).collect()
    }

    /// Makes a move. `false` when it was refused and nothing changed but the log of refusals.
    pub fn make(&mut self, next: &Move) -> bool {
        let report = |world: &mut Self, step: &str, report| world.report(step, report).is_ok();
        match next {
            Move::Start(step) => self.begin(step).is_ok(),
            Move::Succeed(step) => report(self, step, Report::Completed(StepCompleted::default())),
            Move::Fail(step) => self.fail_for_good(step).is_ok(),
            Move::Skip(step) => report(self, step, Report::ConditionFalse),
            Move::GiveUp(step) | Move::Stop(step) => report(self, step, Report::Cancelled),
            Move::LoseWorker(step) => report(self, step, Report::WorkerLost { message: "gone".into() }),
            Move::Wait(step) => {
                let waiting = StepWaiting { completion_token: TOKEN.into(), output: None, prompt: None };
                report(self, step, Report::Waiting(waiting))
            }
            Move::Review(step) => {
                let context = BTreeMap::new();
                report(self, step, Report::ReviewRequested { reason: "look".into(), context })
            }
            Move::Compensate { step, well } => {
                let error = StepError::new(FailureClass::Transient, "ETIMEDOUT", "");
                let outcome = if *well { Ok(BTreeMap::new()) } else { Err(error) };
                self.tell(Stimulus::Compensation { step: id(step), outcome }).is_ok()
            }
            Move::FireTimer(position) => {
                let timer = self.actions().timers[*position].clone();
                self.now = self.now.max(timer.due_at);
                self.fire(timer.timer);
                true
            }
            Move::Signal(command) => self.signal(command.clone()).is_ok(),
        }
    }

    pub fn ended(&self) -> bool {
        self.status().is_terminal()
    }

    /// Lets everything end: work, waits, pauses, delays. Panics when that does not end the run.
    pub fn finish(&mut self, well: bool) {
        for _ in 0..400 {
            if self.ended() {
                return;
            }
            let actions = self.actions();
            let next = if let Some(dispatched) = actions.dispatch.first() {
                let moves = self.work_moves(dispatched, false);
                moves[if well { 0 } else { moves.len() - 1 }].clone()
            } else if let Some(attempt) = actions.cancel.first() {
                Move::Stop(attempt.step.to_string())
            } else if let Some(task) = &actions.compensate {
                Move::Compensate { step: task.attempt.step.to_string(), well }
            } else if let Some(step) = self.waiting().first() {
                let outcome = if well { ManualOutcome::Succeeded } else { ManualOutcome::Failed };
                Move::Signal(completion(step, TOKEN, outcome, "bob"))
            } else if self.status() == RunStatus::Paused {
                Move::Signal(Command::Resume)
            } else if !actions.timers.is_empty() {
                Move::FireTimer(0)
            } else {
                panic!("stuck: {:?}\n{}", self.run.view(), self.story());
            };
            assert!(self.make(&next), "{next:?} was refused\n{}", self.story());
        }
        panic!("no end in sight: {:?}\n{}", self.run.view(), self.story());
    }

    /// Plays a scenario to its end; `choose` picks which of several possible moves comes next.
    pub fn play(&mut self, scenario: &Scenario, mut choose: impl FnMut(usize) -> usize) {
        for _ in 0..5000 {
            if self.ended() {
                return;
            }
            let moves = self.scripted_moves(scenario);
            assert!(!moves.is_empty(), "stuck: {:?}\n{}", self.run.view(), self.story());
            let next = moves[choose(moves.len()) % moves.len()].clone();
            assert!(self.make(&next), "{next:?} was refused\n{}", self.story());
        }
        panic!("no end in sight\n{}", self.story());
    }

    /// What can happen next when handlers behave as the scenario says.
    pub fn scripted_moves(&self, scenario: &Scenario) -> Vec<Move> {
        let actions = self.actions();
        let mut moves = Vec::new();
        for dispatched in &actions.dispatch {
            let step = dispatched.attempt.step.to_string();
            let position = self.run.plan().find(&step).expect("a step").position();
            let behaviour = scenario.behaviour[position];
            moves.push(match (dispatched.started, behaviour) {
                (false, Behaviour::ConditionFalse) => Move::Skip(step),
                (false, _) => Move::Start(step),
                (true, Behaviour::Fail) => Move::Fail(step),
                (true, Behaviour::FailOnce) if dispatched.attempt.attempt == 1 => Move::Fail(step),
                (true, Behaviour::Cancel) => Move::GiveUp(step),
                (true, _) => Move::Succeed(step),
            });
        }
        moves.extend(actions.cancel.iter().map(|attempt| Move::Stop(attempt.step.to_string())));
        if let Some(task) = &actions.compensate {
            moves.push(Move::Compensate { step: task.attempt.step.to_string(), well: true });
        }
        moves.extend((0..actions.timers.len()).map(Move::FireTimer));
        moves
    }

    /// What the future depends on: the state without times and counters, and places in the log by rank.
    pub fn essence(&self) -> String {
        let mut state = serde_json::to_value(self.run.state()).expect("a state");
        let mut places = Vec::new();
        collect_places(&state, &mut places);
        places.sort_unstable();
        places.dedup();
        normalise(&mut state, &places);
        state.to_string()
    }
}

/// Counters, names and times that no decision of these plans depends on.
const IRRELEVANT: [&str; 14] = [
    "watermark",
    "floor",
    "above",
    "decisions",
    "notBefore",
    "signals",
    "signal",
    "clock",
    "number",
    "since",
    "due",
    "delays",
    "engineAttempt",
    "reviews",
];

fn is_place(name: &str) -> bool {
    matches!(name, "endSeq" | "seq")
}

fn collect_places(value: &Value, places: &mut Vec<u64>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_place(name) {
                    places.extend(value.as_u64());
                }
                collect_places(value, places);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_places(item, places)),
        _ => {}
    }
}

fn normalise(value: &mut Value, places: &[u64]) {
    match value {
        Value::Object(fields) => {
            for irrelevant in IRRELEVANT {
                if let Some(field) = fields.get_mut(irrelevant)
                    && !field.is_null()
                {
                    *field = json!("…");
                }
            }
            for (name, value) in fields.iter_mut() {
                if is_place(name) {
                    *value = json!(places.binary_search(&value.as_u64().unwrap_or(0)).unwrap_or(0));
                } else {
                    normalise(value, places);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, places)),
        _ => {}
    }
}
