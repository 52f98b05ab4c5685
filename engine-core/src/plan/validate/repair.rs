//! Makes a plan readable whose shape is broken, so that its meaning can be checked in the same go.
//!
//! Nothing is guessed: what is broken is taken out, and what must be there is filled with a placeholder that the
//! checks leave alone. Positions in lists stay as they are, so paths stay true.

use serde_json::{Map, Value, json};

use super::{PLACEHOLDER, Unreadable};
use crate::plan::document::{Path, Segment};
use crate::plan::model::Plan;

/// Takes out what stands at `broken`, and reads what is left. `None` when there is no list of steps.
pub(super) fn readable(document: &mut Value, broken: &[Path]) -> Option<(Plan, Unreadable)> {
    let mut unreadable = Unreadable::default();
    document.get("steps")?.as_array()?;
    for path in broken {
        match path.segments() {
            [Segment::Key(steps), Segment::Index(position), rest @ ..] if steps == "steps" => {
                let step = document.get_mut("steps")?.get_mut(position)?;
                if !step.is_object() {
                    *step = Value::Object(Map::new());
                }
                take_out(step, rest, unreadable.steps.entry(*position).or_default());
            }
            [Segment::Key(steps), ..] if steps == "steps" => {}
            rest => take_out(document, rest, &mut unreadable.plan),
        }
    }
    fill_in(document);
    let plan = serde_json::from_value(document.take()).ok()?;
    Some((plan, unreadable))
}

fn take_out(object: &mut Value, path: &[Segment], taken: &mut std::collections::BTreeSet<String>) {
    let [Segment::Key(name), below @ ..] = path else { return };
    let Some(fields) = object.as_object_mut() else { return };
    taken.insert(name.clone());
    match (below, fields.get_mut(name)) {
        // All lists of a step hold names; a placeholder keeps the others at their positions.
        ([Segment::Index(position), ..], Some(Value::Array(items))) => {
            if let Some(item) = items.get_mut(*position) {
                *item = json!(PLACEHOLDER);
            }
        }
        _ => {
            fields.remove(name);
        }
    }
}

fn fill_in(document: &mut Value) {
    let Some(plan) = document.as_object_mut() else { return };
    for field in ["id", "version"] {
        plan.entry(field).or_insert_with(|| json!(PLACEHOLDER));
    }
    let Some(steps) = plan.get_mut("steps").and_then(Value::as_array_mut) else { return };
    for (position, step) in steps.iter_mut().enumerate() {
        if let Some(step) = step.as_object_mut() {
            step.entry("id").or_insert_with(|| json!(format!("{PLACEHOLDER}.{position}")));
            step.entry("handler").or_insert_with(|| json!(PLACEHOLDER));
        }
    }
}
