//! What goes into a handler, and what becomes of its output.

use std::sync::Arc;

use engine_core::decider::Report;
use engine_core::event::step::StepOutput;
use engine_core::failure::FailureClass;
use engine_core::port::{HandlerOutput, HandlerResult, StepContext, StepHandler};
use serde_json::{Value, json};
use worker::{Artifacts, Handlers, Prepared};

use crate::support::{World, error, value};

pub(crate) fn echo() -> Handlers {
    let mut handlers = Handlers::new();
    handlers.register_fn("echo", |_, input: Value| async { Ok(input) }).unwrap();
    handlers
}

/// Gives back what a function makes.
struct Gives<F>(F);

#[async_trait::async_trait]
impl<F: Fn() -> HandlerOutput + Send + Sync + 'static> StepHandler for Gives<F> {
    async fn run(&self, _: StepContext, _: Value) -> HandlerResult {
        Ok((self.0)())
    }
}

#[tokio::test]
async fn a_step_gets_what_earlier_steps_left_and_the_runs_input() {
    let world = World::memory();
    let worker = world.worker(echo());
    let steps = json!([
        {"id": "a", "handler": "echo", "with": {"n": 1, "hidden": 2}, "private": ["hidden"],
         "output": {"to": "totals.a", "transform": "{n: n, hidden: hidden}"}},
        {"id": "b", "handler": "echo", "dependsOn": ["a"],
         "with": {"n": "${ steps.a.output.n }", "hidden": "${ steps.a.output.hidden }", "who": "for ${ input.who }",
                  "var": "${ vars.totals.a.n }"}},
    ]);
    let run = world.start(steps, json!({"who": "ada"})).await;
    world.complete(&worker, &run, "a").await;
    let report = world.execute(&worker, &run, "b").await;
    assert_eq!(value(report), json!({"n": 1, "hidden": null, "who": "for ada", "var": 1}));
}

#[tokio::test]
async fn a_fallback_stands_in_with_its_output() {
    let world = World::memory();
    let mut handlers = echo();
    handlers
        .register_fn("bad", |_, _: Value| async {
            Err::<(), _>(engine_core::event::step::StepError::classified("BadRequest", None, "no"))
        })
        .unwrap();
    let worker = world.worker(handlers);
    let steps = json!([
        {"id": "a", "handler": "bad", "fallback": "plan-b"},
        {"id": "plan-b", "handler": "echo", "with": {"from": "fallback"}},
        {"id": "c", "handler": "echo", "dependsOn": ["a"], "with": {"got": "${ steps.a.output.from }"}},
    ]);
    let run = world.start(steps, json!(null)).await;
    world.complete(&worker, &run, "a").await;
    world.complete(&worker, &run, "plan-b").await;
    assert_eq!(value(world.execute(&worker, &run, "c").await), json!({"got": "fallback"}));
}

#[tokio::test]
async fn conditions_are_looked_at_before_anything_else() {
    let world = World::memory();
    let worker = world.worker(Handlers::new());
    let steps = json!([
        {"id": "no", "handler": "nowhere", "when": "input.go"},
        {"id": "bad", "handler": "nowhere", "dependsOn": [], "when": "abs(input.text) > `1`"},
    ]);
    let plan = json!({"id": "p", "version": "1", "mode": "graph", "steps": steps});
    let run = world.start_plan(plan, json!({"go": false, "text": "x"}), None).await;
    let decided = world.prepare(&worker, &run, "no").await;
    assert!(matches!(decided, Prepared::Decided(Report::ConditionFalse)), "{decided:?}");
    let Prepared::Decided(report) = world.prepare(&worker, &run, "bad").await else { panic!("not decided") };
    let error = error(report);
    assert_eq!((error.code.as_str(), error.class), ("EXPRESSION_INVALID", FailureClass::Permanent));
}

#[tokio::test]
async fn a_handler_that_nobody_registered_is_a_permanent_failure() {
    let world = World::memory();
    let worker = world.worker(echo());
    let run = world.start(json!([{"id": "a", "handler": "nowhere"}]), json!(null)).await;
    let Prepared::Decided(report) = world.prepare(&worker, &run, "a").await else { panic!("not decided") };
    let error = error(report);
    assert_eq!((error.code.as_str(), error.class), ("HANDLER_UNKNOWN", FailureClass::Permanent));
    assert!(error.message.contains("w1") && error.message.contains("nowhere"), "{}", error.message);
}

#[tokio::test]
async fn data_that_breaks_its_schema_is_a_permanent_failure() {
    let world = World::memory();
    let worker = world.worker(echo());
    let schema = json!({"type": "object", "required": ["n"]});
    let steps = json!([
        {"id": "in", "handler": "echo", "input": {"from": "literal", "value": {}, "schema": schema}},
        {"id": "out", "handler": "echo", "with": {}, "output": {"schema": schema}},
    ]);
    let plan = json!({"id": "p", "version": "1", "mode": "graph", "steps": steps});
    let run = world.start_plan(plan, json!(null), None).await;
    let Prepared::Decided(report) = world.prepare(&worker, &run, "in").await else { panic!("not decided") };
    for report in [report, world.execute(&worker, &run, "out").await] {
        let error = error(report);
        assert_eq!((error.code.as_str(), error.class), ("ValidationError", FailureClass::Permanent));
    }
}

#[tokio::test]
async fn a_typed_handler_refuses_an_input_of_another_shape() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers.register_fn("count", |_, n: u32| async move { Ok(n + 1) }).unwrap();
    let worker = world.worker(handlers);
    let steps = json!([
        {"id": "good", "handler": "count", "with": 4},
        {"id": "bad", "handler": "count", "with": "four"},
    ]);
    let plan = json!({"id": "p", "version": "1", "mode": "graph", "steps": steps});
    let run = world.start_plan(plan, json!(null), None).await;
    assert_eq!(value(world.execute(&worker, &run, "good").await), json!(5));
    let error = error(world.execute(&worker, &run, "bad").await);
    assert_eq!(error.class, FailureClass::Permanent);
    assert!(error.message.contains("step bad"), "{}", error.message);
}

#[tokio::test]
async fn a_large_output_lies_beside_the_log_and_later_steps_see_it() {
    let world = World::memory();
    let artifacts = Arc::new(Artifacts::open("memory:").unwrap());
    let worker = world.builder(echo()).artifacts(artifacts).inline_limit(100).build().unwrap();
    let text = "x".repeat(500);
    let steps = json!([
        {"id": "a", "handler": "echo", "with": {"text": "${ input.text }", "n": 7}},
        {"id": "b", "handler": "echo", "dependsOn": ["a"], "with": {"n": "${ steps.a.output.n }"}},
    ]);
    let plan = json!({"id": "p", "version": "1", "steps": steps, "result": "steps.a.output"});
    let run = world.start_plan(plan, json!({"text": text}), None).await;
    let Report::Completed(completed) = world.complete(&worker, &run, "a").await else {
        panic!("not completed")
    };
    let artifact = completed.output.artifact.expect("a reference");
    assert_eq!(completed.output.value, None);
    assert_eq!(artifact.kind, "output");
    assert!(artifact.uri.starts_with(&format!("memory:///acme/{run}/a/1/")), "{}", artifact.uri);
    assert_eq!(value(world.execute(&worker, &run, "b").await), json!({"n": 7}));

    let output = worker.run_output(&world.history(&run).await).await.unwrap();
    assert!(output.artifact.expect("a reference").uri.contains("/RUN/"));
}

#[tokio::test]
async fn the_runs_output_is_that_of_the_last_steps_unless_the_plan_says_otherwise() {
    let world = World::memory();
    let worker = world.worker(echo());
    let run = world.start(json!([{"id": "a", "handler": "echo", "with": 5}]), json!(null)).await;
    world.complete(&worker, &run, "a").await;
    let output = worker.run_output(&world.history(&run).await).await.unwrap();
    assert_eq!(output, StepOutput { value: Some(json!({"a": 5})), ..StepOutput::default() });
}

#[tokio::test]
async fn an_output_that_cannot_be_kept_is_a_permanent_failure() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers.register("huge", Gives(|| HandlerOutput::from(json!("x".repeat(11 * 1024 * 1024))))).unwrap();
    handlers.register("large", Gives(|| HandlerOutput::from(json!("x".repeat(300 * 1024))))).unwrap();
    let scored = StepOutput { quality_score: Some(1.5), ..StepOutput::default() };
    handlers
        .register("scored", Gives(move || HandlerOutput { output: scored.clone(), artifacts: Vec::new() }))
        .unwrap();
    let told = StepOutput {
        metadata: [("log".to_owned(), json!("x".repeat(300 * 1024)))].into(),
        ..StepOutput::default()
    };
    handlers
        .register("told", Gives(move || HandlerOutput { output: told.clone(), artifacts: Vec::new() }))
        .unwrap();
    let stored = world
        .builder(handlers.clone())
        .artifacts(Arc::new(Artifacts::open("memory:").unwrap()))
        .build()
        .unwrap();
    let bare = world.worker(handlers);
    for (worker, handler, code) in [
        (&stored, "huge", "PAYLOAD_TOO_LARGE"),
        (&bare, "large", "PAYLOAD_TOO_LARGE"),
        (&stored, "scored", "ValidationError"),
        (&stored, "told", "PAYLOAD_TOO_LARGE"),
    ] {
        let run = world.start(json!([{"id": "a", "handler": handler}]), json!(null)).await;
        let error = error(world.execute(worker, &run, "a").await);
        assert_eq!((error.code.as_str(), error.class), (code, FailureClass::Permanent), "{handler}");
    }
    let run = world.start(json!([{"id": "a", "handler": "large"}]), json!(null)).await;
    assert!(matches!(world.execute(&stored, &run, "a").await, Report::Completed(_)));
}

#[tokio::test]
async fn an_artifact_that_was_changed_is_not_taken_for_the_output() {
    let world = World::memory();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let artifacts = Arc::new(Artifacts::open(&url).unwrap());
    let worker = world.builder(echo()).artifacts(artifacts).inline_limit(10).build().unwrap();
    let steps = json!([
        {"id": "a", "handler": "echo", "with": {"text": "0123456789"}},
        {"id": "b", "handler": "echo", "dependsOn": ["a"], "with": "${ steps.a.output.text }"},
    ]);
    let run = world.start(steps, json!(null)).await;
    let Report::Completed(completed) = world.complete(&worker, &run, "a").await else {
        panic!("not completed")
    };
    let uri = completed.output.artifact.unwrap().uri;
    std::fs::write(uri.strip_prefix("file://").unwrap(), r#"{"text": "9876543210"}"#).unwrap();
    let Prepared::Decided(report) = world.prepare(&worker, &run, "b").await else { panic!("not decided") };
    let error = error(report);
    assert_eq!(error.class, FailureClass::Permanent);
    assert!(error.message.contains("SHA-256"), "{}", error.message);
}

#[tokio::test]
async fn a_manual_step_waits_with_a_token_of_its_own() {
    let world = World::memory();
    let worker = world.worker(echo());
    let steps = json!([
        {"id": "a", "handler": "echo", "with": 1, "completion": "manual", "description": "look at it"},
    ]);
    let run = world.start(steps, json!(null)).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let Report::Waiting(waiting) = world.execute(&worker, &run, "a").await else { panic!("not waiting") };
        assert_eq!(waiting.output.unwrap().value, Some(json!(1)));
        assert_eq!(waiting.prompt.as_deref(), Some("look at it"));
        assert_eq!(waiting.completion_token.len(), 36);
        tokens.push(waiting.completion_token);
    }
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn a_compensation_gets_the_steps_output_and_a_key_that_stays() {
    let world = World::memory();
    let mut handlers = echo();
    handlers
        .register_fn("undo", |context: StepContext, input: Value| async move {
            Ok(json!({"key": &*context.idempotency_token, "given": input, "ok": true}))
        })
        .unwrap();
    handlers
        .register_fn("bad", |_, _: Value| async {
            Err::<(), _>(engine_core::event::step::StepError::classified("BadRequest", None, "no"))
        })
        .unwrap();
    let worker = world.worker(handlers);
    let steps = json!([
        {"id": "a", "handler": "echo", "with": {"id": 9}, "private": ["id"],
         "compensation": {"handler": "undo", "with": {"id": "${ output.id }", "who": "${ input.who }"}}},
        {"id": "b", "handler": "bad", "dependsOn": ["a"]},
    ]);
    let run = world.start(steps, json!({"who": "ada"})).await;
    world.complete(&worker, &run, "a").await;
    world.complete(&worker, &run, "b").await;
    let history = world.history(&run).await;
    let task = history.run().actions().compensate.expect("a compensation");
    let ready = worker.prepare_compensation(&history, &task).await.unwrap().unwrap();
    let notes = worker.execute_compensation(ready, world.call()).await.unwrap();
    assert_eq!(notes["key"], format!("{run}:a:compensate"));
    assert_eq!(notes["given"], r#"{"id":9,"who":"ada"}"#);
    assert_eq!(notes["ok"], "true");
}
