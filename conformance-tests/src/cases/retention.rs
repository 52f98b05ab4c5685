//! Runs that are forgotten, and those that are kept because others need them.

use std::collections::BTreeMap;

use client::{Rerun, Start};
use engine_core::event::EventType;
use engine_core::machine::RunStatus;
use engine_core::port::store::{ClaimOutbox, Delivered, ForgetRequest};
use engine_core::{Code, RunId, Timestamp};
use serde_json::{Value, json};

use crate::case::cases;
use crate::{Outcome, Stop, World, ensure, ensure_eq};

cases!("retention", Store;
    what_a_link_refers_to_is_kept => ["ORIGIN-13"],
    an_archive_outlives_its_source => ["ORIGIN-14"],
);

const PLAN: &str = "
id: kept
version: 1.0.0
result: '{n: steps.a.output.n}'
steps:
  - {id: a, handler: script, with: {value: {n: 7}}}
";

/// A run that has completed. It may be forgotten, so its log is not judged with the case.
async fn done(world: &World) -> Result<RunId, Stop> {
    let run = world.client().start(Start::of(world.plan(PLAN)?)).await?.run_id;
    let ended = world.client().wait(&run).await?.status;
    ensure_eq!(ended, Some(RunStatus::Completed), "the end of the run");
    Ok(run)
}

/// The time now; what ends later has ended after it.
async fn moment(world: &World) -> Result<Timestamp, Stop> {
    world.pass(10).await?;
    let now = world.now();
    world.pass(10).await?;
    Ok(now)
}

/// Forgets every run that ended before a time and that nothing keeps.
async fn forget(world: &World, ended_before: Timestamp) -> Result<Vec<RunId>, Stop> {
    let store = &world.subject().store;
    // Whatever a bus has not taken is kept for it, so this one takes everything.
    let relay = "conformance".to_owned();
    loop {
        let request = ClaimOutbox { relay: relay.clone(), limit: 1000, duration_ms: 60_000 };
        let entries = store.claim_outbox(request).await?;
        if entries.is_empty() {
            return Ok(store.forget(ForgetRequest { ended_before, limit: 1000 }).await?);
        }
        let last: BTreeMap<RunId, u64> =
            entries.into_iter().map(|entry| (entry.event.run_id, entry.event.run_seq)).collect();
        for (run_id, up_to_seq) in last {
            store.acknowledge(Delivered { relay: relay.clone(), run_id, up_to_seq }).await?;
        }
    }
}

/// What a rerun of a run gives that takes everything over.
async fn output_of_a_rerun(world: &World, source: &RunId) -> Result<Value, Stop> {
    let rerun = world.client().rerun(source, Rerun::default()).await?;
    let run = world.track(rerun.run_id, rerun.fresh);
    run.ends(RunStatus::Completed).await?;
    Ok(run.event(EventType::RunCompleted).await?["output"]["value"].clone())
}

async fn what_a_link_refers_to_is_kept(world: &World) -> Outcome {
    let (source, unused) = (done(world).await?, done(world).await?);
    let then = moment(world).await?;
    let link = world.client().link(&source, None).await?;
    let link = world.track(link.run_id, link.fresh);
    link.ends(RunStatus::Completed).await?;
    let gone = forget(world, then).await?;
    ensure_eq!(gone, [unused], "who is forgotten: not whom the link refers to");
    ensure!(world.client().get(&source).await.is_ok(), "the source is still there");
    let output = output_of_a_rerun(world, &link.run_id).await?;
    ensure_eq!(output, json!({"n": 7}), "the output, of the source's outputs");
    ensure_eq!(world.entries(), ["a#1.1", "a#1.1"], "the calls");
    Ok(())
}

async fn an_archive_outlives_its_source(world: &World) -> Outcome {
    let source = done(world).await?;
    let then = moment(world).await?;
    let archive = world.client().archive(&source, None).await?;
    let archive = world.track(archive.run_id, archive.fresh);
    archive.ends(RunStatus::Completed).await?;
    ensure_eq!(forget(world, then).await?, std::slice::from_ref(&source), "who is forgotten");
    let lost = world.client().get(&source).await.err().map(|error| error.code());
    ensure_eq!(lost, Some(Code::NotFound), "the answer about the source");
    let output = output_of_a_rerun(world, &archive.run_id).await?;
    ensure_eq!(output, json!({"n": 7}), "the output, of the archive's own copies");
    ensure_eq!(world.entries(), ["a#1.1"], "the calls");
    Ok(())
}
