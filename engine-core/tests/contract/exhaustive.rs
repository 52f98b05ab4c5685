//! A bounded exhaustive search: every reachable state of small plans under all orders of outcomes and signals.
//!
//! No reachable state is stuck: without CANCEL and run timeout, when every attempt in flight ends, every wait is
//! completed and every pause resumed, a terminal state is reached. Each state is also checked to be settled, to
//! survive being carried, and to refuse nothing that `actions` asks for.

use std::collections::BTreeSet;

use crate::support::World;
use engine_core::decider::Run;
use serde_json::{Value, json};

struct Search {
    /// Signals on one path.
    signals: u32,
    /// Logical attempts of one step.
    attempts: u32,
    /// Also lost workers, reviews, conditions and handlers that give up.
    rich: bool,
}

/// Visits every reachable state, those with fewer signals first, and returns how many there are.
fn search(plan: Value, bounds: &Search) -> usize {
    let first = World::started(plan);
    let mut seen = BTreeSet::from([first.essence()]);
    let mut current = vec![first];
    for signals in 0..=bounds.signals {
        let mut after_a_signal = Vec::new();
        while let Some(world) = current.pop() {
            check(&world);
            if world.ended() || world.run.attempts().any(|view| view.attempt > bounds.attempts) {
                continue;
            }
            for next in world.machine_moves(bounds.rich) {
                let mut changed = world.clone();
                assert!(changed.make(&next), "{next:?} was refused\n{}", world.story());
                if seen.insert(changed.essence()) {
                    current.push(changed);
                }
            }
            if signals < bounds.signals {
                for next in world.people_moves() {
                    let mut changed = world.clone();
                    if changed.make(&next) {
                        after_a_signal.push(changed);
                    }
                }
            }
        }
        // Only what fewer signals did not reach is new.
        current = after_a_signal.into_iter().filter(|world| seen.insert(world.essence())).collect();
    }
    seen.len()
}

fn check(world: &World) {
    assert!(world.run.settle().is_empty(), "not settled\n{}", world.story());
    let restored = Run::restore(world.run.plan().clone(), world.run.state().clone()).expect("restored");
    assert_eq!(restored, world.run, "carrying changes the state\n{}", world.story());
    for well in [true, false] {
        world.clone().finish(well);
    }
}

fn plan(failure: Value, mut steps: Value) -> Value {
    for step in steps.as_array_mut().expect("a list of steps") {
        step["maxLosses"] = json!(1);
    }
    json!({
        "id": "small", "version": "1", "mode": "graph", "limits": {"maxConcurrency": 2}, "failure": failure,
        "steps": steps,
    })
}

fn explore(name: &str, plan: Value, bounds: &Search, at_least: usize) {
    let states = search(plan, bounds);
    assert!(states >= at_least, "{name}: only {states} states, so the search is not what it was");
}

const NARROW: Search = Search { signals: 3, attempts: 2, rich: false };
const RICH: Search = Search { signals: 1, attempts: 2, rich: true };

#[test]
fn a_chain_with_a_pausing_failure_is_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "onFailure": "pause"},
        {"id": "b", "handler": "x", "dependsOn": ["a"]},
    ]);
    explore("chain", plan(json!({}), steps.clone()), &NARROW, 500);
    explore("chain", plan(json!({"pauseOnHumanReview": true}), steps), &RICH, 3000);
}

#[test]
fn a_fallback_is_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "fallback": "f"},
        {"id": "f", "handler": "x"},
        {"id": "b", "handler": "x", "dependsOn": ["a"]},
    ]);
    explore("fallback", plan(json!({}), steps.clone()), &NARROW, 3000);
    explore("tolerant fallback", plan(json!({"continueOnPartialFailure": true}), steps), &RICH, 40000);
}

#[test]
fn partial_failure_with_optional_and_required_edges_is_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x"},
        {"id": "b", "handler": "x", "dependsOn": [{"step": "a", "required": false}], "onFailure": "skip"},
        {"id": "c", "handler": "x", "dependsOn": ["a"]},
    ]);
    let tolerant = json!({"continueOnPartialFailure": true});
    explore("partial", plan(tolerant, steps), &NARROW, 6000);
}

#[test]
fn retry_and_reassign_are_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "onFailure": "retry", "maxRetries": 1},
        {"id": "b", "handler": "x", "onFailure": "reassign", "agents": ["one", "two"]},
    ]);
    explore("actions", plan(json!({}), steps), &NARROW, 1400);
}

#[test]
fn manual_completion_is_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "completion": "manual", "onFailure": "pause"},
        {"id": "b", "handler": "x", "dependsOn": ["a"], "completion": "manual"},
    ]);
    explore("manual", plan(json!({}), steps), &NARROW, 380);
}

#[test]
fn orphans_are_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "fallback": "f"},
        {"id": "f", "handler": "x"},
        {"id": "b", "handler": "x", "dependsOn": [{"step": "a", "required": false}]},
    ]);
    explore("orphans", plan(json!({"orphans": "reject"}), steps), &NARROW, 2900);
}

#[test]
fn compensation_is_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "compensation": {"handler": "undo"}},
        {"id": "b", "handler": "x", "compensation": {"handler": "undo"}},
        {"id": "c", "handler": "x", "dependsOn": ["a", "b"]},
    ]);
    explore("saga", plan(json!({"failFast": "cancel"}), steps), &Search { signals: 2, ..NARROW }, 2500);
}

#[test]
fn delays_are_never_stuck() {
    let steps = json!([
        {"id": "a", "handler": "x", "schedule": {"delayMs": 10}},
        {"id": "b", "handler": "x", "dependsOn": ["a"], "schedule": {"delayMs": 10}},
    ]);
    explore("delays", plan(json!({}), steps), &NARROW, 700);
}
