//! The published JSON Schema of plans, made from the types in [`super::model`].

use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::model::Plan;
use crate::time::Timestamp;

/// Where the schema is published.
pub const ID: &str = "https://drivetrain.dev/schemas/plan.v1.schema.json";

/// The published schema, as text.
#[must_use]
pub fn text() -> &'static str {
    include_str!("../../schemas/plan.v1.schema.json")
}

/// The schema as the types say it now. A test keeps the published file equal to it.
#[must_use]
pub fn generate() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Plan>();
    let mut schema = schema.to_value();
    portable(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$id".to_owned(), json!(ID));
        fields.insert("title".to_owned(), json!("Drivetrain plan"));
    }
    schema
}

/// The largest whole number that is exact in every language that reads JSON.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// Turns number formats that only some tools know into plain bounds, so that every reader of the schema refuses
/// what our types cannot hold.
fn portable(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let maximum = match fields.get("format").and_then(Value::as_str) {
                Some("uint8") => Some(Some(u64::from(u8::MAX))),
                Some("uint32") => Some(Some(u64::from(u32::MAX))),
                Some("uint64") => Some(Some(LARGEST_EXACT)),
                Some("double") => Some(None),
                _ => None,
            };
            if let Some(maximum) = maximum {
                fields.remove("format");
                if let Some(maximum) = maximum {
                    fields.entry("maximum").or_insert_with(|| json!(maximum));
                }
            }
            fields.values_mut().for_each(portable);
        }
        Value::Array(items) => items.iter_mut().for_each(portable),
        _ => {}
    }
}

/// The published schema, as a value.
pub(super) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(text()).unwrap_or_else(|_| generate()));

/// The published schema, ready to check plans. `None` only if the published file were broken, which its test
/// excludes.
pub(super) static VALIDATOR: LazyLock<Option<Validator>> = LazyLock::new(|| validator(&DOCUMENT));

/// The same for one step.
pub(super) static STEP_VALIDATOR: LazyLock<Option<Validator>> =
    LazyLock::new(|| validator(&json!({"$ref": "#/$defs/Step", "$defs": DOCUMENT.get("$defs")?})));

fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .with_format("date-time", |text: &str| text.parse::<Timestamp>().is_ok())
        .should_ignore_unknown_formats(true)
        .build(schema)
        .ok()
}
