//! A driver that is gone between any two things that it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use adapter_mock::{Fault, Faults, Moment};
use engine_core::RunId;
use engine_core::decider::Run;
use engine_core::machine::RunStatus;
use engine_core::plan::CompiledPlan;

use super::world::{On, World};

const PLAN: &str = "
id: eventful
version: 1.0.0
limits: {maxConcurrency: 2}
steps:
  - {id: a, handler: do, compensation: {handler: do}}
  - {id: b, handler: do, dependsOn: [a], with: {fail: transient, times: 1}, compensation: {handler: do}}
  - {id: c, handler: do, dependsOn: [a], with: {sleep: 1000}}
  - {id: d, handler: do, dependsOn: [b, c], with: {fail: permanent}}
";

/// Crashes at the n-th moment.
#[derive(Debug)]
struct CrashAt {
    moment: usize,
    seen: AtomicUsize,
}

impl Faults for CrashAt {
    fn at(&self, _: &RunId, _: Moment<'_>) -> Fault {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst);
        if seen == self.moment { Fault::Crash } else { Fault::None }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_a_driver_is_lost_the_run_ends_as_it_would_have() {
    let mut crashes = 0;
    for in_memory in [true, false] {
        for moment in 0.. {
            let on = if in_memory { On::Memory } else { On::Sqlite(tempfile::tempdir().unwrap()) };
            let faults = Arc::new(CrashAt { moment, seen: AtomicUsize::new(0) });
            let world = World::with_faults(&on, Some(faults.clone())).await;
            let run = world.start(PLAN).await;
            // When it has crashed, nothing happens any more until the lease has run out.
            world.put_aside().await;
            if faults.seen.load(Ordering::SeqCst) <= moment {
                assert_eq!(world.ended(&run).await, RunStatus::Failed);
                break;
            }
            crashes += 1;
            world.pass(20_000).await;
            let _second = world.another_engine().await;
            assert_eq!(world.ended(&run).await, RunStatus::Failed, "crashed at moment {moment}");
            check(&world, &run, moment).await;
        }
    }
    assert!(crashes > 20, "{crashes} crashes are too few to mean anything");
}

async fn check(world: &World, run: &RunId, moment: usize) {
    let events = world.events(run).await;
    let plan = Arc::new(CompiledPlan::read(PLAN).unwrap());
    Run::fold(plan, &events).expect("a log that folds");
    for (event, place) in events.iter().zip(1..) {
        assert_eq!(event.run_seq, place, "moment {moment}");
    }
    let log = world.log(run).await;
    for once in ["StepCompleted a#1", "StepCompleted b#1", "StepCompleted c#1", "StepFailed d#1", "RunFailed"]
    {
        assert_eq!(log.iter().filter(|line| *line == once).count(), 1, "moment {moment}: {once} in {log:#?}");
    }
    let undone: Vec<&String> = log.iter().filter(|line| line.starts_with("CompensationCompleted")).collect();
    assert_eq!(undone, ["CompensationCompleted b#1", "CompensationCompleted a#1"], "moment {moment}");
}
