//! What a step sees of its run.

use serde_json::{Map, Value, json};

use super::vars;
use crate::id::StepId;
use crate::machine::StepStatus;
use crate::plan::compiled::StepIndex;
use crate::plan::expression::Reads;
use crate::plan::{CompiledPlan, Step};

/// What became of a step, as whoever holds the log tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// The status of its latest attempt.
    pub status: StepStatus,
    /// Its whole output, private fields included; none unless it succeeded.
    pub output: Option<Value>,
    /// The fallback that stood in for it.
    pub resolved_by: Option<StepId>,
}

/// What a step sees: `{input, steps: {id: {status, output, resolvedBy?}}, vars}`.
///
/// Only the steps that it depends on, directly or not, are there. They are merged in topological order, ties
/// by (order, step id), so the order in which they happened to end changes nothing. Private fields are left
/// out. A step that its fallback stood in for has the fallback's output, and `vars` has what the fallback's
/// `output` mapping wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Context(Value);

impl Context {
    /// The context of a step. `look` is asked only for steps that `reads` needs; see
    /// [`super::StepMapping::reads`].
    #[must_use]
    pub fn build(
        plan: &CompiledPlan,
        step: StepIndex,
        input: &Value,
        reads: &Reads,
        look: &dyn Fn(&StepId) -> Option<StepView>,
    ) -> Self {
        if reads.is_empty() {
            return Self::merge(plan, &[], input, reads, look);
        }
        Self::merge(plan, &plan.transitive_dependencies(step), input, reads, look)
    }

    /// The context of the plan's `result`: every step is there.
    #[must_use]
    pub fn of_run(
        plan: &CompiledPlan,
        input: &Value,
        reads: &Reads,
        look: &dyn Fn(&StepId) -> Option<StepView>,
    ) -> Self {
        let steps: Vec<StepIndex> =
            plan.topological().iter().copied().filter(|step| plan.serves(*step).is_none()).collect();
        Self::merge(plan, &steps, input, reads, look)
    }

    fn merge(
        plan: &CompiledPlan,
        visible: &[StepIndex],
        input: &Value,
        reads: &Reads,
        look: &dyn Fn(&StepId) -> Option<StepView>,
    ) -> Self {
        let mut steps = Map::new();
        let mut vars = Value::Object(Map::new());
        for index in visible {
            let step = plan.step(*index);
            let named = reads.all_steps || reads.steps.contains(step.id.as_str());
            let writes = reads.vars && (writes_vars(step) || plan.fallback(*index).is_some());
            if !named && !writes {
                continue;
            }
            let Some(seen) = Seen::of(plan, *index, look) else { continue };
            if writes
                && let (Some(output), Some(mapping)) = (&seen.output, &seen.author.output)
                && let Some(to) = &mapping.to
            {
                vars::write(&mut vars, to, mapping.merge, output.clone());
            }
            if named {
                steps.insert(step.id.as_str().to_owned(), seen.into_value());
            }
        }
        Self(json!({"input": input, "steps": steps, "vars": vars}))
    }

    /// The context as expressions see it.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// What other steps see of the output of `step`.
    #[must_use]
    pub fn output_of(&self, step: &StepId) -> Option<&Value> {
        self.0.get("steps")?.get(step.as_str())?.get("output")
    }

    /// The context with one more field at its root.
    pub(super) fn with_field(&self, name: &str, value: Value) -> Value {
        let mut context = self.0.clone();
        if let Value::Object(fields) = &mut context {
            fields.insert(name.to_owned(), value);
        }
        context
    }
}

fn writes_vars(step: &Step) -> bool {
    step.output.as_ref().is_some_and(|output| output.to.is_some())
}

/// A step as the steps after it see it.
pub(super) struct Seen<'plan> {
    status: StepStatus,
    resolved_by: Option<StepId>,
    /// The step whose output it is: itself, or the fallback that stood in.
    author: &'plan Step,
    pub(super) output: Option<Value>,
}

impl<'plan> Seen<'plan> {
    pub(super) fn of(
        plan: &'plan CompiledPlan,
        index: StepIndex,
        look: &dyn Fn(&StepId) -> Option<StepView>,
    ) -> Option<Self> {
        let step = plan.step(index);
        let view = look(&step.id)?;
        let stand_in = view.resolved_by.as_ref().and_then(|fallback| plan.find(fallback.as_str()));
        let (author, output) = match stand_in {
            Some(fallback) => {
                let fallback = plan.step(fallback);
                (fallback, look(&fallback.id).and_then(|view| view.output))
            }
            None => (step, view.output),
        };
        let output = output.map(|output| without_private(author, output));
        Some(Self { status: view.status, resolved_by: view.resolved_by, author, output })
    }

    fn into_value(self) -> Value {
        let mut value = json!({"status": self.status, "output": self.output});
        if let (Some(fallback), Value::Object(fields)) = (self.resolved_by, &mut value) {
            fields.insert("resolvedBy".to_owned(), json!(fallback));
        }
        value
    }
}

fn without_private(step: &Step, mut output: Value) -> Value {
    if let Value::Object(fields) = &mut output {
        for name in &step.private {
            fields.remove(name);
        }
    }
    output
}
