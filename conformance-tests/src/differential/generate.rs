//! Random plans, what their steps do, and what is done to their runs.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A plan, and numbers that choose what is done to its run.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The plan, with scripts.
    pub plan: Value,
    /// Each chooses among what can be done when nothing else happens.
    pub choices: Vec<u16>,
}

/// The most steps of a plan, fallbacks not counted.
const STEPS: usize = 6;

#[derive(Clone, Debug)]
struct StepShape {
    /// For each earlier step: no edge, required, optional.
    edges: Vec<u8>,
    priority: u8,
    agent: Option<u8>,
    on_failure: OnFailure,
    script: Script,
    undo: Undo,
    delay: bool,
    manual: bool,
    condition_false: bool,
}

#[derive(Clone, Copy, Debug)]
enum OnFailure {
    Default,
    Abort,
    Skip,
    Retry,
    Reassign,
    Pause,
    /// Whether the one that stands in succeeds.
    Fallback(bool),
}

/// What a step's handler does. One that may end otherwise than well waits at a gate of its own, so that it ends when
/// nothing else happens, and the order of things does not hang on how fast a machine is.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// Succeeds, after so many tries.
    Quick(u32),
    /// Takes some time.
    Slow,
    /// Waits at its gate, and then succeeds.
    Gated { deaf: bool },
    /// Waits at its gate, and fails for good, at its first calls or at all.
    Fails(Option<u32>),
    /// Waits at its gate, and fails its first tries.
    Falters(u32),
}

#[derive(Clone, Copy, Debug)]
enum Undo {
    No,
    Succeeds,
    Falters,
    Fails,
}

#[derive(Clone, Debug)]
struct Whole {
    max_concurrency: u32,
    per_agent: u32,
    drain: bool,
    run_timeout: bool,
    max_failures: Option<u32>,
    go_on: bool,
    fail_fast: bool,
    compensate_on_cancel: bool,
    reject_orphans: bool,
    approval: bool,
    sequential: bool,
}

fn script() -> impl Strategy<Value = Script> {
    prop_oneof![
        3 => (0u32..3).prop_map(Script::Quick),
        1 => Just(Script::Slow),
        4 => prop::bool::weighted(0.2).prop_map(|deaf| Script::Gated { deaf }),
        3 => prop::option::of(1u32..3).prop_map(Script::Fails),
        2 => (1u32..4).prop_map(Script::Falters),
    ]
}

fn on_failure() -> impl Strategy<Value = OnFailure> {
    prop_oneof![
        3 => Just(OnFailure::Default),
        1 => Just(OnFailure::Abort),
        1 => Just(OnFailure::Skip),
        2 => Just(OnFailure::Retry),
        1 => Just(OnFailure::Reassign),
        2 => Just(OnFailure::Pause),
        2 => any::<bool>().prop_map(OnFailure::Fallback),
    ]
}

fn undo() -> impl Strategy<Value = Undo> {
    prop_oneof![4 => Just(Undo::No), 3 => Just(Undo::Succeeds), 1 => Just(Undo::Falters), 1 => Just(Undo::Fails)]
}

fn step(steps: usize) -> impl Strategy<Value = StepShape> {
    (
        prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => Just(2)], steps),
        0u8..4,
        prop::option::weighted(0.3, 0u8..2),
        on_failure(),
        script(),
        undo(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.12),
        prop::bool::weighted(0.06),
    )
        .prop_map(
            |(edges, priority, agent, on_failure, script, undo, delay, manual, condition_false)| StepShape {
                edges,
                priority,
                agent,
                on_failure,
                script,
                undo,
                delay,
                manual,
                condition_false,
            },
        )
}

fn whole() -> impl Strategy<Value = Whole> {
    (
        (1u32..5, 1u32..3, prop::bool::weighted(0.3), prop::bool::weighted(0.1)),
        (prop::option::weighted(0.1, 0u32..3), prop::bool::weighted(0.3), prop::bool::weighted(0.2)),
        (
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.15),
        ),
    )
        .prop_map(|(limits, failure, rest)| Whole {
            max_concurrency: limits.0,
            per_agent: limits.1,
            drain: limits.2,
            run_timeout: limits.3,
            max_failures: failure.0,
            go_on: failure.1,
            fail_fast: failure.2,
            compensate_on_cancel: rest.0,
            reject_orphans: rest.1,
            approval: rest.2,
            sequential: rest.3,
        })
}

/// Everything that is chosen by chance.
pub fn draws() -> impl Strategy<Value = Draw> {
    (1..=STEPS)
        .prop_flat_map(|steps| {
            (prop::collection::vec(step(steps), steps), whole(), prop::collection::vec(any::<u16>(), 0..30))
        })
        .prop_map(|(steps, whole, choices)| Draw { plan: plan(&steps, &whole), choices })
}

fn plan(shapes: &[StepShape], whole: &Whole) -> Value {
    let mut steps: Vec<Value> =
        shapes.iter().enumerate().map(|(position, shape)| built(position, shape, whole.sequential)).collect();
    for (position, shape) in shapes.iter().enumerate() {
        if let OnFailure::Fallback(succeeds) = shape.on_failure {
            let gate = format!("f{position}");
            let with = if succeeds {
                json!({"gate": gate})
            } else {
                json!({"gate": gate, "fail": {"class": "permanent"}})
            };
            steps.push(json!({"id": gate, "handler": "other", "with": with}));
        }
    }
    let mut limits = json!({"maxConcurrency": whole.max_concurrency, "perAgent": whole.per_agent});
    if whole.drain {
        limits["drainTimeoutMs"] = json!(4001);
    }
    if whole.run_timeout {
        limits["runTimeoutMs"] = json!(9001);
    }
    if let Some(failures) = whole.max_failures {
        limits["maxFailures"] = json!(failures);
    }
    json!({
        "id": "drawn",
        "version": "1.0.0",
        "mode": if whole.sequential { "sequential" } else { "graph" },
        "approval": if whole.approval { "required" } else { "auto" },
        "limits": limits,
        "failure": {
            "continueOnPartialFailure": whole.go_on,
            "failFast": if whole.fail_fast { "cancel" } else { "finish" },
            "compensateOnCancel": whole.compensate_on_cancel,
            "orphans": if whole.reject_orphans { "reject" } else { "accept" },
        },
        "steps": steps,
    })
}

fn built(position: usize, shape: &StepShape, sequential: bool) -> Value {
    let id = format!("s{position}");
    let with = match shape.script {
        Script::Quick(0) => json!({}),
        Script::Quick(times) => json!({"fail": {"class": "transient", "times": times.min(2)}}),
        // Of its own for each step: no two end at the same time.
        Script::Slow => json!({"waitMs": 1013 * (position + 1)}),
        Script::Gated { deaf: false } => json!({"gate": id}),
        Script::Gated { deaf: true } => json!({"gate": id, "deaf": true}),
        Script::Fails(None) => json!({"gate": id, "fail": {"class": "permanent"}}),
        Script::Fails(Some(times)) => json!({"gate": id, "fail": {"class": "permanent", "times": times}}),
        Script::Falters(times) => json!({"gate": id, "fail": {"class": "transient", "times": times}}),
    };
    let mut step = json!({
        "id": id,
        "handler": "script",
        "priority": shape.priority,
        "retry": {"maxAttempts": 3, "initialBackoffMs": 101 + 17 * position, "backoffMultiplier": 3.0},
        "with": with,
    });
    if !sequential {
        let edges = (0..position).filter(|earlier| shape.edges[*earlier] != 0);
        let needs: Vec<Value> = edges
            .map(|earlier| json!({"step": format!("s{earlier}"), "required": shape.edges[earlier] == 1}))
            .collect();
        step["dependsOn"] = json!(needs);
    }
    if let Some(agent) = shape.agent {
        step["agent"] = json!(format!("agent{agent}"));
        step["agents"] = json!(["agent0", "agent1"]);
    }
    match shape.on_failure {
        OnFailure::Default => {}
        OnFailure::Abort => step["onFailure"] = json!("abort"),
        OnFailure::Skip => step["onFailure"] = json!("skip"),
        OnFailure::Retry => {
            step["onFailure"] = json!("retry");
            step["maxRetries"] = json!(1);
        }
        OnFailure::Reassign => {
            step["onFailure"] = json!("reassign");
            step["agents"] = json!(["agent0", "agent1"]);
        }
        OnFailure::Pause => step["onFailure"] = json!("pause"),
        OnFailure::Fallback(_) => step["fallback"] = json!(format!("f{position}")),
    }
    match shape.undo {
        Undo::No => {}
        Undo::Succeeds => step["compensation"] = json!({"handler": "undo", "with": {}}),
        Undo::Falters => {
            step["compensation"] =
                json!({"handler": "undo", "with": {"fail": {"class": "transient", "times": 1}}});
        }
        Undo::Fails => {
            step["compensation"] = json!({"handler": "undo", "with": {"fail": {"class": "permanent"}}});
        }
    }
    if shape.delay {
        step["schedule"] = json!({"delayMs": 503 + 29 * position});
    }
    if shape.manual {
        step["completion"] = json!("manual");
    }
    if shape.condition_false {
        step["when"] = json!("`false`");
    }
    step
}
