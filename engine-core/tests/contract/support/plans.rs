//! Random small plans, and what their handlers do.

use proptest::prelude::*;
use serde_json::{Value, json};

/// What an attempt's handler does, fixed per step so that an interleaving cannot change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Succeed,
    Fail,
    /// Fails for good the first time, then succeeds.
    FailOnce,
    ConditionFalse,
    Cancel,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub plan: Value,
    pub behaviour: Vec<Behaviour>,
}

#[derive(Clone, Debug)]
struct StepShape {
    /// For each earlier step: no edge, required, optional.
    edges: Vec<u8>,
    priority: u8,
    agent: Option<u8>,
    action: u8,
    fallback: bool,
    compensation: bool,
    delay: bool,
    behaviour: u8,
}

fn step_shape(size: usize) -> impl Strategy<Value = StepShape> {
    (
        prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => Just(2)], size),
        0u8..4,
        prop::option::of(0u8..2),
        0u8..5,
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::bool::weighted(0.15),
        0u8..12,
    )
        .prop_map(|(edges, priority, agent, action, fallback, compensation, delay, behaviour)| {
            StepShape { edges, priority, agent, action, fallback, compensation, delay, behaviour }
        })
}

/// What kind of plans to make.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    pub failures: bool,
    pub continue_on_partial_failure: bool,
    pub delays: bool,
}

/// Random graphs of up to `largest` steps with fallbacks, agents, priorities, limits and compensations.
pub fn scenarios(largest: usize, wanted: Wanted) -> impl Strategy<Value = Scenario> {
    (1..=largest)
        .prop_flat_map(|size| (prop::collection::vec(step_shape(size), size), 1u32..5, 1u32..3))
        .prop_map(move |(shapes, concurrency, per_agent)| build(&shapes, concurrency, per_agent, wanted))
}

fn build(shapes: &[StepShape], concurrency: u32, per_agent: u32, wanted: Wanted) -> Scenario {
    let mut steps = Vec::new();
    let mut behaviour = Vec::new();
    for (position, shape) in shapes.iter().enumerate() {
        let depends_on: Vec<Value> = (0..position)
            .filter(|earlier| shape.edges[*earlier] != 0)
            .map(|earlier| json!({"step": format!("s{earlier}"), "required": shape.edges[earlier] == 1}))
            .collect();
        let mut step = json!({
            "id": format!("s{position}"), "handler": "work", "dependsOn": depends_on, "priority": shape.priority,
        });
        if let Some(agent) = shape.agent {
            step["agent"] = json!(format!("agent{agent}"));
            step["agents"] = json!(["agent0", "agent1", "agent2"]);
        }
        if shape.compensation {
            step["compensation"] = json!({"handler": "undo"});
        }
        if shape.delay && wanted.delays {
            step["schedule"] = json!({"delayMs": 50});
        }
        behaviour.push(match shape.behaviour {
            0 => Behaviour::ConditionFalse,
            1 | 2 if wanted.failures => Behaviour::Fail,
            3 if wanted.failures => Behaviour::FailOnce,
            4 if wanted.failures => Behaviour::Cancel,
            _ => Behaviour::Succeed,
        });
        if shape.fallback {
            step["fallback"] = json!(format!("f{position}"));
        } else {
            step["onFailure"] =
                json!(["abort", "skip", "retry", "reassign", "abort"][usize::from(shape.action)]);
            step["maxRetries"] = json!(1);
        }
        steps.push(step);
    }
    for (position, shape) in shapes.iter().enumerate() {
        if shape.fallback {
            steps.push(json!({"id": format!("f{position}"), "handler": "fallback"}));
            let fails = wanted.failures && shape.behaviour % 3 == 0;
            behaviour.push(if fails { Behaviour::Fail } else { Behaviour::Succeed });
        }
    }
    let plan = json!({
        "id": "random", "version": "1", "mode": "graph",
        "limits": {"maxConcurrency": concurrency, "perAgent": per_agent},
        "failure": {"continueOnPartialFailure": wanted.continue_on_partial_failure},
        "steps": steps,
    });
    Scenario { plan, behaviour }
}
