//! The token that lets a handler recognise its own work.

use serde_json::Value;

use crate::hash::{canonical_json, sha256_hex};
use crate::id::{PlanId, RunId, StepId};

/// The idempotency token of a step: SHA-256 of `plan|step|run|canonical input`. The same over all retries of
/// the step in one run, whatever the order of keys in its input.
#[must_use]
pub fn step_token(plan: &PlanId, step: &StepId, run: &RunId, input: &Value) -> String {
    sha256_hex(format!("{plan}|{step}|{run}|{}", canonical_json(input)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_token_depends_on_plan_step_run_and_input_alone() {
        let plan = PlanId::new("billing").unwrap();
        let step = StepId::new("charge").unwrap();
        let run = RunId::new("run-001").unwrap();
        let token = step_token(&plan, &step, &run, &json!({"a": 1, "b": 2}));
        let reordered: Value = serde_json::from_str(r#"{"b": 2, "a": 1}"#).unwrap();
        assert_eq!(token, step_token(&plan, &step, &run, &reordered));
        assert_eq!(token, sha256_hex(r#"billing|charge|run-001|{"a":1,"b":2}"#));
        assert_ne!(token, step_token(&plan, &step, &run, &json!({"a": 1})));
        assert_ne!(token, step_token(&plan, &StepId::new("refund").unwrap(), &run, &reordered));
    }
}
