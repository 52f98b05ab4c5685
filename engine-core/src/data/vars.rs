//! Writing to `vars`.

use serde_json::{Map, Value};

use super::path::parse_path;
use crate::plan::Merge;

/// Writes `value` at `path`. Whatever stands in the way and is no object gives way: the later step wins.
pub(super) fn write(vars: &mut Value, path: &str, merge: Merge, value: Value) {
    let Some(names) = parse_path(path) else { return };
    let mut place = vars;
    for name in names {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(fields) = place else { return };
        place = fields.entry(name).or_insert(Value::Null);
    }
    match (merge, place, value) {
        (Merge::Merge, Value::Object(earlier), Value::Object(later)) => earlier.extend(later),
        (Merge::Append, Value::Array(items), value) => items.push(value),
        (Merge::Append, place @ Value::Null, value) => *place = Value::Array(vec![value]),
        // A single value that others are added to is the first of the list.
        (Merge::Append, place, value) => *place = Value::Array(vec![place.take(), value]),
        (Merge::Replace | Merge::Merge, place, value) => *place = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(vars: Value, path: &str, merge: Merge, value: Value) -> Value {
        let mut vars = vars;
        write(&mut vars, path, merge, value);
        vars
    }

    #[test]
    fn replace_lets_the_later_value_stand() {
        assert_eq!(
            written(json!({"a": {"b": 1}}), "a", Merge::Replace, json!({"c": 2})),
            json!({"a": {"c": 2}})
        );
        assert_eq!(written(json!({}), "a.b.c", Merge::Replace, json!(1)), json!({"a": {"b": {"c": 1}}}));
        assert_eq!(written(json!({"a": 5}), "a.b", Merge::Replace, json!(1)), json!({"a": {"b": 1}}));
    }

    #[test]
    fn merge_joins_objects_field_by_field() {
        assert_eq!(
            written(json!({"a": {"x": 1, "y": {"p": 1}}}), "a", Merge::Merge, json!({"y": {"q": 2}, "z": 3})),
            json!({"a": {"x": 1, "y": {"q": 2}, "z": 3}})
        );
        assert_eq!(written(json!({"a": [1]}), "a", Merge::Merge, json!(2)), json!({"a": 2}));
    }

    #[test]
    fn append_adds_at_the_end_of_a_list() {
        assert_eq!(written(json!({}), "a", Merge::Append, json!([1])), json!({"a": [[1]]}));
        assert_eq!(written(json!({"a": [1]}), "a", Merge::Append, json!(2)), json!({"a": [1, 2]}));
        assert_eq!(written(json!({"a": "x"}), "a", Merge::Append, json!("y")), json!({"a": ["x", "y"]}));
    }
}
