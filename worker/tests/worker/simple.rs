//! The built-in handlers `echo`, `sleep` and `fail`.

use engine_core::decider::Report;
use engine_core::failure::FailureClass;
use serde_json::{Value, json};
use worker::builtin::{self, Builtins};
use worker::{Call, Handlers, Worker};

use crate::support::{World, error, value};

pub(crate) fn builtins(world: &World, builtins: Builtins) -> Worker {
    let mut handlers = Handlers::new();
    builtin::register(&mut handlers, builtins, world.time.clone()).unwrap();
    world.worker(handlers)
}

/// Runs a plan of one step with this handler and input.
pub(crate) async fn run(world: &World, worker: &Worker, handler: &str, with: Value) -> Report {
    let run = world.start(json!([{"id": "a", "handler": handler, "with": with}]), json!(null)).await;
    world.execute(worker, &run, "a").await
}

#[tokio::test]
async fn every_builtin_is_registered_once() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    builtin::register(&mut handlers, Builtins::default(), world.time.clone()).unwrap();
    let names: Vec<&str> = handlers.names().map(|name| name.as_str()).collect();
    assert_eq!(names, ["echo", "exec", "fail", "http", "sleep"]);
    assert!(builtin::register(&mut handlers, Builtins::default(), world.time.clone()).is_err());
}

#[tokio::test]
async fn echo_gives_its_input_back() {
    let world = World::memory();
    let worker = builtins(&world, Builtins::default());
    assert_eq!(value(run(&world, &worker, "echo", json!({"a": [1]})).await), json!({"a": [1]}));
}

#[tokio::test]
async fn sleep_waits_for_its_clock_and_can_be_stopped() {
    let world = World::memory();
    let worker = builtins(&world, Builtins::default());
    let (report, ()) =
        tokio::join!(run(&world, &worker, "sleep", json!({"ms": 70, "output": "up"})), async {
            world.time.until_awaited(70).await;
            world.time.advance(70);
        });
    assert_eq!(value(report), json!("up"));
    let started = world.start(json!([{"id": "a", "handler": "sleep", "with": {"ms": 9}}]), json!(null)).await;
    let ready = world.ready(&worker, &started, "a").await;
    let call = world.call();
    let token = call.cancellation.clone();
    let (report, ()) = tokio::join!(worker.execute(ready, call), async {
        world.time.until_awaited(9).await;
        token.cancel();
    });
    assert_eq!(report, Report::Cancelled);
}

#[tokio::test]
async fn fail_fails_as_told_and_as_often_as_told() {
    let world = World::memory();
    let worker = builtins(&world, Builtins::default());
    let plain = error(run(&world, &worker, "fail", json!({})).await);
    assert_eq!((plain.code.as_str(), plain.class), ("FAILED_ON_PURPOSE", FailureClass::Transient));
    let told = json!({"class": "permanent", "code": "ETIMEDOUT", "message": "on purpose", "httpStatus": 503});
    let told = error(run(&world, &worker, "fail", told).await);
    assert_eq!(
        (told.code.as_str(), told.class, told.http_status),
        ("ETIMEDOUT", FailureClass::Permanent, Some(503))
    );
    let steps = json!([{"id": "a", "handler": "fail", "with": {"times": 2}}]);
    let started = world.start(steps, json!(null)).await;
    for (engine_attempt, fails) in [(1, true), (2, true), (3, false)] {
        let ready = world.ready(&worker, &started, "a").await;
        let report = worker.execute(ready, Call { engine_attempt, ..world.call() }).await;
        assert_eq!(matches!(report, Report::Failed { .. }), fails, "{engine_attempt}: {report:?}");
    }
    let wrong = error(run(&world, &worker, "fail", json!({"oops": 1})).await);
    assert!(wrong.message.contains("oops"), "{}", wrong.message);
}
