//! Drivers that do not see everything at once: one that is behind the workers, and a workflow that folds siblings in
//! another order than the log. Neither may hang, and both must come to what the log says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use engine_core::SignalId;
use engine_core::decider::{Dispatched, Report, Run, StepReport, Stimulus};
use engine_core::event::step::{StepCompleted, StepError, StepStarted, StepWaiting};
use engine_core::event::{Draft, Event};
use engine_core::failure::FailureClass;
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::Completion;
use engine_core::port::store::AppendAs;
use engine_core::signal::{Command, ManualOutcome, PauseMode, Signal};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{TOKEN, World, completion, id};

fn plans() -> Vec<Value> {
    let plan = |failure: Value, steps: Value| {
        json!({
            "id": "p", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 2}, "failure": failure,
            "steps": steps,
        })
    };
    let step = |id: &str, needs: &[&str], extra: Value| {
        let mut step = json!({"id": id, "handler": "x", "dependsOn": needs});
        step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        step
    };
    let skip = || json!({"onFailure": "skip"});
    vec![
        plan(
            json!({}),
            json!([step("a", &[], json!({})), step("b", &[], json!({})), step("c", &["a"], json!({}))]),
        ),
        plan(
            json!({}),
            json!([
                step("a", &[], json!({"onFailure": "pause"})),
                step("b", &[], json!({})),
                step("c", &["a", "b"], json!({}))
            ]),
        ),
        plan(
            json!({}),
            json!([
                step("a", &[], skip()),
                step("b", &[], json!({"onFailure": "retry", "maxRetries": 1})),
                step("c", &["a", "b"], skip())
            ]),
        ),
        plan(
            json!({}),
            json!([
                step("a", &[], json!({"fallback": "f"})),
                step("f", &[], json!({})),
                step("b", &[], skip()),
                step("c", &["a"], skip())
            ]),
        ),
        plan(
            json!({"continueOnPartialFailure": true}),
            json!([
                step("a", &[], json!({"fallback": "f"})),
                step("f", &[], json!({})),
                step("b", &[], json!({})),
                step("c", &["a"], json!({})),
                {"id": "d", "handler": "x", "dependsOn": [{"step": "b", "required": false}]}
            ]),
        ),
        plan(
            json!({}),
            json!([
                step("a", &[], json!({"completion": "manual", "onFailure": "skip"})),
                step("b", &[], skip()),
                step("c", &["a"], skip())
            ]),
        ),
        plan(
            json!({"failFast": "cancel", "compensateOnCancel": true}),
            json!([
                step("a", &[], json!({"compensation": {"handler": "undo"}})),
                step("b", &[], json!({})),
                step("c", &["a"], json!({}))
            ]),
        ),
        plan(
            json!({"orphans": "reject"}),
            json!([step("a", &[], skip()), step("b", &[], skip()), step("c", &["a"], skip())]),
        ),
        plan(
            json!({"continueOnPartialFailure": true}),
            json!([
                step("a", &[], json!({})),
                step("b", &[], json!({"schedule": {"delayMs": 5}})),
                step("c", &["a"], json!({"schedule": {"delayMs": 5}}))
            ]),
        ),
    ]
}

/// Choices that never run out: what is given, mixed so that no pattern keeps one kind of move away for ever.
struct Choices<'a> {
    given: &'a [usize],
    next: usize,
    mixed: u64,
}

impl Choices<'_> {
    fn of(&mut self, count: usize) -> usize {
        let given = self.given[self.next % self.given.len()] as u64;
        self.next += 1;
        self.mixed = self.mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * given + 1);
        usize::try_from(self.mixed >> 33).unwrap() % count
    }
}

/// What a worker does next with an attempt that stands so in the log.
fn work(choices: &mut Choices<'_>, run: &Run, step: &str, status: StepStatus) -> Report {
    let definition = run.plan().step(run.plan().find(step).unwrap());
    if status == StepStatus::Pending {
        return Report::Started(StepStarted {
            handler: definition.handler.clone(),
            agent: None,
            worker: "w".into(),
            claim_until: None,
            idempotency_token: None,
        });
    }
    if choices.of(3) == 0 {
        let error = StepError::new(FailureClass::Permanent, "BadRequest", "");
        return Report::Failed { error, started_at: None, ended_at: None };
    }
    match definition.completion {
        Completion::Auto => Report::Completed(StepCompleted::default()),
        Completion::Manual => {
            Report::Waiting(StepWaiting { completion_token: TOKEN.into(), output: None, prompt: None })
        }
    }
}

/// A worker looks at the log and tells what happened to an attempt it was handed.
fn tell_of(choices: &mut Choices<'_>, world: &mut World, handed: &Dispatched, released_by_driver: bool) {
    let step = handed.attempt.step.as_str();
    let view = world.run.attempt(step).unwrap();
    if view.attempt != handed.attempt.attempt || view.status.is_terminal() || world.ended() {
        return;
    }
    let report = work(choices, &world.run, step, view.status);
    let told = StepReport { released_by_driver, ..StepReport::new(id(step), view.attempt, report) };
    if let Ok(drafts) = world.run.decide(Stimulus::Step(Box::new(told))) {
        let how = AppendAs::of(&world.run, &drafts);
        world.offer(drafts, how);
    }
}

fn person(choices: &mut Choices<'_>, run: &Run) -> Stimulus {
    let steps: Vec<_> = run.attempts().map(|view| view.step).collect();
    let step_id = steps[choices.of(steps.len())].clone();
    let command = match choices.of(9) {
        0 => Command::Pause { mode: PauseMode::Drain },
        1 => Command::Pause { mode: PauseMode::Immediate },
        2 | 3 => Command::Resume,
        4 => Command::RetryStep { step_id, cascade: true },
        5 => Command::RetryStep { step_id, cascade: false },
        6 => Command::SkipStep { step_id },
        7 if choices.of(3) == 0 => Command::Cancel,
        7 => Command::Resume,
        _ => completion(step_id.as_str(), TOKEN, ManualOutcome::Succeeded, "bob"),
    };
    let signal_id = SignalId::new(format!("z{}", choices.next)).unwrap();
    Stimulus::Signal(Box::new(Signal { signal_id, actor: "ops".into(), reason: None, command }))
}

/// What a driver wants to append next: what follows from its view, else a signal, else a timer.
fn decisions(choices: &mut Choices<'_>, world: &mut World, driver: &Run, people: bool) -> Vec<Draft> {
    let settled = driver.settle();
    if !settled.is_empty() {
        return settled;
    }
    if people && choices.of(2) == 0 {
        return driver.decide(person(choices, driver)).unwrap();
    }
    if let Some(task) = driver.actions().compensate {
        let outcome = Ok(BTreeMap::new());
        return driver.decide(Stimulus::Compensation { step: task.attempt.step, outcome }).unwrap();
    }
    if let (Some(attempt), true) = (driver.actions().cancel.first(), choices.of(2) == 0) {
        let stopped = StepReport::new(attempt.step.clone(), attempt.attempt, Report::Cancelled);
        return driver.decide(Stimulus::Step(Box::new(stopped))).unwrap();
    }
    let timers = driver.actions().timers;
    match timers.first() {
        Some(timer) if choices.of(3) == 0 || driver.actions().dispatch.is_empty() => {
            world.now = world.now.max(timer.due_at);
            driver.decide(Stimulus::TimerDue { timer: timer.timer.clone(), now: world.now }).unwrap()
        }
        _ => Vec::new(),
    }
}

/// Appends for a driver and folds what the store says: its own events, or after a conflict what it did not know.
fn append_for(world: &mut World, driver: &mut Run, drafts: Vec<Draft>) -> bool {
    let before = world.log.len();
    let how = AppendAs::of(driver, &drafts);
    let stored = world.offer(drafts, how);
    let from = if stored { before } else { usize::try_from(driver.state().folded_through()).unwrap() };
    for event in &world.log[from..] {
        driver.evolve(event);
    }
    stored
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_driver_that_is_behind_its_workers_never_hangs_a_run(
        plan in 0usize..9, given in prop::collection::vec(0usize..997, 8..60),
    ) {
        let mut choices = Choices { given: &given, next: 0, mixed: 1 };
        let mut world = World::started(plans().swap_remove(plan));
        let mut driver = world.run.clone();
        for _ in 0..given.len() {
            match choices.of(5) {
                0 | 1 => {
                    let handed = world.actions().dispatch;
                    if !handed.is_empty() {
                        let handed = handed[choices.of(handed.len())].clone();
                        tell_of(&mut choices, &mut world, &handed, false);
                    }
                }
                2 | 3 => {
                    let drafts = decisions(&mut choices, &mut world, &driver, true);
                    if !drafts.is_empty() {
                        append_for(&mut world, &mut driver, drafts);
                    }
                }
                _ => driver = world.run.clone(),
            }
        }
        // From here on somebody sees everything: each append must be taken, and the run must end.
        for _ in 0..1000 {
            let drafts = world.run.settle();
            if drafts.is_empty() {
                break;
            }
            let how = AppendAs::of(&world.run, &drafts);
            prop_assert!(world.offer(drafts.clone(), how), "conflicts for ever: {drafts:?}\n{}", world.story());
        }
        world.finish(true);
    }

    #[test]
    fn a_workflow_that_folds_siblings_in_another_order_comes_to_what_the_log_says(
        plan in 0usize..9, given in prop::collection::vec(0usize..997, 8..60), people in any::<bool>(),
    ) {
        let mut choices = Choices { given: &given, next: 0, mixed: 1 };
        let mut world = World::started(plans().swap_remove(plan));
        let mut workflow = world.run.clone();
        // Events that activities have written and not returned yet, by step.
        let mut returning: BTreeMap<String, VecDeque<Arc<Event>>> = BTreeMap::new();
        for round in 0..600 {
            if workflow.state().status().is_some_and(RunStatus::is_terminal) {
                break;
            }
            let people = people && round < given.len();
            match choices.of(3) {
                0 => {
                    let handed = workflow.actions().dispatch;
                    if handed.is_empty() {
                        continue;
                    }
                    let handed = handed[choices.of(handed.len())].clone();
                    let before = world.log.len();
                    tell_of(&mut choices, &mut world, &handed, true);
                    let step = handed.attempt.step.to_string();
                    returning.entry(step).or_default().extend(world.log[before..].iter().cloned());
                }
                1 => {
                    let ready: Vec<String> =
                        returning.iter().filter(|(_, events)| !events.is_empty()).map(|(step, _)| step.clone()).collect();
                    if !ready.is_empty() {
                        let step = &ready[choices.of(ready.len())];
                        let event = returning.get_mut(step).and_then(VecDeque::pop_front).unwrap();
                        workflow.evolve(&event);
                    }
                }
                _ => {
                    let waits = workflow.actions().dispatch.is_empty() && returning.values().all(VecDeque::is_empty);
                    let paused = workflow.state().status() == Some(RunStatus::Paused);
                    let drafts = decisions(&mut choices, &mut world, &workflow, people);
                    let drafts = if drafts.is_empty() && waits && !people {
                        rescue(&workflow, paused, round)
                    } else {
                        drafts
                    };
                    if !drafts.is_empty() {
                        append_for(&mut world, &mut workflow, drafts);
                    }
                }
            }
        }
        for events in returning.values() {
            for event in events {
                workflow.evolve(event);
            }
        }
        let statuses = |run: &Run| -> Vec<String> {
            run.attempts().map(|view| format!("{}#{}={}", view.step, view.attempt, view.status)).collect()
        };
        prop_assert_eq!(statuses(&workflow), statuses(&world.run), "{}", world.story());
        prop_assert_eq!(workflow.state().status(), world.run.state().status(), "{}", world.story());
        prop_assert_eq!(workflow.state().decisions(), world.run.state().decisions());
        prop_assert_eq!(workflow.state().folded_through(), world.log.len() as u64);
        prop_assert!(world.ended(), "hangs: {:?}\n{}", workflow.view(), world.story());
    }
}

/// What a person does when nothing else can happen: completes what waits, resumes what is paused.
fn rescue(workflow: &Run, paused: bool, round: usize) -> Vec<Draft> {
    let waiting = workflow.attempts().find(|view| {
        view.substatus.is_some_and(|substatus| substatus.as_str() == "WAITING_FOR_MANUAL_COMPLETION")
    });
    let command = match waiting {
        Some(view) => completion(view.step.as_str(), TOKEN, ManualOutcome::Succeeded, "bob"),
        None if paused => Command::Resume,
        None => return Vec::new(),
    };
    let signal_id = SignalId::new(format!("rescue-{round}")).unwrap();
    let signal = Signal { signal_id, actor: "ops".into(), reason: None, command };
    workflow.decide(Stimulus::Signal(Box::new(signal))).unwrap()
}
