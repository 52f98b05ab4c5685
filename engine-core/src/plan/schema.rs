//! The published JSON Schema of plans, made from the types in [`super::model`].

use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::model::Plan;
use crate::time::Timestamp;
use crate::wire::portable;

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
    portable(&mut schema, bound);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$id".to_owned(), json!(ID));
        fields.insert("title".to_owned(), json!("Drivetrain plan"));
    }
    schema
}

/// The largest whole number that is exact in every language that reads JSON.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// The bound that stands for a format, so that every reader of the schema refuses what our types cannot hold.
fn bound(format: &str) -> Option<u64> {
    match format {
        "uint8" => Some(u64::from(u8::MAX)),
        "uint32" => Some(u64::from(u32::MAX)),
        "uint64" => Some(LARGEST_EXACT),
        _ => None,
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
