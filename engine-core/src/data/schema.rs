//! JSON Schemas (2020-12) that plans carry for their data. No reference ever leaves the document.

use jsonschema::{Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use crate::error::{Code, Error, Result};

/// How many reasons are listed when a value does not match.
const MOST_REASONS: usize = 10;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A JSON Schema, ready to check values.
pub struct DataSchema(Validator);

/// What is wrong with a schema, and where in it.
#[derive(Debug)]
pub(crate) struct SchemaProblem {
    pub(crate) pointer: String,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

struct NoOtherDocument;

impl Retrieve for NoOtherDocument {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is another document, and schemas of a plan stand on their own").into())
    }
}

impl DataSchema {
    /// Makes a schema ready.
    ///
    /// # Errors
    /// `PLAN_INVALID` when it is no valid schema, or refers to another document.
    pub fn compile(schema: &Value) -> Result<Self> {
        if let Some(problem) = Self::problems(schema).into_iter().next() {
            return Err(Error::new(Code::PlanInvalid, problem.message));
        }
        build(schema)
            .map(Self)
            .map_err(|error| Error::new(Code::PlanInvalid, format!("the schema cannot be used: {error}")))
    }

    /// Everything that is wrong with a schema.
    pub(crate) fn problems(schema: &Value) -> Vec<SchemaProblem> {
        if !schema.is_object() && !schema.is_boolean() {
            return vec![SchemaProblem {
                pointer: String::new(),
                message: "a JSON Schema is an object, true or false".to_owned(),
                hint: "write an object, as {type: object}",
            }];
        }
        if let Some(dialect) = schema.get("$schema")
            && dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT)
        {
            return vec![SchemaProblem {
                pointer: "/$schema".to_owned(),
                message: format!("schemas of a plan are read as 2020-12; write {DIALECT:?} or nothing"),
                hint: "remove `$schema`",
            }];
        }
        let mut problems: Vec<SchemaProblem> = jsonschema::draft202012::meta::validator()
            .iter_errors(schema)
            .map(|error| SchemaProblem {
                pointer: error.instance_path().as_str().to_owned(),
                message: format!("this is no valid JSON Schema (2020-12): {error}"),
                hint: "write the keyword as JSON Schema 2020-12 has it",
            })
            .collect();
        problems.dedup_by(|left, right| left.pointer == right.pointer);
        if !problems.is_empty() {
            return problems;
        }
        problems.extend(super::reference::problems(schema));
        if !problems.is_empty() {
            return problems;
        }
        match build(schema) {
            Ok(_) => Vec::new(),
            Err(error) => vec![SchemaProblem {
                pointer: error.schema_path().as_str().to_owned(),
                message: format!("the schema cannot be used: {error}"),
                hint: "mend or remove this keyword",
            }],
        }
    }

    /// Why `value` does not match; empty when it does. The value itself is not repeated: it may be private.
    #[must_use]
    pub fn reasons(&self, value: &Value) -> Vec<String> {
        if self.0.is_valid(value) {
            return Vec::new();
        }
        self.0.iter_errors(value).take(MOST_REASONS).map(|error| reason(&error)).collect()
    }
}

impl std::fmt::Debug for DataSchema {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DataSchema")
    }
}

fn build(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    jsonschema::draft202012::options().with_retriever(NoOtherDocument).build(schema)
}

fn reason(error: &ValidationError<'_>) -> String {
    let place = match error.instance_path().as_str() {
        "" => "the value".to_owned(),
        path => path.to_owned(),
    };
    format!("{place}: {}", error.masked())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_that_does_not_match_is_explained_without_repeating_it() {
        let schema =
            DataSchema::compile(&json!({"type": "object", "properties": {"key": {"type": "integer"}}}))
                .unwrap();
        assert!(schema.reasons(&json!({"key": 1})).is_empty());
        let reasons = schema.reasons(&json!({"key": "hunter2"}));
        assert_eq!(reasons.len(), 1);
        assert!(reasons[0].starts_with("/key: "), "{reasons:?}");
        assert!(!reasons[0].contains("hunter2"), "{reasons:?}");
    }

    #[test]
    fn a_schema_that_leaves_the_document_is_refused() {
        for reference in ["https://example.com/s.json", "file:///etc/passwd", "urn:x:y", "other.json"] {
            let problems = DataSchema::problems(&json!({"properties": {"a": {"$ref": reference}}}));
            assert_eq!(problems.len(), 1, "{reference}");
        }
        assert!(DataSchema::problems(&json!({"$ref": "#/$defs/a", "$defs": {"a": true}})).is_empty());
    }

    #[test]
    fn every_mistake_in_a_schema_has_its_place() {
        let problems = DataSchema::problems(&json!({"type": "strin", "properties": {"a": {"minimum": "1"}}}));
        let mut places: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/properties/a/minimum", "/type"]);
    }

    #[test]
    fn a_reference_that_never_arrives_is_refused() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            json!({"$dynamicRef": "#"}),
            json!({"$ref": "#/%24defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
            json!({"$anchor": "x", "not": {"$ref": "#x"}}),
        ] {
            assert_eq!(DataSchema::problems(&endless).len(), 1, "{endless}");
        }
        let tree = json!({"properties": {"left": {"$ref": "#"}}, "items": {"$ref": "#"}});
        let schema = DataSchema::compile(&tree).unwrap();
        assert!(schema.reasons(&json!({"left": {"left": []}})).is_empty());
    }
}
