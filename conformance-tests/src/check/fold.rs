//! The fold of a log: it has one meaning, whichever way it is folded. Again, late, with what nobody knows in between, in
//! another order, stored and taken up, at another time, with another platform's numbers.

use std::sync::Arc;

use engine_core::decider::{Report, Run, Stimulus};
use engine_core::event::audit::{AlertRaised, Severity};
use engine_core::event::signal::SignalRejected;
use engine_core::event::step::{SkipReason, StepError, StepSkipped};
use engine_core::event::{Body, Draft, Event, Kind, Subject, Unknown};
use engine_core::failure::FailureClass;
use engine_core::machine::StepStatus;
use engine_core::plan::CompiledPlan;
use engine_core::signal::SignalType;
use engine_core::{SignalId, StepId};
use serde_json::Value;

use super::Findings;
use super::walk::Walk;
use crate::history::{RunHistory, Visit, line};

/// Prefixes of a log that are looked at, at most: a long log is looked at here and there.
const LOOKS: usize = 60;
/// Further than any timer of a case reaches.
const LATER_MS: u64 = 400 * 24 * 60 * 60 * 1000;
/// An output that stands in the state cannot be shorter to be told from anything else.
const TELLING: usize = 24;

pub(super) fn check(run: &RunHistory, _: &[Visit], findings: &mut Findings) {
    let stride = (run.events.len() / LOOKS).max(1);
    let mut folded = Run::new(Arc::clone(&run.plan));
    let mut walk = Walk::new(&run.plan);
    for (event, place) in run.events.iter().zip(1..) {
        folded.evolve(event);
        let _ = walk.step(event);
        if place % stride != 0 && place != run.events.len() {
            continue;
        }
        let look = Look { events: &run.events, place, run: &folded, walk: &walk };
        again(&look, findings);
        nothing_new(&look, findings);
        illegal(&look, findings);
        carried(&look, findings);
        at_another_time(&look, findings);
        renumbered(&look, findings);
        without_outputs(&look, findings);
    }
    swapped(run, &folded, findings);
}

/// A log folded up to a place.
struct Look<'a> {
    events: &'a [Event],
    place: usize,
    run: &'a Run,
    walk: &'a Walk,
}

impl Look<'_> {
    fn known(&self) -> &[Event] {
        &self.events[..self.place]
    }

    fn last(&self) -> &Event {
        &self.events[self.place - 1]
    }

    fn at(&self) -> String {
        format!("after {} at {}", line(self.last()), self.last().run_seq)
    }

    fn plan(&self) -> &Arc<CompiledPlan> {
        self.run.plan()
    }

    /// An event that comes next.
    fn next(&self, draft: Draft) -> Event {
        let last = self.last();
        Event {
            run_seq: last.run_seq + 1,
            occurred_at: draft.occurred_at,
            subject: draft.subject,
            body: draft.body,
            ..last.clone()
        }
    }

    fn and(&self, event: &Event) -> Run {
        let mut run = self.run.clone();
        run.evolve(event);
        run
    }
}

/// What a run remembers, but for how far it has read.
fn remembered(run: &Run) -> Value {
    let mut state = serde_json::to_value(run.state()).unwrap_or_default();
    if let Some(fields) = state.as_object_mut() {
        for place in ["watermark", "floor", "above"] {
            fields.remove(place);
        }
    }
    state
}

/// The same without the count of decisions, which goes by places.
fn meaning(run: &Run) -> Value {
    let mut state = remembered(run);
    if let Some(fields) = state.as_object_mut() {
        fields.remove("decisions");
    }
    state
}

/// CORE-7, CORE-9: what was folded says nothing new, neither at its place nor at another.
fn again(look: &Look<'_>, findings: &mut Findings) {
    let mut twice = look.run.clone();
    look.known().iter().for_each(|event| twice.evolve(event));
    findings.unless(twice.state() == look.run.state(), &["CORE-7"], || {
        format!("{}: folding everything a second time gives another state", look.at())
    });
    let mut late = look.run.clone();
    for (event, place) in look.known().iter().zip(look.last().run_seq + 1..) {
        late.evolve(&Event { run_seq: place, ..event.clone() });
    }
    findings.unless(meaning(&late) == meaning(look.run), &["CORE-7", "CORE-9"], || {
        format!("{}: the same events at later places give another state", look.at())
    });
}

/// CORE-8, CORE-30, TIME-3: what is unknown or audit moves the place alone, however late it is by the clock.
fn nothing_new(look: &Look<'_>, findings: &mut Findings) {
    let unknown = Unknown { event_type: "SomethingNew".to_owned(), payload: serde_json::Map::new() };
    let subject = look.plan().document().steps.first().map(|step| Subject::new(step.id.clone(), 1));
    let unknown = Draft { subject, occurred_at: None, body: Body::Unknown(Box::new(unknown)) };
    let after = look.and(&look.next(unknown));
    findings.unless(remembered(&after) == remembered(look.run), &["CORE-8"], || {
        format!("{}: an event of an unknown type changes the state", look.at())
    });
    let (code, message) = ("LOOK".to_owned(), "somebody should look".to_owned());
    let alert = Draft::run(AlertRaised { code, number: 999, severity: Severity::P3, message });
    let late = look.last().emitted_at.plus_millis(LATER_MS);
    let after = look.and(&Event { emitted_at: late, ..look.next(alert) });
    findings.unless(remembered(&after) == remembered(look.run), &["CORE-30", "TIME-3"], || {
        format!("{}: an alert, long after, changes the state", look.at())
    });
    let Ok(signal_id) = SignalId::new("nobody-sent-this") else { return };
    let refused = Draft::run(SignalRejected {
        signal_id: signal_id.clone(),
        signal_type: SignalType::Pause,
        actor: "somebody".to_owned(),
        code: "AUTHZ_DENIED".to_owned(),
        message: "no".to_owned(),
    });
    let after = look.and(&look.next(refused));
    let without_signals = |run: &Run| {
        let mut state = remembered(run);
        if let Some(fields) = state.as_object_mut() {
            fields.remove("signals");
        }
        state
    };
    findings.unless(without_signals(&after) == without_signals(look.run), &["CORE-30"], || {
        format!("{}: a refused signal changes the state", look.at())
    });
}

/// CORE-6, STEP-2: what the tables do not allow changes nothing, but for the end of a latest attempt, which stands.
fn illegal(look: &Look<'_>, findings: &mut Findings) {
    let ended = look.walk.status.is_some_and(engine_core::machine::RunStatus::is_terminal);
    for event in &look.events[look.place..] {
        let latest = event.subject.as_ref().and_then(|subject| {
            let attempts = look.walk.steps.get(&subject.step)?;
            (attempts.len() == subject.attempt as usize).then(|| attempts.last()).flatten()
        });
        let open = latest.is_some_and(|latest| !latest.status.is_terminal());
        match (end_of(&event.body), open && !ended) {
            (Some(status), true) => {
                let Some(subject) = &event.subject else { continue };
                let after = look.and(event).attempt(subject.step.as_str()).map(|attempt| attempt.status);
                findings.unless(after == Some(status), &["CORE-6"], || {
                    format!("{}: {} leaves the attempt {after:?}", look.at(), line(event))
                });
            }
            _ if look.walk.clone().step(event).is_err() => {
                let after = look.and(event);
                findings.unless(meaning(&after) == meaning(look.run), &["CORE-6"], || {
                    format!("{}: {}, which is illegal there, changes the state", look.at(), line(event))
                });
            }
            _ => {}
        }
    }
    for attempt in look.run.attempts().filter(|attempt| attempt.status.is_terminal() && !attempt.reused) {
        let subject = Subject::new(attempt.step.clone(), attempt.attempt);
        let skip = StepSkipped { reason: SkipReason::Operator, signal_id: None, caused_by_step: None };
        let after = look.and(&look.next(Draft::step(subject, skip)));
        findings.unless(meaning(&after) == meaning(look.run), &["CORE-6", "STEP-2"], || {
            format!(
                "{}: a skip of the ended attempt {}#{} changes it",
                look.at(),
                attempt.step,
                attempt.attempt
            )
        });
    }
}

fn end_of(body: &Body) -> Option<StepStatus> {
    match body {
        Body::StepCompleted(_) => Some(StepStatus::Success),
        Body::StepFailed(_) => Some(StepStatus::Failed),
        Body::StepCancelled(_) => Some(StepStatus::Cancelled),
        Body::StepSkipped(_) => Some(StepStatus::Skipped),
        _ => None,
    }
}

/// CORE-4, CORE-19: the state, written down and taken up elsewhere, is the run.
fn carried(look: &Look<'_>, findings: &mut Findings) {
    let taken_up = serde_json::to_string(look.run.state())
        .map_err(|cause| cause.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|cause| cause.to_string()))
        .and_then(|state| Run::restore(Arc::clone(look.plan()), state).map_err(|error| error.to_string()));
    match taken_up {
        Err(error) => {
            findings.add(&["CORE-19"], format!("{}: the state cannot be taken up: {error}", look.at()));
        }
        Ok(taken_up) => findings.unless(taken_up == *look.run, &["CORE-4", "CORE-19"], || {
            format!("{}: the state that was carried is another run", look.at())
        }),
    }
}

/// CORE-3: a log that was written at another time gives the same, at that time. No clock is looked at, nothing is drawn.
fn at_another_time(look: &Look<'_>, findings: &mut Findings) {
    // A time that the plan names stays where it is.
    let named =
        |step: &engine_core::plan::Step| step.schedule.as_ref().is_some_and(|schedule| schedule.at.is_some());
    if look.plan().document().steps.iter().any(named) {
        return;
    }
    let mut moved = Run::new(Arc::clone(look.plan()));
    for event in look.known() {
        moved.evolve(&Event { emitted_at: event.emitted_at.plus_millis(LATER_MS), ..event.clone() });
    }
    let mut expected = look.run.actions();
    expected.timers.iter_mut().for_each(|timer| timer.due_at = timer.due_at.plus_millis(LATER_MS));
    let later = |at: &mut Option<engine_core::Timestamp>| {
        *at = at.map(|at| at.plus_millis(LATER_MS));
    };
    expected.dispatch.iter_mut().for_each(|task| later(&mut task.not_before));
    expected.compensate.iter_mut().for_each(|task| later(&mut task.not_before));
    let actions = moved.actions();
    findings.unless(
        actions == expected && moved.settle() == look.run.settle(),
        &["CORE-3", "TIME-2"],
        || format!("{}: at another time, {actions:?} in place of {expected:?}", look.at()),
    );
}

/// ATTEMPT-7: what is decided does not depend on the platform's numbers.
fn renumbered(look: &Look<'_>, findings: &mut Findings) {
    let mut other = Run::new(Arc::clone(look.plan()));
    for event in look.known() {
        let mut event = event.clone();
        // The tries at undoing a step are counted by the decider itself.
        if let (Body::StepRetried(_), Some(subject)) = (&event.body, &mut event.subject) {
            subject.engine_attempt = subject.engine_attempt.map(|number| 7 * number + 5);
        }
        other.evolve(&event);
    }
    let same = other.actions() == look.run.actions()
        && other.settle() == look.run.settle()
        && look.walk.running().all(|(step, _)| verdict(&other, step) == verdict(look.run, step));
    findings.unless(same, &["ATTEMPT-7"], || {
        format!("{}: with other numbers of tries another thing is decided", look.at())
    });
}

/// What would follow if the try failed that runs now.
fn verdict(run: &Run, step: &StepId) -> Option<Vec<Body>> {
    let attempt = run.attempt(step.as_str())?.attempt;
    let error = StepError::new(FailureClass::Transient, "Scripted", "what if");
    let report = Report::Failed { error, started_at: None, ended_at: None };
    let drafts = run.decide(Stimulus::step(step.clone(), attempt, report)).ok()?;
    Some(drafts.into_iter().map(|draft| draft.body).collect())
}

/// CORE-18: what steps left does not stand in the state.
fn without_outputs(look: &Look<'_>, findings: &mut Findings) {
    let Body::StepCompleted(completed) = &look.last().body else { return };
    let text = completed.output.value.as_ref().map(Value::to_string).unwrap_or_default();
    let state = remembered(look.run).to_string();
    let mut leaves = text.split('"').filter(|leaf| leaf.len() >= TELLING);
    findings.unless(!leaves.any(|leaf| state.contains(leaf)), &["CORE-18"], || {
        format!("{}: the state holds the step's output", look.at())
    });
}

/// CORE-40: siblings may be folded in another order than that of the log.
fn swapped(run: &RunHistory, folded: &Run, findings: &mut Findings) {
    let statuses = |run: &Run| {
        let steps: Vec<_> = run.attempts().map(|step| (step.step, step.attempt, step.status)).collect();
        (run.state().status(), steps)
    };
    for (place, pair) in run.events.windows(2).enumerate() {
        if !siblings(&run.plan, &pair[0], &pair[1]) {
            continue;
        }
        let mut events: Vec<&Event> = run.events.iter().collect();
        events.swap(place, place + 1);
        let mut other = Run::new(Arc::clone(&run.plan));
        events.into_iter().for_each(|event| other.evolve(event));
        findings.unless(statuses(&other) == statuses(folded), &["CORE-40", "CORE-9"], || {
            format!("{} and {} in the other order end otherwise", line(&pair[0]), line(&pair[1]))
        });
    }
}

/// Whether two events are told by workers of steps that do not depend on each other.
fn siblings(plan: &CompiledPlan, one: &Event, other: &Event) -> bool {
    let step = |event: &Event| {
        let subject = event.subject.as_ref().filter(|_| event.body.kind() == Kind::Worker)?;
        plan.find(subject.step.as_str())
    };
    let (Some(one), Some(other)) = (step(one), step(other)) else { return false };
    one != other
        && !plan.transitive_dependents(one).contains(&other)
        && !plan.transitive_dependents(other).contains(&one)
}
