//! What a fold releases and wants done, after each event: nothing too late, nothing taken back, nothing left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine_core::decider::{AttemptRef, Run, TimerId};
use engine_core::event::run::{EffectiveLimits, PauseCause, RunPaused, TimerFired};
use engine_core::event::signal::SignalAccepted;
use engine_core::event::{Body, Draft, Event};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::plan::compiled::StepIndex;
use engine_core::signal::SignalType;
use engine_core::{SignalId, Timestamp};

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let limits = run.events.first().and_then(|event| match &event.body {
        Body::RunQueued(queued) => Some(&queued.limits),
        _ => None,
    });
    let mut folded = Run::new(Arc::clone(&run.plan));
    let mut walk = Walk::new(&run.plan);
    let mut released = BTreeSet::new();
    let mut asked: BTreeMap<String, Timestamp> = BTreeMap::new();
    let (mut smooth, mut undoing, mut pauses) = (true, None, 0);
    for event in &run.events {
        pauses += u32::from(matches!(event.body, Body::RunPaused(_)));
        if let Body::TimerFired(fired) = &event.body {
            findings.unless(
                asked.get(&fired.timer_id) == Some(&fired.due_at),
                &["TIME-1", "CORE-17"],
                || format!("{} fired for {}, and nobody asked for it so", fired.timer_id, fired.due_at),
            );
        }
        folded.evolve(event);
        let _ = walk.step(event);
        smooth &= goes_smoothly(&event.body);
        undoing = undone(event, undoing);
        let at = format!("after {} at {}", line(event), event.run_seq);
        let wanted = wanted(&folded);
        for gone in released.difference(&wanted).filter(|attempt| is_open(&walk, attempt)) {
            findings.add(&["CORE-11", "CORE-12"], format!("{at}: the release of {gone:?} is taken back"));
        }
        kept_when_interrupted(&folded, &wanted, (event, pauses), &at, findings);
        listed(&folded, &walk, undoing.as_ref(), &at, findings);
        if let Some(limits) = limits.filter(|_| smooth) {
            nobody_left_waiting(&folded, &walk, limits, &at, findings);
        }
        let timers: BTreeMap<String, Timestamp> = folded
            .actions()
            .timers
            .into_iter()
            .map(|timer| (timer.timer.to_string(), timer.due_at))
            .collect();
        out_of_date(&folded, event, &asked, &timers, &at, findings);
        asked.extend(timers);
        released = wanted;
    }
    let over = walk.status.is_some_and(RunStatus::is_terminal);
    findings.unless(!over || folded.settle().is_empty(), &["CORE-16"], || {
        "something follows from the state of a run that has ended".to_owned()
    });
}

/// Attempts that are to be handed out or asked to stop.
fn wanted(run: &Run) -> BTreeSet<AttemptRef> {
    let actions = run.actions();
    actions.dispatch.into_iter().map(|task| task.attempt).chain(actions.cancel).collect()
}

/// Neither ended nor waiting for a person, in a run that goes on.
fn is_open(walk: &Walk, attempt: &AttemptRef) -> bool {
    let found = walk.steps.get(&attempt.step).and_then(|attempts| attempts.get(attempt.attempt as usize - 1));
    !walk.status.is_some_and(RunStatus::is_terminal)
        && found.is_some_and(|found| !found.status.is_terminal() && !found.waiting)
}

/// CORE-11, CORE-12: what was released stays so, whatever comes next.
fn kept_when_interrupted(
    run: &Run,
    wanted: &BTreeSet<AttemptRef>,
    (last, pauses): (&Event, u32),
    at: &str,
    findings: &mut Findings,
) {
    if run.state().status() != Some(RunStatus::Running) {
        return;
    }
    let Ok(signal_id) = SignalId::new("nobody-sent-this") else { return };
    let pause = Draft::run(RunPaused {
        pause_number: pauses + 1,
        cause: PauseCause::Signal,
        in_flight: 0,
        immediate: false,
        caused_by_step: None,
        signal_id: Some(signal_id.clone()),
        reason: None,
    });
    let cancel = Draft::run(SignalAccepted {
        signal_id,
        signal_type: SignalType::Cancel,
        actor: "somebody".to_owned(),
        reason: None,
        details: serde_json::Map::new(),
    });
    for draft in [pause, cancel] {
        let mut run = run.clone();
        run.evolve(&next(last, draft.body.clone()));
        findings.unless(self::wanted(&run) == *wanted, &["CORE-11", "CORE-12"], || {
            format!("{at}: {} would take releases back", draft.body.type_name())
        });
    }
}

fn next(last: &Event, body: Body) -> Event {
    Event { run_seq: last.run_seq + 1, occurred_at: None, subject: None, body, ..last.clone() }
}

/// CORE-17: what is to be done, against where the tables say that everything stands.
fn listed(run: &Run, walk: &Walk, undoing: Option<&AttemptRef>, at: &str, findings: &mut Findings) {
    let actions = run.actions();
    let wanted = wanted(run);
    for attempt in wanted.iter().filter(|attempt| !is_open(walk, attempt)) {
        findings.add(&["CORE-17"], format!("{at}: {attempt:?} is to be run, and has ended or waits"));
    }
    for (step, attempts) in &walk.steps {
        for (attempt, number) in attempts.iter().zip(1..) {
            let running = AttemptRef { step: step.clone(), attempt: number };
            findings.unless(
                !attempt.is_running() || !is_open(walk, &running) || wanted.contains(&running),
                &["CORE-17"],
                || format!("{at}: {running:?} runs and is left out"),
            );
        }
    }
    let ended = walk.status.filter(|status| status.is_terminal());
    let idle = actions.dispatch.is_empty() && actions.cancel.is_empty() && actions.timers.is_empty();
    findings.unless(actions.finish == ended && (ended.is_none() || idle), &["CORE-17"], || {
        format!("{at}: the run is {:?}, and this is to be done: {actions:?}", walk.status)
    });
    let undo = actions.compensate.map(|task| task.attempt.step);
    let expected = undoing.filter(|_| ended.is_none()).map(|undoing| undoing.step.clone());
    findings.unless(undo == expected, &["CORE-17"], || {
        format!("{at}: {undo:?} is to be undone in place of {expected:?}")
    });
}

/// The step that is being undone.
fn undone(event: &Event, before: Option<AttemptRef>) -> Option<AttemptRef> {
    let subject = event.subject.as_ref();
    match &event.body {
        Body::CompensationStarted(_) => {
            subject.map(|subject| AttemptRef { step: subject.step.clone(), attempt: subject.attempt })
        }
        Body::CompensationCompleted(_) => None,
        Body::CompensationFailed(failed) if !failed.will_retry => None,
        _ => before,
    }
}

/// Whether nothing has happened that may hold releases.
fn goes_smoothly(body: &Body) -> bool {
    match body {
        Body::StepFailed(_) | Body::StepCancelled(_) | Body::HumanReviewRequested(_) => false,
        Body::SignalAccepted(accepted) => accepted.signal_type != SignalType::Cancel,
        Body::TimerFired(fired) => matches!(fired.timer_id.parse(), Ok(TimerId::StepDelay(..))),
        _ => true,
    }
}

/// CORE-10, SLOT-8: after each event, whoever is ready and has a slot is released.
fn nobody_left_waiting(run: &Run, walk: &Walk, limits: &EffectiveLimits, at: &str, findings: &mut Findings) {
    let plan = run.plan();
    if run.state().status() != Some(RunStatus::Running) {
        return;
    }
    let dispatched = run.actions().dispatch;
    if dispatched.len() >= limits.max_concurrency as usize {
        return;
    }
    let is_ready = |step: StepIndex| {
        let definition = plan.step(step);
        let succeeded = |step: StepIndex| {
            walk.latest(plan.step(step).id.as_str())
                .is_some_and(|latest| latest.status == StepStatus::Success)
        };
        definition.schedule.is_none()
            && plan.serves(step).is_none()
            && walk.latest(definition.id.as_str()).is_some_and(|latest| latest.status == StepStatus::Pending)
            && plan.dependencies(step).iter().all(|link| succeeded(link.step))
    };
    for step in plan.indices().filter(|step| is_ready(*step)) {
        let Some(attempt) = run.attempt(plan.step(step).id.as_str()) else { continue };
        let load =
            dispatched.iter().filter(|task| task.agent.is_some() && task.agent == attempt.agent).count();
        let released = dispatched.iter().any(|task| task.attempt.step == attempt.step);
        findings.unless(released || load >= limits.per_agent as usize, &["CORE-10", "SLOT-8"], || {
            format!("{at}: {} is ready, a slot is free, and it is not released", attempt.step)
        });
    }
}

/// TIME-6: a timer that nobody waits for any more changes nothing when it fires.
fn out_of_date(
    run: &Run,
    last: &Event,
    asked: &BTreeMap<String, Timestamp>,
    now: &BTreeMap<String, Timestamp>,
    at: &str,
    findings: &mut Findings,
) {
    for (timer_id, due_at) in asked.iter().filter(|(timer_id, _)| !now.contains_key(*timer_id)) {
        let mut after = run.clone();
        let fired = TimerFired { timer_id: timer_id.clone(), due_at: *due_at };
        after.evolve(&next(last, Body::from(fired)));
        let same =
            after.actions() == run.actions() && after.settle() == run.settle() && after.view() == run.view();
        findings.unless(same, &["TIME-6"], || format!("{at}: {timer_id} would change what is to be done"));
    }
}
