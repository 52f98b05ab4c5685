//! The whole way of a delivery, on the store in memory and on SQLite.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine_core::RunId;
use engine_core::decider::{Report, Stimulus};
use engine_core::event::Body;
use engine_core::event::step::{StepError, StepStarted};
use engine_core::port::StepContext;
use engine_core::port::store::ClaimRequest;
use engine_core::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::Notify;
use worker::{Delivery, Handlers, Standing, Worker};

use crate::support::{World, step, tenant};

fn delivery(run_id: &RunId, id: &str) -> Delivery {
    Delivery::new(tenant(), run_id.clone(), step(id), 1)
}

/// Counts its calls; gives its input back.
fn counting() -> (Handlers, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("count", move |_, input: Value| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { Ok(input) }
        })
        .unwrap();
    (handlers, calls)
}

/// Says when it runs, and then waits to be stopped.
fn waiting() -> (Handlers, Arc<Notify>) {
    let entered = Arc::new(Notify::new());
    let gate = entered.clone();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("wait", move |context: StepContext, _: Value| {
            let gate = gate.clone();
            async move {
                gate.notify_one();
                context.cancellation.cancelled().await;
                Err::<(), _>(StepError::classified("NetworkError", None, "stopped in the middle"))
            }
        })
        .unwrap();
    (handlers, entered)
}

fn one(handler: &str) -> Value {
    json!([{"id": "a", "handler": handler, "with": 7}, {"id": "b", "handler": handler}])
}

async fn start_by_another(world: &World, run: &RunId, worker: &Worker) {
    let ready = world.ready(worker, run, "a").await;
    let started = StepStarted { worker: "gone".into(), ..ready.started().clone() };
    world.report(run, "a", Report::Started(started)).await;
}

#[tokio::test]
async fn an_attempt_is_done_once_however_often_it_is_delivered() {
    for world in [World::memory(), World::sqlite().await] {
        let (handlers, calls) = counting();
        let worker = world.worker(handlers);
        let run = world.start(one("count"), json!(null)).await;
        let first = worker.attempt(delivery(&run, "a")).await.unwrap();
        assert_eq!(first.standing, Standing::Ended);
        let [started, completed] = &first.events[..] else { panic!("{:?}", first.events) };
        let Body::StepStarted(started) = &started.body else { panic!("{started:?}") };
        assert_eq!(started.worker, "w1");
        assert!(started.claim_until.is_some() && started.idempotency_token.is_some());
        let Body::StepCompleted(completed) = &completed.body else { panic!("{completed:?}") };
        assert_eq!(completed.output.value, Some(json!(7)));
        assert_eq!(worker.attempt(delivery(&run, "a")).await.unwrap(), first);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        // The claim was given back: another worker may have it.
        let claim = ClaimRequest {
            run_id: run.clone(),
            step_id: step("a"),
            attempt: 1,
            worker: "w2".into(),
            duration_ms: 1000,
        };
        world.store.claim(claim).await.unwrap();
    }
}

#[tokio::test]
async fn what_another_worker_holds_is_given_back() {
    for world in [World::memory(), World::sqlite().await] {
        let (handlers, calls) = counting();
        let worker = world.worker(handlers);
        let run = world.start(one("count"), json!(null)).await;
        let claim = ClaimRequest {
            run_id: run.clone(),
            step_id: step("a"),
            attempt: 1,
            worker: "w2".into(),
            duration_ms: 1000,
        };
        world.store.claim(claim).await.unwrap();
        let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
        assert_eq!((outcome.standing, calls.load(Ordering::SeqCst)), (Standing::GivenBack, 0));
        world.time.advance(1001);
        assert_eq!(worker.attempt(delivery(&run, "a")).await.unwrap().standing, Standing::Ended);
    }
}

#[tokio::test]
async fn a_lost_worker_is_told_of_and_the_attempt_goes_on() {
    for world in [World::memory(), World::sqlite().await] {
        let (handlers, _) = counting();
        let worker = world.worker(handlers);
        let run = world.start(one("count"), json!(null)).await;
        start_by_another(&world, &run, &worker).await;
        let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
        assert_eq!(outcome.standing, Standing::Ended);
        assert_eq!(world.types(&run, "a").await, ["StepStarted", "StepRetried", "StepCompleted"]);
        let Body::StepRetried(retried) = &outcome.events[1].body else { panic!("{:?}", outcome.events) };
        assert!(retried.worker_lost);
        assert_eq!(retried.error.code, "WORKER_LOST");
    }
}

#[tokio::test]
async fn a_worker_that_is_lost_again_and_again_fails_the_step() {
    let world = World::memory();
    let (handlers, calls) = counting();
    let worker = world.worker(handlers);
    let steps = json!([{"id": "a", "handler": "count", "maxLosses": 1}]);
    let run = world.start(steps, json!(null)).await;
    start_by_another(&world, &run, &worker).await;
    world.report(&run, "a", Report::WorkerLost { message: "first".into() }).await;
    // Whoever wrote that took the attempt on, and is gone too.
    let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
    assert_eq!((outcome.standing, calls.load(Ordering::SeqCst)), (Standing::Ended, 0));
    assert_eq!(world.types(&run, "a").await, ["StepStarted", "StepRetried", "StepFailed"]);
}

#[tokio::test]
async fn a_failed_try_is_tried_again_until_it_is_final() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("flaky", |context: StepContext, _: Value| async move {
            let try_number = context.engine_attempt_id;
            Err::<(), _>(StepError::classified("ETIMEDOUT", None, format!("try {try_number}")))
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(json!([{"id": "a", "handler": "flaky"}]), json!(null)).await;
    for delay_ms in [1000, 2000] {
        let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
        assert_eq!(outcome.standing, Standing::TryAgain { delay_ms });
        world.time.advance(delay_ms);
    }
    let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
    assert_eq!(outcome.standing, Standing::Ended);
    let types = world.types(&run, "a").await;
    assert_eq!(types, ["StepStarted", "StepRetried", "StepRetried", "StepFailed"]);
    let Body::StepFailed(failed) = &outcome.events[3].body else { panic!("{:?}", outcome.events) };
    assert_eq!((failed.tries, failed.error.message.as_str()), (3, "try 3"));
}

#[tokio::test]
async fn a_delivery_that_comes_while_a_try_backs_off_does_not_begin_the_next_one_early() {
    let world = World::memory();
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("flaky", move |_, _: Value| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>(StepError::classified("ETIMEDOUT", None, "too late")) }
        })
        .unwrap();
    let worker = world.worker(handlers);
    let retry = json!({"maxAttempts": 2, "initialBackoffMs": 5000});
    let run = world.start(json!([{"id": "a", "handler": "flaky", "retry": retry}]), json!(null)).await;
    let first = worker.attempt(delivery(&run, "a")).await.unwrap();
    assert_eq!(first.standing, Standing::TryAgain { delay_ms: 5000 });
    world.time.advance(1000);
    // One too many: it is told how long it still takes.
    let early = worker.attempt(delivery(&run, "a")).await.unwrap();
    assert_eq!(early.standing, Standing::TryAgain { delay_ms: 4000 });
    world.time.advance(3900);
    // A clock that is a little ahead: a moment is waited out.
    let (again, at) = (worker.clone(), delivery(&run, "a"));
    let waiting = tokio::spawn(async move { again.attempt(at).await });
    world.time.until_awaited(100).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    world.time.advance(100);
    assert_eq!(waiting.await.unwrap().unwrap().standing, Standing::Ended);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_is_not_released_or_not_needed_is_not_done() {
    let world = World::memory();
    let (handlers, calls) = counting();
    let worker = world.worker(handlers);
    let steps = json!([
        {"id": "a", "handler": "count"},
        {"id": "b", "handler": "count", "dependsOn": ["a"]},
        {"id": "c", "handler": "count", "dependsOn": [{"step": "a", "required": false}], "when": "input.no"},
        {"id": "d", "handler": "nowhere"},
    ]);
    let run = world.start(steps, json!({"no": false})).await;
    assert_eq!(worker.attempt(delivery(&run, "b")).await.unwrap().standing, Standing::NotReleased);
    let later = Delivery { attempt: 2, ..delivery(&run, "a") };
    assert_eq!(worker.attempt(later).await.unwrap().standing, Standing::NotReleased);
    assert_eq!(
        worker.attempt(delivery(&run, "nowhere")).await.unwrap_err().code().as_str(),
        "STEP_NOT_FOUND"
    );
    // The driver's word counts: it may have folded siblings in another order.
    let by_driver = Delivery { released_by_driver: true, ..delivery(&run, "c") };
    assert_eq!(worker.attempt(by_driver).await.unwrap().standing, Standing::Ended);
    assert_eq!(world.types(&run, "c").await, ["StepSkipped"]);
    assert_eq!(worker.attempt(delivery(&run, "d")).await.unwrap().standing, Standing::Ended);
    assert_eq!(world.types(&run, "d").await, ["StepStarted", "StepFailed"]);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nothing_is_done_for_a_run_that_has_ended() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("bad", |_, _: Value| async {
            Err::<(), _>(StepError::classified("BadRequest", None, "no"))
        })
        .unwrap();
    let worker = world.worker(handlers);
    let steps = json!([{"id": "a", "handler": "bad"}, {"id": "b", "handler": "bad", "dependsOn": ["a"]}]);
    let run = world.start(steps, json!(null)).await;
    assert_eq!(worker.attempt(delivery(&run, "a")).await.unwrap().standing, Standing::Ended);
    world.settle(&run).await;
    assert_eq!(worker.attempt(delivery(&run, "b")).await.unwrap().standing, Standing::RunEnded);
}

#[tokio::test]
async fn a_claim_is_renewed_while_the_handler_runs_and_losing_it_stops_the_handler() {
    for world in [World::memory(), World::sqlite().await] {
        let (handlers, entered) = waiting();
        let worker = world.builder(handlers).claim(Duration::from_millis(3000)).build().unwrap();
        let steps = json!([{"id": "a", "handler": "wait", "timeoutMs": 86_400_000}]);
        let run = world.start(steps, json!(null)).await;
        let running = tokio::spawn({
            let (worker, delivery) = (worker.clone(), delivery(&run, "a"));
            async move { worker.attempt(delivery).await }
        });
        entered.notified().await;
        let theirs = ClaimRequest {
            run_id: run.clone(),
            step_id: step("a"),
            attempt: 1,
            worker: "w2".into(),
            duration_ms: 60_000,
        };
        for _ in 0..5 {
            world.time.until_awaited(1000).await;
            world.time.advance(1000);
        }
        // Far beyond the first claim: it holds because it was renewed.
        world.time.until_awaited(1000).await;
        assert!(world.store.claim(theirs.clone()).await.is_err());
        // The worker is held up, its claim expires, and another takes the attempt.
        world.time.advance(60_000);
        loop {
            // Whoever is first has it; the renewal of the worker may be first.
            if world.store.claim(theirs.clone()).await.is_ok() {
                break;
            }
            world.time.until_awaited(1000).await;
            world.time.advance(60_000);
        }
        assert_eq!(running.await.unwrap().unwrap().standing, Standing::GivenBack);
        assert_eq!(world.types(&run, "a").await, ["StepStarted"]);
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_its_attempts_and_a_shutdown_gives_them_back() {
    for cancelled in [true, false] {
        let world = World::memory();
        let (handlers, entered) = waiting();
        let worker = world.worker(handlers);
        let run = world.start(one("wait"), json!(null)).await;
        let delivered = delivery(&run, "a");
        let token = delivered.cancellation.clone();
        let running = tokio::spawn({
            let worker = worker.clone();
            async move { worker.attempt(delivered).await }
        });
        entered.notified().await;
        if cancelled {
            let signal = json!({"signalId": "s1", "type": "CANCEL", "actor": "ada"});
            let signal = Signal::from_json(&signal).unwrap();
            world.decide(&run, Stimulus::Signal(Box::new(signal))).await;
        }
        token.cancel();
        let standing = running.await.unwrap().unwrap().standing;
        let types = world.types(&run, "a").await;
        if cancelled {
            assert_eq!(
                (standing, types),
                (Standing::Ended, vec!["StepStarted".into(), "StepCancelled".into()])
            );
        } else {
            assert_eq!((standing, types), (Standing::GivenBack, vec!["StepStarted".to_owned()]));
        }
    }
}

#[tokio::test]
async fn a_handler_that_does_not_stop_is_cut_off_after_the_grace() {
    let world = World::memory();
    let entered = Arc::new(Notify::new());
    let gate = entered.clone();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("deaf", move |_, _: Value| {
            gate.notify_one();
            pending::<Result<(), StepError>>()
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(one("deaf"), json!(null)).await;
    let delivered = delivery(&run, "a");
    let token = delivered.cancellation.clone();
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.attempt(delivered).await }
    });
    entered.notified().await;
    token.cancel();
    world.time.until_awaited(5000).await;
    world.time.advance(5000);
    assert_eq!(running.await.unwrap().unwrap().standing, Standing::GivenBack);
}

#[tokio::test]
async fn a_review_request_is_in_the_log_while_the_handler_still_runs() {
    let world = World::memory();
    let done = Arc::new(Notify::new());
    let gate = done.clone();
    let mut handlers = Handlers::new();
    handlers
        .register_fn("unsure", move |context: StepContext, _: Value| {
            let gate = gate.clone();
            async move {
                context.request_review("is this right?", [("score".to_owned(), json!(0.5))].into());
                gate.notified().await;
                context.request_review("and this?", Default::default());
                Ok(())
            }
        })
        .unwrap();
    let worker = world.worker(handlers);
    let run = world.start(json!([{"id": "a", "handler": "unsure"}]), json!(null)).await;
    let running = tokio::spawn({
        let (worker, delivery) = (worker.clone(), delivery(&run, "a"));
        async move { worker.attempt(delivery).await }
    });
    while world.types(&run, "a").await != ["StepStarted", "HumanReviewRequested"] {
        tokio::task::yield_now().await;
    }
    done.notify_one();
    assert_eq!(running.await.unwrap().unwrap().standing, Standing::Ended);
    let types = world.types(&run, "a").await;
    assert_eq!(types, ["StepStarted", "HumanReviewRequested", "HumanReviewRequested", "StepCompleted"]);
}

#[tokio::test]
async fn a_manual_step_waits_and_is_not_done_again() {
    let world = World::memory();
    let (handlers, calls) = counting();
    let worker = world.worker(handlers);
    let run =
        world.start(json!([{"id": "a", "handler": "count", "completion": "manual"}]), json!(null)).await;
    for _ in 0..2 {
        let outcome = worker.attempt(delivery(&run, "a")).await.unwrap();
        assert_eq!(outcome.standing, Standing::Waiting);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
