//! What happens to a run that nobody disturbs.

use std::sync::{Arc, Mutex};

use adapter_mock::{Fault, Faults, Moment};
use engine_core::RunId;
use engine_core::event::Body;
use engine_core::machine::RunStatus;
use engine_core::port::Clock as _;
use serde_json::json;

use super::world::{On, World};

fn everywhere() -> [On; 2] {
    [On::Memory, On::Sqlite(tempfile::tempdir().unwrap())]
}

const CHAIN: &str = "
id: chain
version: 1.0.0
steps:
  - {id: a, handler: do, with: {n: 1}}
  - {id: b, handler: do, with: {n: '${ steps.a.output.n }'}}
  - {id: c, handler: do, with: {n: '${ steps.b.output.n }'}}
";

#[derive(Debug, Default)]
struct Batches(Mutex<Vec<Vec<String>>>);

impl Faults for Batches {
    fn at(&self, _: &RunId, moment: Moment<'_>) -> Fault {
        if let Moment::BeforeAppend(drafts) = moment {
            let names = drafts.iter().map(|draft| draft.body.type_name().to_owned()).collect();
            self.0.lock().unwrap().push(names);
        }
        Fault::None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_costs_one_commit() {
    for on in everywhere() {
        let batches = Arc::new(Batches::default());
        let world = World::with_faults(&on, Some(batches.clone())).await;
        let run = world.start(CHAIN).await;
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        let batches = batches.0.lock().unwrap().clone();
        assert_eq!(
            batches,
            [
                vec!["RunApproved", "RunStarted", "StepStarted"],
                vec!["StepCompleted", "StepStarted"],
                vec!["StepCompleted", "StepStarted"],
                vec!["StepCompleted", "RunCompleted"],
            ]
        );
        assert_eq!(world.stage.entered(), ["a#1.1", "b#1.1", "c#1.1"]);
        let end = world.events(&run).await.pop().unwrap();
        let Body::RunCompleted(completed) = end.body else { panic!("{end:?}") };
        assert_eq!(completed.output.unwrap().value.unwrap(), json!({"c": {"n": 1}}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_of_backoff_take_no_time() {
    let plan = "
id: patient
version: 1.0.0
steps:
  - {id: a, handler: do, with: {fail: transient, times: 8}, retry: {maxAttempts: 10, initialBackoffMs: 3600000, maxBackoffMs: 3600000}}
";
    for on in everywhere() {
        let world = World::new(&on).await;
        let began = world.time.now();
        let run = world.start(plan).await;
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        assert_eq!(world.stage.entered().len(), 9);
        assert_eq!(world.time.now().millis_since(began), 8 * 3_600_000);
        let retries = world.log(&run).await.iter().filter(|line| line.starts_with("StepRetried")).count();
        assert_eq!(retries, 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_run_at_once_and_a_join_waits_for_all() {
    let plan = "
id: diamond
version: 1.0.0
limits: {maxConcurrency: 2}
steps:
  - {id: start, handler: do}
  - {id: left, handler: do, dependsOn: [start], with: {gate: l}}
  - {id: right, handler: do, dependsOn: [start], with: {gate: r}}
  - {id: third, handler: do, dependsOn: [start]}
  - {id: join, handler: do, dependsOn: [left, right, third]}
";
    for on in everywhere() {
        let world = World::new(&on).await;
        let run = world.start(plan).await;
        world.stage.entered_at_least(3).await;
        assert_eq!(world.stage.entered().len(), 3, "two at once, and no more");
        world.stage.open("l");
        world.stage.entered_at_least(4).await;
        assert_eq!(world.stage.entered()[3], "third#1.1");
        world.stage.open("r");
        assert_eq!(world.ended(&run).await, RunStatus::Completed);
        assert_eq!(world.stage.entered().last().unwrap(), "join#1.1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_undone_in_reverse_order() {
    let plan = "
id: saga
version: 1.0.0
steps:
  - {id: reserve, handler: do, compensation: {handler: do, with: {undo: reserve}}}
  - {id: charge, handler: do, compensation: {handler: do, with: {undo: charge, fail: transient, times: 1}}}
  - {id: ship, handler: do, with: {fail: permanent}}
";
    for on in everywhere() {
        let world = World::new(&on).await;
        let run = world.start(plan).await;
        assert_eq!(world.ended(&run).await, RunStatus::Failed);
        let log = world.log(&run).await;
        let undone: Vec<&str> =
            log.iter().map(String::as_str).filter(|line| line.starts_with("Comp")).collect();
        assert_eq!(
            undone,
            [
                "CompensationStarted charge#1",
                "CompensationFailed charge#1",
                "CompensationCompleted charge#1",
                "CompensationStarted reserve#1",
                "CompensationCompleted reserve#1",
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_and_the_run_timeout_are_kept() {
    let plan = "
id: slow
version: 1.0.0
limits: {runTimeoutMs: 7200000}
steps:
  - {id: a, handler: do, schedule: {delayMs: 3600000}}
  - {id: b, handler: do, timeoutMs: 86400000, with: {sleep: 36000000}}
";
    for on in everywhere() {
        let world = World::new(&on).await;
        let began = world.time.now();
        let run = world.start(plan).await;
        assert_eq!(world.ended(&run).await, RunStatus::Failed);
        assert_eq!(world.time.now().millis_since(began), 7_200_000);
        let Body::RunFailed(failed) = world.events(&run).await.pop().unwrap().body else { panic!() };
        assert_eq!(failed.code, "RUN_TIMEOUT");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_plan_is_gone_fails_and_says_why() {
    let world = World::new(&On::Memory).await;
    let run = world.start_without_its_plan(CHAIN).await;
    assert_eq!(world.ended(&run).await, RunStatus::Failed);
    let Body::RunFailed(failed) = world.events(&run).await.pop().unwrap().body else { panic!() };
    assert_eq!(failed.code, "PLAN_MISSING");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_is_false_skips_and_bad_input_fails() {
    let plan = "
id: choosy
version: 1.0.0
failure: {continueOnPartialFailure: true}
mode: graph
steps:
  - {id: never, handler: do, when: 'input.go'}
  - {id: bad, handler: do, input: {from: literal, value: {n: 1}, schema: {required: [m]}}}
  - {id: fine, handler: do}
";
    let world = World::new(&On::Memory).await;
    let run = world.start(plan).await;
    assert_eq!(world.ended(&run).await, RunStatus::Completed);
    assert_eq!(world.stage.entered(), ["fine#1.1"]);
    let log = world.log(&run).await;
    assert!(
        log.contains(&"StepSkipped never#1".to_owned()) && log.contains(&"StepFailed bad#1".to_owned()),
        "{log:?}"
    );
}
