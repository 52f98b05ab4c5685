//! The input and the output of a run as a whole.

use serde_json::{Map, Value};

use super::context::{Context, Seen, StepView};
use super::schema::DataSchema;
use crate::error::{Code, Error, Result};
use crate::id::StepId;
use crate::plan::CompiledPlan;
use crate::plan::expression::Expression;

/// Checks the input of a new run against the plan's `inputSchema`.
///
/// # Errors
/// `SCHEMA_VALIDATION_FAILED` with every reason; `PLAN_INVALID` for a schema that did not pass validation.
pub fn check_run_input(plan: &CompiledPlan, input: &Value) -> Result<()> {
    let Some(schema) = &plan.document().input_schema else { return Ok(()) };
    let reasons = DataSchema::compile(schema)?.reasons(input);
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Code::SchemaValidationFailed,
        format!(
            "the input does not match the inputSchema of plan {}: {}",
            plan.document().id,
            reasons.join("; ")
        ),
    )
    .with_hint("start the run with an input that matches"))
}

/// The output of a run: the plan's `result`, else the outputs of the steps that nothing depends on, by id.
/// Steps without an output are left out there.
///
/// # Errors
/// `EXPRESSION_INVALID` when `result` cannot be evaluated.
pub fn run_output(
    plan: &CompiledPlan,
    input: &Value,
    look: &dyn Fn(&StepId) -> Option<StepView>,
) -> Result<Value> {
    if let Some(result) = &plan.document().result {
        let result = Expression::parse(result)?;
        let context = Context::of_run(plan, input, &result.reads(), look);
        return result.evaluate(context.as_value());
    }
    let mut outputs = Map::new();
    for index in plan.topological() {
        let is_leaf = plan.dependents(*index).is_empty() && plan.serves(*index).is_none();
        if is_leaf && let Some(output) = Seen::of(plan, *index, look).and_then(|seen| seen.output) {
            outputs.insert(plan.step(*index).id.as_str().to_owned(), output);
        }
    }
    Ok(Value::Object(outputs))
}
