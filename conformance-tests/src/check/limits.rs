//! Limits, judged by the intervals from StepStarted to the end or the wait of each attempt (CORE-41).

use std::collections::{BTreeMap, HashMap};

use engine_core::event::Body;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let Some(Body::RunQueued(queued)) = run.events.first().map(|event| &event.body) else { return };
    let limits = &queued.limits;
    let mut walk = Walk::new(&run.plan);
    let mut agents = HashMap::new();
    for event in &run.events {
        let _ = walk.step(event);
        let (Body::StepStarted(started), Some(subject)) = (&event.body, &event.subject) else { continue };
        agents.insert(subject.step.clone(), started.agent.clone());
        let about = || format!("{} at {}", line(event), event.run_seq);
        let at_once = walk.running().count();
        findings.unless(at_once <= limits.max_concurrency as usize, &["SLOT-1", "CORE-41"], || {
            format!("{} makes {at_once} at once; {} are allowed", about(), limits.max_concurrency)
        });
        let mut per_agent: BTreeMap<String, usize> = BTreeMap::new();
        for (id, _) in walk.running() {
            if let Some(Some(agent)) = agents.get(id) {
                *per_agent.entry(agent.to_string()).or_default() += 1;
            }
        }
        for (agent, count) in per_agent {
            findings.unless(count <= limits.per_agent as usize, &["SLOT-2", "CORE-41"], || {
                format!("{} makes {count} at once on {agent}; {} are allowed", about(), limits.per_agent)
            });
        }
    }
}
