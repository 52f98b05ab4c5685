//! Makes a plan readable whose shape is broken, so that its meaning can be checked in the same go (PLAN-3).
//!
//! Nothing is guessed: exactly what is broken is taken out, and what must be there is filled with a stand-in.
//! Positions in lists stay as they are, so paths stay true, and the checks know stand-ins by their place.

use serde_json::{Map, Value, json};

use super::Unreadable;
use crate::plan::document::{Path, Segment};
use crate::plan::model::Plan;

/// A name that every kind of name allows.
const STAND_IN: &str = "unreadable";

/// What is broken in a document.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Values that cannot be read, and fields that are missing.
    pub(super) values: Vec<Path>,
    /// Fields that should not be there. Without them nothing is missing.
    pub(super) strangers: Vec<Path>,
}

impl Broken {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.strangers.is_empty()
    }
}

/// Takes out what is broken, and reads what is left.
pub(super) fn readable(mut document: Value, broken: &Broken) -> Option<(Plan, Unreadable)> {
    let mut unreadable = Unreadable::default();
    for path in &broken.values {
        take_out(&mut document, path.segments());
        unreadable.add(path);
    }
    for path in &broken.strangers {
        take_out(&mut document, path.segments());
    }
    fill_in(&mut document, &mut unreadable);
    let plan = serde_json::from_value(document).ok()?;
    Some((plan, unreadable))
}

fn take_out(value: &mut Value, path: &[Segment]) {
    match (path, value) {
        ([Segment::Key(name)], Value::Object(fields)) => {
            fields.remove(name);
        }
        // Entries of lists are names, all but the steps; a stand-in keeps the others at their positions.
        ([Segment::Index(position)], Value::Array(items)) => {
            if let Some(item) = items.get_mut(*position) {
                *item = json!(STAND_IN);
            }
        }
        ([Segment::Key(name), below @ ..], Value::Object(fields)) => {
            if let Some(field) = fields.get_mut(name) {
                take_out(field, below);
            }
        }
        ([Segment::Index(position), below @ ..], Value::Array(items)) => {
            if let Some(item) = items.get_mut(*position) {
                take_out(item, below);
            }
        }
        _ => {}
    }
}

/// Fills in what must be there. It was reported as missing, or was broken and has just been taken out.
fn fill_in(document: &mut Value, unreadable: &mut Unreadable) {
    let Some(plan) = document.as_object_mut() else { return };
    require(plan, "id", STAND_IN);
    require(plan, "version", STAND_IN);
    let steps = plan.entry("steps").or_insert_with(|| json!([]));
    for (position, step) in steps.as_array_mut().into_iter().flatten().enumerate() {
        if !step.is_object() {
            *step = Value::Object(Map::new());
            for field in ["id", "handler"] {
                unreadable.add(&super::step_path(position).key(field));
            }
        }
        let Some(step) = step.as_object_mut() else { continue };
        // Messages about a step without an id name it so.
        require(step, "id", &format!("steps.{position}"));
        require(step, "handler", STAND_IN);
        if let Some(input) = step.get_mut("input").and_then(Value::as_object_mut) {
            require(input, "from", "literal");
        }
        if let Some(compensation) = step.get_mut("compensation").and_then(Value::as_object_mut) {
            require(compensation, "handler", STAND_IN);
        }
        for dependency in step.get_mut("dependsOn").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(dependency) = dependency.as_object_mut() {
                require(dependency, "step", STAND_IN);
            }
        }
        for secret in step.get_mut("secrets").and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(secret) = secret.1.as_object_mut() {
                require(secret, "provider", STAND_IN);
                require(secret, "key", STAND_IN);
            }
        }
    }
}

fn require(fields: &mut Map<String, Value>, name: &str, stand_in: &str) {
    fields.entry(name).or_insert_with(|| json!(stand_in));
}
