//! References within a schema: they stay in the document (DATA-15), and they arrive somewhere.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::schema::SchemaProblem;

/// Keywords whose schemas apply to the same value as the schema they stand in; the others go into the value,
/// which ends somewhere.
const IN_PLACE: &[&str] = &["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];
/// Keywords that hold values, whatever the keys of these look like.
const DATA: &[&str] = &["const", "enum", "default", "examples"];
/// Keywords that hold schemas by names of the author's choice.
const NAMES: &[&str] = &["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// What is wrong with the references of a schema.
pub(super) fn problems(schema: &Value) -> Vec<SchemaProblem> {
    let mut parts = Vec::new();
    collect(Part { pointer: String::new(), value: schema, is_data: false }, false, &mut parts);
    let mut problems = Vec::new();
    for Part { pointer, value, .. } in parts.iter().filter(|part| !part.is_data) {
        for keyword in REFERENCES {
            let Some(reference) = value.get(keyword).and_then(Value::as_str) else { continue };
            if !reference.starts_with('#') {
                problems.push(SchemaProblem {
                    pointer: format!("{pointer}/{keyword}"),
                    message: format!("the reference {reference:?} leaves the schema; it must start with #"),
                    hint: "copy what it refers to into `$defs` and write `#/$defs/<name>`",
                });
            }
        }
        // A second base address would give `#` another meaning below it.
        if !pointer.is_empty() && value.get("$id").is_some_and(Value::is_string) {
            problems.push(SchemaProblem {
                pointer: format!("{pointer}/$id"),
                message: "only the schema as a whole may have an $id".to_owned(),
                hint: "remove this `$id`",
            });
        }
    }
    if problems.is_empty()
        && let Some(pointer) = endless(&parts)
    {
        problems.push(SchemaProblem {
            pointer,
            message: "this reference leads back to itself without going into the value".to_owned(),
            hint: "refer to another schema, or go into the value with `properties` or `items`",
        });
    }
    problems
}

/// The pointer of a schema that refers to itself without going into the value. Checking any value against it
/// would never end.
fn endless(parts: &[Part<'_>]) -> Option<String> {
    let by_pointer: HashMap<&str, usize> =
        parts.iter().enumerate().map(|(index, part)| (part.pointer.as_str(), index)).collect();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (index, Part { value, .. }) in parts.iter().enumerate() {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = value.get(keyword).and_then(Value::as_str) {
                by_name.insert(name.to_owned(), index);
            }
        }
    }
    let edges: Vec<Vec<usize>> = parts
        .iter()
        .map(|Part { pointer, value, .. }| {
            let mut targets = Vec::new();
            for keyword in IN_PLACE {
                let Some(inner) = value.get(keyword) else { continue };
                let base = format!("{pointer}/{}", escape(keyword));
                let below: Vec<String> = match inner {
                    Value::Array(items) => (0..items.len()).map(|index| format!("{base}/{index}")).collect(),
                    Value::Object(fields) if *keyword == "dependentSchemas" => {
                        fields.keys().map(|name| format!("{base}/{}", escape(name))).collect()
                    }
                    _ => vec![base],
                };
                targets.extend(below.iter().filter_map(|pointer| by_pointer.get(pointer.as_str()).copied()));
            }
            for keyword in REFERENCES {
                let Some(reference) = value.get(keyword).and_then(Value::as_str) else { continue };
                let fragment = decoded(reference.trim_start_matches('#'));
                let target = if fragment.is_empty() || fragment.starts_with('/') {
                    by_pointer.get(fragment.as_str()).copied()
                } else {
                    by_name.get(&fragment).copied()
                };
                targets.extend(target);
            }
            targets
        })
        .collect();
    first_on_a_cycle(&edges).map(|index| parts[index].pointer.clone())
}

/// Something in a schema that a pointer can lead to.
struct Part<'a> {
    pointer: String,
    value: &'a Value,
    /// It is data, not a schema, unless a reference makes it one.
    is_data: bool,
}

/// Collects all parts of `part`. Below `names`, as in `properties`, keys are names of the author's choice.
fn collect<'a>(part: Part<'a>, names: bool, parts: &mut Vec<Part<'a>>) {
    let Part { ref pointer, value, is_data } = part;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = Part {
                    pointer: format!("{pointer}/{}", escape(name)),
                    value: field,
                    is_data: is_data || !names && DATA.contains(&name.as_str()),
                };
                collect(below, !names && NAMES.contains(&name.as_str()), parts);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(Part { pointer: format!("{pointer}/{index}"), value: item, is_data }, false, parts);
            }
        }
        _ => {}
    }
    parts.push(part);
}

/// A fragment with `%41` and its like replaced.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'%', [high, low, ..]) => {
                let digits = [*high, *low];
                std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
            }
            _ => None,
        };
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The first node that can reach itself. Nodes that nothing waits for are taken away until none is left or only
/// cycles and what leads to them are.
fn first_on_a_cycle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut incoming: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    let mut outgoing: Vec<usize> = edges.iter().map(Vec::len).collect();
    for (node, targets) in edges.iter().enumerate() {
        for target in targets {
            incoming[*target].push(node);
        }
    }
    let mut free: Vec<usize> = (0..edges.len()).filter(|node| outgoing[*node] == 0).collect();
    let mut gone: HashSet<usize> = free.iter().copied().collect();
    while let Some(node) = free.pop() {
        for source in &incoming[node] {
            outgoing[*source] -= 1;
            if outgoing[*source] == 0 && gone.insert(*source) {
                free.push(*source);
            }
        }
    }
    (0..edges.len()).find(|node| !gone.contains(node))
}
