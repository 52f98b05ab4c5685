//! One call of a handler: time limit, panics, cancellation, progress.

use std::future::pending;
use std::sync::Arc;

use engine_core::decider::Report;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::port::StepContext;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use worker::Handlers;

use crate::support::{World, error, tenant, value};

fn one(name: &str, timeout_ms: u64) -> Value {
    json!([{"id": "a", "handler": name, "timeoutMs": timeout_ms}])
}

#[tokio::test]
async fn a_handler_that_ends_at_once_costs_no_timer() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers.register_fn("now", |_, _: Value| async { Ok(1) }).unwrap();
    let worker = world.worker(handlers);
    let run = world.start(one("now", 1000), json!(null)).await;
    assert_eq!(value(world.execute(&worker, &run, "a").await), json!(1));
    assert_eq!(world.time.waits(), 0);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_times_out() {
    let world = World::memory();
    let (told, mut tokens) = mpsc::unbounded_channel();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("stuck", move |context: StepContext, _: Value| {
            let told = told.clone();
            async move {
                assert!(context.deadline.is_some());
                told.send(context.cancellation.clone()).unwrap();
                pending::<Result<(), StepError>>().await
            }
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(one("stuck", 1000), json!(null)).await;
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.execute(ready, call).await }
    });
    let token = tokens.recv().await.unwrap();
    world.time.until_awaited(1000).await;
    world.time.advance(999);
    tokio::task::yield_now().await;
    assert!(!running.is_finished() && !token.is_cancelled());
    world.time.advance(1);
    let Report::Failed { error, started_at, ended_at } = running.await.unwrap() else { panic!("not failed") };
    assert_eq!((error.code.as_str(), error.class), ("STEP_TIMEOUT", FailureClass::Timeout));
    assert_eq!(ended_at.unwrap().millis_since(started_at.unwrap()), 1000);
    assert!(token.is_cancelled(), "what the handler has started elsewhere is told");
}

struct Touchy;

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropping it panics");
    }
}

#[tokio::test]
async fn panics_are_failures_wherever_they_happen() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("early", |_, _: Value| {
            let ready = std::future::ready(Ok(()));
            if true {
                panic!("broken at once");
            }
            ready
        })
        .unwrap();
    handlers
        .register_fn("late", |_, _: Value| async {
            tokio::task::yield_now().await;
            if true {
                panic!("broken {}", "later");
            }
            Ok(())
        })
        .unwrap();
    let worker = world.worker(handlers);
    for (handler, text) in [("early", "broken at once"), ("late", "broken later")] {
        let run = world.start(one(handler, 1000), json!(null)).await;
        let error = error(world.execute(&worker, &run, "a").await);
        assert_eq!((error.code.as_str(), error.class), ("HANDLER_PANIC", FailureClass::Transient));
        assert!(error.message.contains(text) && error.message.contains(handler), "{}", error.message);
    }
}

#[tokio::test]
async fn a_handler_that_panics_while_it_is_dropped_does_no_harm() {
    let world = World::memory();
    let entered = Arc::new(Notify::new());
    let mut handlers = Handlers::new();
    let gate = entered.clone();
    handlers
        .register_fn("touchy", move |_, _: Value| {
            let gate = gate.clone();
            async move {
                let _touchy = Touchy;
                gate.notify_one();
                pending::<Result<(), StepError>>().await
            }
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(one("touchy", 1000), json!(null)).await;
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    tokio::select! {
        report = worker.execute(ready, call) => panic!("it ended: {report:?}"),
        () = entered.notified() => {}
    }
}

#[tokio::test]
async fn whatever_a_handler_says_after_it_was_asked_to_stop_it_was_cancelled() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("polite", |context: StepContext, answer: String| async move {
            context.observer.log("running");
            context.cancellation.cancelled().await;
            match answer.as_str() {
                "fine" => Ok("done anyway"),
                "cancelled" => Err(StepError::new(FailureClass::Cancelled, "X", "stopped")),
                _ => Err(StepError::new(FailureClass::Transient, "X", "stopped")),
            }
        })
        .unwrap();
    handlers
        .register_fn("gives-up", |_, _: Value| async {
            Err::<(), _>(StepError::new(FailureClass::Cancelled, "X", "no more"))
        })
        .unwrap();
    let worker = world.worker(handlers);
    for (answer, cancelled) in [("transient", true), ("cancelled", true), ("fine", false)] {
        let steps = json!([{"id": "a", "handler": "polite", "with": answer}]);
        let run = world.start(steps, json!(null)).await;
        let ready = world.ready(&worker, &run, "a").await;
        let call = world.call();
        let token = call.cancellation.clone();
        let (report, ()) = tokio::join!(worker.execute(ready, call), async { token.cancel() });
        assert_eq!(matches!(report, Report::Cancelled), cancelled, "{answer}: {report:?}");
    }
    let run = world.start(one("gives-up", 1000), json!(null)).await;
    assert_eq!(world.execute(&worker, &run, "a").await, Report::Cancelled);
    // One that was stopped before it began is not called.
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    call.cancellation.cancel();
    assert_eq!(worker.execute(ready, call).await, Report::Cancelled);
}

#[tokio::test]
async fn progress_is_published_at_most_every_half_second_and_the_last_word_stays() {
    let world = World::memory();
    let (go, steps) = mpsc::unbounded_channel::<f64>();
    let steps = Arc::new(tokio::sync::Mutex::new(steps));
    let mut handlers = Handlers::new();
    handlers
        .register_fn("long", move |context: StepContext, _: Value| {
            let steps = steps.clone();
            async move {
                while let Some(done) = steps.lock().await.recv().await {
                    context.progress(done);
                }
                Err::<(), _>(StepError::classified("BadRequest", None, "no"))
            }
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(one("long", 60_000), json!(null)).await;
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.execute(ready, call).await }
    });
    let noted = async || {
        let progress = world.store.progress(&tenant(), &run).await.unwrap();
        progress.first().map(|progress| progress.done)
    };
    go.send(0.1).unwrap();
    go.send(0.2).unwrap();
    world.time.until_awaited(60_000).await;
    go.send(0.3).unwrap();
    // Now the pump waits for the half second to pass.
    world.time.until_awaited(500).await;
    let first = noted().await.expect("progress at once");
    assert!(first < 0.3, "{first}");
    world.time.advance(500);
    while noted().await != Some(0.3) {
        tokio::task::yield_now().await;
    }
    go.send(0.4).unwrap();
    drop(go);
    assert_eq!(error(running.await.unwrap()).code, "BadRequest");
    assert_eq!(noted().await, Some(0.4));
    let heard = world.heard.progress.lock().unwrap().clone();
    assert_eq!(heard, [first, 0.3, 0.4]);
}
