//! What a step sees, what it is given, and what becomes of its output.

use std::cell::RefCell;
use std::collections::BTreeMap;

use engine_core::data::{Context, StepMapping, StepView, check_run_input, run_output};
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::machine::StepStatus;
use engine_core::plan::CompiledPlan;
use engine_core::{Code, StepId};
use serde_json::{Value, json};

/// A run of a plan, as far as the data goes.
struct Run {
    plan: CompiledPlan,
    input: Value,
    views: BTreeMap<String, StepView>,
    asked: RefCell<Vec<String>>,
}

impl Run {
    fn of(steps: &str) -> Self {
        let plan = CompiledPlan::read(&format!("id: p\nversion: \"1\"\n{steps}")).expect("the plan is valid");
        Self { plan, input: json!({"n": 1}), views: BTreeMap::new(), asked: RefCell::default() }
    }

    fn done(mut self, step: &str, output: Value) -> Self {
        let view = StepView { status: StepStatus::Success, output: Some(output), resolved_by: None };
        self.views.insert(step.to_owned(), view);
        self
    }

    fn ended(mut self, step: &str, status: StepStatus, resolved_by: Option<&str>) -> Self {
        let resolved_by = resolved_by.map(|fallback| StepId::new(fallback).expect("a step id"));
        self.views.insert(step.to_owned(), StepView { status, output: None, resolved_by });
        self
    }

    fn look(&self) -> impl Fn(&StepId) -> Option<StepView> {
        |step| {
            self.asked.borrow_mut().push(step.as_str().to_owned());
            self.views.get(step.as_str()).cloned()
        }
    }

    fn mapping(&self, step: &str) -> StepMapping {
        StepMapping::new(&self.plan, self.plan.find(step).expect("a step of the plan")).expect("a mapping")
    }

    fn context(&self, step: &str) -> Context {
        let index = self.plan.find(step).expect("a step of the plan");
        Context::build(&self.plan, index, &self.input, &self.mapping(step).reads(), &self.look())
    }

    fn input_of(&self, step: &str) -> Result<Value, StepError> {
        self.mapping(step).input(&self.context(step))
    }

    fn output(&self) -> Value {
        run_output(&self.plan, &self.input, &self.look()).expect("an output")
    }
}

fn assert_permanent(error: &StepError, reason: &str) {
    assert_eq!((error.class.clone(), error.code.as_str()), (FailureClass::Permanent, "ValidationError"));
    assert!(error.message.contains(reason), "{}", error.message);
}

#[test]
fn a_step_sees_its_transitive_dependencies_only() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h}\n- {id: b, handler: h, dependsOn: [a]}\n- {id: x, handler: h}\n- {id: c, handler: h, dependsOn: [b], input: {from: context}}\n",
    )
    .done("a", json!(1))
    .done("b", json!(2))
    .done("x", json!(3));
    assert_eq!(
        run.input_of("c").unwrap(),
        json!({
            "input": {"n": 1}, "vars": {},
            "steps": {"a": {"status": "SUCCESS", "output": 1}, "b": {"status": "SUCCESS", "output": 2}}
        })
    );
}

#[test]
fn the_order_of_the_plan_decides_what_stands_in_vars_not_the_order_of_completion() {
    let plan = |first: u32, second: u32| {
        Run::of(&format!(
            "mode: graph\nsteps:\n- {{id: a, handler: h, order: {first}, output: {{to: x.y}}}}\n- {{id: b, handler: h, order: {second}, output: {{to: x.y}}}}\n- {{id: c, handler: h, order: 3, dependsOn: [b, a], with: '${{ vars.x.y }}'}}\n"
        ))
        .done("b", json!("from b"))
        .done("a", json!("from a"))
    };
    assert_eq!(plan(1, 2).input_of("c").unwrap(), json!("from b"));
    assert_eq!(plan(2, 1).input_of("c").unwrap(), json!("from a"));
}

#[test]
fn only_what_the_expressions_name_is_asked_for() {
    let steps = "steps:\n- {id: a, handler: h}\n- {id: b, handler: h, output: {to: b}}\n- {id: c, handler: h}\n- {id: d, handler: h, with: {x: '${ steps.a.output }'}}\n- {id: e, handler: h, with: {x: '${ vars.b }'}}\n- {id: f, handler: h, with: {x: 1}}\n";
    let run = Run::of(steps).done("a", json!(5)).done("b", json!(6)).done("c", json!(7));
    for (step, given, asked) in
        [("d", json!({"x": 5}), vec!["a"]), ("e", json!({"x": 6}), vec!["b"]), ("f", json!({"x": 1}), vec![])]
    {
        run.asked.borrow_mut().clear();
        assert_eq!(run.input_of(step).unwrap(), given);
        assert_eq!(*run.asked.borrow(), asked);
    }
}

#[test]
fn a_step_resolved_by_its_fallback_shows_the_fallbacks_output() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h, fallback: f, output: {to: v}}\n- {id: f, handler: h, output: {to: v}, private: [secret]}\n- {id: z, handler: h, dependsOn: [a], input: {from: context, transform: '[steps.a, vars.v]'}}\n",
    )
    .ended("a", StepStatus::Failed, Some("f"))
    .done("f", json!({"ok": true, "secret": 1}));
    assert_eq!(
        run.input_of("z").unwrap(),
        json!([{"status": "FAILED", "output": {"ok": true}, "resolvedBy": "f"}, {"ok": true}])
    );
}

#[test]
fn a_fallback_sees_what_the_step_it_serves_sees() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h}\n- {id: b, handler: h, dependsOn: [a], fallback: f}\n- {id: f, handler: h, input: {from: previousStep}}\n",
    )
    .done("a", json!([1]));
    assert_eq!(run.input_of("f").unwrap(), json!([1]));
}

#[test]
fn private_fields_stay_in_the_step() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h, private: [token], output: {to: a}, compensation: {handler: u, with: {t: '${ output.token }', n: '${ input.n }'}}}\n- {id: b, handler: h, input: {from: context}}\n",
    );
    let own = run.mapping("a").output(json!({"token": "t", "id": 7})).unwrap();
    assert_eq!(own, json!({"token": "t", "id": 7}));
    let run = run.done("a", own.clone());
    let seen = run.input_of("b").unwrap();
    assert_eq!(seen["steps"]["a"]["output"], json!({"id": 7}));
    assert_eq!(seen["vars"], json!({"a": {"id": 7}}));
    let undo = run.mapping("a").compensation_input(&run.context("a"), own).unwrap();
    assert_eq!(undo, json!({"t": "t", "n": 1}));
}

#[test]
fn a_step_without_a_mapping_is_given_an_empty_object() {
    let run =
        Run::of("steps:\n- {id: a, handler: h}\n- {id: b, handler: h, input: {from: literal, value: [1]}}\n");
    assert_eq!(run.input_of("a").unwrap(), json!({}));
    assert_eq!(run.input_of("b").unwrap(), json!([1]));
}

#[test]
fn a_condition_skips_when_false_and_fails_for_good_when_it_cannot_be_evaluated() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h}\n- {id: b, handler: h, when: 'steps.a.output.rows > `3`'}\n- {id: c, handler: h, when: 'sum(steps.a.output) > `0`'}\n",
    )
    .done("a", json!({"rows": 4}));
    let condition = |step: &str| run.mapping(step).condition(&run.context(step));
    assert_eq!(condition("a"), Ok(true));
    assert_eq!(condition("b"), Ok(true));
    let error = condition("c").unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (FailureClass::Permanent, "EXPRESSION_INVALID"));
    assert!(error.message.contains("the condition of step c is invalid"), "{}", error.message);
    let run = run.done("a", json!({"rows": 3}));
    assert_eq!(run.mapping("b").condition(&run.context("b")), Ok(false));
}

#[test]
fn bad_input_and_bad_output_are_permanent_failures() {
    let run = Run::of(
        "steps:\n- {id: a, handler: h, input: {from: context, transform: input.n, schema: {type: string}}, output: {transform: 'items[*].id', schema: {type: array, minItems: 1}}}\n",
    );
    assert_permanent(
        &run.input_of("a").unwrap_err(),
        "the input of step a is invalid: it does not match its schema",
    );
    let mapping = run.mapping("a");
    assert_eq!(mapping.output(json!({"items": [{"id": 1}]})).unwrap(), json!([1]));
    assert_permanent(&mapping.output(json!({"items": []})).unwrap_err(), "the output of step a");
}

#[test]
fn the_run_output_is_the_result_or_the_outputs_of_the_leaves() {
    let steps = "steps:\n- {id: a, handler: h}\n- {id: b, handler: h, dependsOn: [a], private: [p]}\n- {id: c, handler: h, dependsOn: [a], fallback: f}\n- {id: d, handler: h, dependsOn: [a]}\n- {id: f, handler: h}\n";
    let run = |text: &str| {
        Run::of(text)
            .done("a", json!(1))
            .done("b", json!({"x": 2, "p": 3}))
            .ended("c", StepStatus::Failed, Some("f"))
            .ended("d", StepStatus::Skipped, None)
            .done("f", json!("stand-in"))
    };
    assert_eq!(run(steps).output(), json!({"b": {"x": 2}, "c": "stand-in"}));
    let with_result =
        format!("result: '{{sum: sum([steps.a.output, input.n]), c: steps.c.output}}'\n{steps}");
    assert_eq!(run(&with_result).output(), json!({"sum": 2.0, "c": "stand-in"}));
}

#[test]
fn the_input_of_a_run_is_checked_against_the_plan() {
    let run = Run::of("inputSchema: {type: object, required: [order]}\nsteps: [{id: a, handler: h}]\n");
    assert!(check_run_input(&run.plan, &json!({"order": 1})).is_ok());
    let error = check_run_input(&run.plan, &json!({})).unwrap_err();
    assert_eq!(error.code(), Code::SchemaValidationFailed);
    assert!(error.message().contains("\"order\" is a required property"), "{error}");
}

#[test]
fn a_null_survives_being_written_and_read() {
    use engine_core::event::run::RunInput;
    use engine_core::event::step::StepOutput;
    let output = StepOutput { value: Some(Value::Null), ..StepOutput::default() };
    let input = RunInput { value: Some(Value::Null), artifact: None };
    assert_eq!(serde_json::from_value::<StepOutput>(serde_json::to_value(&output).unwrap()).unwrap(), output);
    assert_eq!(serde_json::from_value::<RunInput>(serde_json::to_value(&input).unwrap()).unwrap(), input);
    assert_eq!(serde_json::from_str::<StepOutput>("{}").unwrap().value, None);
    assert_eq!(serde_json::from_str::<RunInput>("{}").unwrap().value, None);
}
