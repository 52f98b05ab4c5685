//! Every event against its schema, and what all events of a run share.

use std::collections::HashSet;

use engine_core::event::{Body, Event, schema};

use super::Findings;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let mut ids = HashSet::new();
    let Some(first) = run.events.first() else { return };
    for event in &run.events {
        let about = || format!("{} at {}", line(event), event.run_seq);
        if let Err(error) = schema::validate(event) {
            findings.add(&["EVENT-1", "EVENT-5"], format!("{}: {error}", about()));
        }
        findings.unless(ids.insert(event.event_id), &["EVENT-1"], || format!("{} repeats an id", about()));
        findings
            .unless(event.run_id == run.run_id, &["EVENT-1"], || format!("{} is of another run", about()));
        let alike = event.plan_version == first.plan_version && event.correlation_id == first.correlation_id;
        findings.unless(alike, &["EVENT-1", "CORE-22"], || {
            format!("{} has another planVersion or correlationId than RunQueued", about())
        });
        findings.unless(&*event.schema_version == "1.0", &["VERSION-9"], || {
            format!("{} has schemaVersion {}", about(), event.schema_version)
        });
        let of_a_step = event.body.event_type().is_some_and(|event_type| event_type.is_about_a_step());
        findings.unless(!of_a_step || event.subject.is_some(), &["EVENT-2"], || {
            format!("{} names no step", about())
        });
        let read = serde_json::to_value(event)
            .map_err(|cause| cause.to_string())
            .and_then(|written| Event::from_json(written).map_err(|error| error.to_string()));
        findings.unless(read.as_ref() == Ok(event), &["EVENT-7"], || {
            format!("{} is not what is read of it", about())
        });
    }
    if let Body::RunQueued(queued) = &first.body {
        findings.unless(queued.plan_ref.sha256 == run.plan.hash(), &["CORE-22", "PLAN-15"], || {
            "RunQueued names another plan than the run has".to_owned()
        });
        findings.unless(queued.context.tenant_id == run.tenant_id, &["START-5"], || {
            "RunQueued names another tenant than the run has".to_owned()
        });
    }
}
