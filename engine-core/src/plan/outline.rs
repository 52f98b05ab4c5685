//! A plan as an engine may carry it.

use serde::{Deserialize, Serialize};

use super::compiled::CompiledPlan;
use super::model::{Compensation, Plan, Step};
use crate::error::Result;

/// A plan without what its steps are given, look at and leave: everything that decisions read, and no payload (DATA-5).
/// For an engine whose own memory holds the run; workers read the whole plan from the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outline {
    /// The hash of the whole plan.
    hash: String,
    plan: Plan,
}

impl Outline {
    /// The outline of a plan.
    #[must_use]
    pub fn of(plan: &CompiledPlan) -> Self {
        let document = plan.document();
        let without = Plan {
            name: None,
            description: None,
            labels: Default::default(),
            schedule: None,
            input_schema: None,
            result: None,
            steps: document.steps.iter().map(outlined).collect(),
            ..document.without_steps()
        };
        Self { hash: plan.hash().to_owned(), plan: without }
    }

    /// The plan, ready for decisions. It has the hash of the whole plan, so that a state made with either fits the other.
    ///
    /// # Errors
    /// `PLAN_INVALID` when its references do not hold together.
    pub fn compile(self) -> Result<CompiledPlan> {
        Ok(CompiledPlan::new(self.plan)?.with_hash(self.hash))
    }
}

fn outlined(step: &Step) -> Step {
    let compensation =
        step.compensation.as_ref().map(|compensation| Compensation { with: None, ..compensation.clone() });
    Step {
        name: None,
        description: None,
        when: None,
        with: None,
        input: None,
        output: None,
        read_only: Vec::new(),
        private: Vec::new(),
        secrets: Default::default(),
        resources: Default::default(),
        compensation,
        ..step.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decider::Run;

    #[test]
    fn an_outline_decides_like_its_plan_and_carries_no_payload() {
        let whole = Arc::new(CompiledPlan::read(include_str!("../../tests/plans/everything.yaml")).unwrap());
        let text = serde_json::to_string(&Outline::of(&whole)).unwrap();
        for payload in ["\"with\"", "\"when\"", "\"secrets\"", "\"input\"", "\"output\"", "\"inputSchema\""] {
            assert!(!text.contains(payload), "{payload} in {text}");
        }
        let outline: Outline = serde_json::from_str(&text).unwrap();
        let carried = Arc::new(outline.compile().unwrap());
        assert_eq!(carried.hash(), whole.hash());
        assert_eq!(carried.topological(), whole.topological());
        for step in whole.indices() {
            assert_eq!(carried.dependencies(step), whole.dependencies(step));
            assert_eq!(carried.failure_action(step), whole.failure_action(step));
            assert_eq!(carried.rank(step), whole.rank(step));
            assert_eq!(carried.step(step).has_side_effects(), whole.step(step).has_side_effects());
        }
        let state = Run::new(Arc::clone(&whole)).state().clone();
        assert!(Run::restore(carried, state).is_ok(), "a state of the plan fits its outline");
    }
}
