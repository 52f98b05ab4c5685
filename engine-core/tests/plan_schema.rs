//! The published schema of plans is the one that the types say.

use engine_core::plan::schema;

#[test]
fn the_published_schema_is_the_one_of_the_types() {
    let mut expected = serde_json::to_string_pretty(&schema::generate()).unwrap();
    expected.push('\n');
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/plan.v1.schema.json");
        std::fs::write(file, &expected).unwrap();
        return;
    }
    assert!(
        schema::text() == expected,
        "schemas/plan.v1.schema.json differs from the types; run `UPDATE_SCHEMAS=1 cargo test -p engine-core`"
    );
}

#[test]
fn the_published_schema_is_a_valid_2020_12_schema_with_its_address() {
    let document: serde_json::Value = serde_json::from_str(schema::text()).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&document));
    assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(document["$id"], schema::ID);
    assert_eq!(document["properties"]["steps"]["minItems"], 1);
    assert_eq!(document["$defs"]["RetryPolicy"]["properties"]["maxAttempts"]["default"], 3);
}
