//! What is run. However often the process is killed, each of these plans has one way to end.

use std::sync::Arc;

use engine_core::plan::{CompiledPlan, Plan, validate};
use serde_json::{Value, json};

use super::script::{UNDO, WORK};

/// The plans, by name.
pub(crate) const PLANS: [&str; 6] = ["fan", "stubborn", "undone", "waiting", "delayed", "once"];

/// Steps whose name begins so must not be repeated when their worker is lost; whether they succeed is a matter of luck.
pub(crate) const CAREFUL: &str = "careful";

/// The plan of that name.
pub(crate) fn plan(name: &str) -> Arc<CompiledPlan> {
    let document = match name {
        "fan" => fan(),
        "stubborn" => stubborn(),
        "undone" => undone(),
        "waiting" => waiting(),
        "delayed" => delayed(),
        "once" => once(),
        other => panic!("no plan {other}"),
    };
    let plan: Plan = serde_json::from_value(document).expect("a plan");
    validate(&plan).unwrap_or_else(|problems| panic!("plan {name}: {problems:?}"));
    Arc::new(CompiledPlan::new(plan).expect("a valid plan"))
}

/// A step that is patient with a process that is killed again and again.
fn step(id: &str, after: &[&str], with: &Value, more: Value) -> Value {
    let mut step = json!({
        "id": id,
        "handler": WORK,
        "dependsOn": after,
        "with": with,
        "maxLosses": 1000,
        "retry": {"maxAttempts": 3, "initialBackoffMs": 30, "backoffMultiplier": 2.0, "maxBackoffMs": 100},
    });
    let Value::Object(more) = more else { panic!("more fields") };
    let fields = step.as_object_mut().expect("an object");
    fields.extend(more);
    // What must not be repeated has no patience either.
    if fields.contains_key("onWorkerLost") {
        fields.remove("maxLosses");
    }
    step
}

/// The numbers that some steps gave.
fn from(steps: &[&str]) -> Value {
    steps.iter().map(|step| json!(format!("${{ steps.{step}.output.number }}"))).collect()
}

/// More ready steps than may run at once, and what they gave is joined.
fn fan() -> Value {
    let wide = ["b1", "b2", "b3", "b4", "b5"];
    let mut steps = vec![step("a", &[], &json!({"ms": 10}), json!({}))];
    steps.extend(wide.map(|id| step(id, &["a"], &json!({"ms": 30, "given": from(&["a"])}), json!({}))));
    steps.push(step("join", &wide, &json!({"ms": 5, "given": from(&wide)}), json!({})));
    json!({"id": "fan", "version": "1.0", "mode": "graph", "limits": {"maxConcurrency": 3},
           "result": "steps.join.output", "steps": steps})
}

/// Failures of every kind that the run survives.
fn stubborn() -> Value {
    json!({"id": "stubborn", "version": "1.0", "mode": "graph", "result": "steps.last.output", "steps": [
        step("shaky", &[], &json!({"ms": 10, "fails": 2}), json!({})),
        step("again", &[], &json!({"ms": 10, "badAttempts": 1}), json!({"onFailure": "retry", "maxRetries": 2})),
        step("hopeless", &[], &json!({"ms": 5, "fails": 99}), json!({"onFailure": "skip"})),
        step("first_choice", &["shaky"], &json!({"ms": 5, "badAttempts": 99}), json!({"fallback": "stand_in"})),
        step("stand_in", &[], &json!({"ms": 10, "fails": 1}), json!({})),
        step("unwanted", &["shaky"], &json!({"ms": 5}), json!({"when": "input.number > `5`"})),
        step("last", &["again", "hopeless", "first_choice", "unwanted"],
             &json!({"ms": 5, "given": from(&["shaky", "again"])}), json!({})),
    ]})
}

/// A run that fails, with something in flight, and undoes what it did: one undoing fails once, another for good.
fn undone() -> Value {
    let undo = |with: Value| json!({"compensation": {"handler": UNDO, "with": with}});
    json!({"id": "undone", "version": "1.0", "mode": "graph", "steps": [
        step("book", &[], &json!({"ms": 20}), undo(json!({"ms": 20}))),
        step("pay", &[], &json!({"ms": 20, "fails": 1}), undo(json!({"ms": 20}))),
        step("send", &[], &json!({"ms": 10}), json!({"sideEffects": true})),
        step("pack", &["book", "pay"], &json!({"ms": 10}), undo(json!({"ms": 10, "fails": 1}))),
        step("beside", &["pack"], &json!({"ms": 40}), undo(json!({"ms": 10, "badAttempts": 99}))),
        step("doomed", &["pack"], &json!({"ms": 10, "badAttempts": 99}), json!({})),
        step("never", &["doomed"], &json!({"ms": 5}), json!({})),
    ]})
}

/// A run that people approve, and whose steps they complete, with and without an output, or refuse.
fn waiting() -> Value {
    let manual = |more: Value| {
        let mut fields = json!({"completion": "manual"});
        let Value::Object(more) = more else { panic!("more fields") };
        fields.as_object_mut().expect("an object").extend(more);
        fields
    };
    json!({"id": "waiting", "version": "1.0", "mode": "graph", "approval": "required",
           "result": "steps.last.output", "steps": [
        step("gather", &[], &json!({"ms": 10}), json!({})),
        step("sign", &["gather"], &json!({"ms": 10}), manual(json!({}))),
        step("count", &["gather"], &json!({"ms": 10, "fails": 1}), manual(json!({}))),
        step("refused", &["gather"], &json!({"ms": 5}), manual(json!({"onFailure": "skip"}))),
        step("beside", &["gather"], &json!({"ms": 30}), json!({})),
        step("last", &["sign", "count", "refused", "beside"],
             &json!({"ms": 5, "given": from(&["sign", "count", "beside"])}), json!({})),
    ]})
}

/// Steps that wait for a time.
fn delayed() -> Value {
    json!({"id": "delayed", "version": "1.0", "mode": "graph", "result": "steps.last.output", "steps": [
        step("a", &[], &json!({"ms": 20}), json!({})),
        step("soon", &["a"], &json!({"ms": 10}), json!({"schedule": {"delayMs": 60}})),
        step("later", &["a"], &json!({"ms": 10, "fails": 1}), json!({"schedule": {"delayMs": 200}})),
        step("b", &["a"], &json!({"ms": 40}), json!({})),
        step("last", &["soon", "later", "b"], &json!({"ms": 5, "given": from(&["soon", "later", "b"])}), json!({})),
    ]})
}

/// Steps that must not be repeated when their worker is lost.
fn once() -> Value {
    let careful = ["careful_1", "careful_2", "careful_3"];
    let mut steps: Vec<Value> = careful
        .map(|id| step(id, &[], &json!({"ms": 40}), json!({"onWorkerLost": "fail", "onFailure": "skip"})))
        .into();
    steps.push(step("last", &careful, &json!({"ms": 5}), json!({})));
    json!({"id": "once", "version": "1.0", "mode": "graph", "result": "steps.last.output", "steps": steps})
}
