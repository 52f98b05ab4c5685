//! Judges a run from its log and the diary.

use client::Client;
use engine_core::RunId;
use engine_core::event::{Body, Event, EventType};
use engine_core::port::store::ReadRequest;

use crate::diary::Diary;

pub(crate) async fn log(client: &Client, run_id: &RunId) -> Vec<Event> {
    let tenant_id = client.scope().tenant_id.clone();
    client
        .store()
        .read(ReadRequest { tenant_id, run_id: run_id.clone(), after: 0, limit: 10_000 })
        .await
        .unwrap()
}

pub(crate) fn lines(events: &[Event]) -> String {
    let line = |event: &Event| {
        let step = event.subject.as_ref().map(|subject| subject.step.to_string()).unwrap_or_default();
        format!("\n{:>4} {} {step}", event.run_seq, event.body.type_name())
    };
    events.iter().map(line).collect()
}

/// Every step started once and ended once, and nobody was called for a step that had ended.
pub(crate) async fn lawful(client: &Client, run_id: &RunId, diary: &Diary, steps: usize) {
    let events = log(client, run_id).await;
    let count =
        |wanted: EventType| events.iter().filter(|event| event.body.event_type() == Some(wanted)).count();
    let all = lines(&events);
    assert_eq!(count(EventType::StepStarted), steps, "{all}");
    assert_eq!(count(EventType::StepCompleted), steps, "{all}");
    assert_eq!(count(EventType::StepFailed), 0, "{all}");
    assert_eq!(count(EventType::RunCompleted), 1, "{all}");
    let calls = diary.calls();
    for event in &events {
        let (Body::StepCompleted(_), Some(subject)) = (&event.body, &event.subject) else { continue };
        let of_step =
            calls.iter().filter(|call| call.run == run_id.as_str() && call.step == subject.step.as_str());
        let mut called = 0;
        for call in of_step {
            called += 1;
            assert!(call.at <= event.emitted_at, "{} was called after its end{all}", subject.step);
        }
        let lost = events.iter().filter(|other| {
            let same = other.subject.as_ref().is_some_and(|other| other.step == subject.step);
            same && matches!(&other.body, Body::StepRetried(retried) if retried.worker_lost)
        });
        assert!(called <= 1 + lost.count(), "{} was called {called} times{all}", subject.step);
    }
}
