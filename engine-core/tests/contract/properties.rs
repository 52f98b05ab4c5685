//! Properties of the decider over random plans, behaviours and interleavings.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::explore::Move;
use crate::support::plans::{Scenario, Wanted, scenarios};
use crate::support::{World, compile, id};
use engine_core::SignalId;
use engine_core::decider::{Run, State, Stimulus};
use engine_core::event::body::Unknown;
use engine_core::event::{Body, Draft, Event};
use engine_core::machine::{RunStatus, StepStatus};
use engine_core::signal::{Command, PauseMode, Signal};
use proptest::prelude::*;

const CASES: u32 = 1000;

fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

fn choices() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..64, 1..80)
}

fn chooser(choices: &[usize]) -> impl FnMut(usize) -> usize + '_ {
    let mut next = 0;
    move |_| {
        next += 1;
        choices[(next - 1) % choices.len()]
    }
}

fn everything() -> Wanted {
    Wanted { failures: true, continue_on_partial_failure: false, delays: true }
}

fn tolerant() -> Wanted {
    Wanted { failures: true, continue_on_partial_failure: true, delays: true }
}

fn played(scenario: &Scenario, choices: &[usize]) -> World {
    let mut world = World::started(scenario.plan.clone());
    world.play(scenario, chooser(choices));
    world
}

/// A walk in which people interfere too, stopped after a while.
fn wandered(scenario: &Scenario, choices: &[usize]) -> World {
    let mut world = World::started(scenario.plan.clone());
    for choice in choices {
        if world.ended() {
            break;
        }
        let mut moves = world.scripted_moves(scenario);
        if choice % 3 == 0 {
            moves.extend(world.people_moves());
            moves.push(Move::Signal(Command::Cancel));
        }
        if moves.is_empty() {
            moves = world.people_moves();
        }
        let next = moves[choice * 31 % moves.len()].clone();
        world.make(&next);
    }
    world
}

fn statuses(world: &World) -> BTreeMap<String, StepStatus> {
    world.run.attempts().map(|view| (view.step.to_string(), view.status)).collect()
}

fn prefix(world: &World, length: usize) -> Run {
    Run::fold(world.run.plan().clone(), world.log[..length].iter().map(AsRef::as_ref)).expect("a log")
}

/// Released attempts of every step: the latest one, if it is released or has gone further.
fn releases(run: &Run) -> BTreeSet<(String, u32)> {
    let actions = run.actions();
    let dispatched = actions.dispatch.into_iter().map(|dispatched| dispatched.attempt);
    dispatched.chain(actions.cancel).map(|attempt| (attempt.step.to_string(), attempt.attempt)).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_interleaving_ends_in_the_same_statuses_when_every_step_succeeds(
        scenario in scenarios(8, Wanted::default()), left in choices(), right in choices(),
    ) {
        let (left, right) = (played(&scenario, &left), played(&scenario, &right));
        prop_assert_eq!(left.status(), RunStatus::Completed);
        prop_assert_eq!(right.status(), RunStatus::Completed);
        prop_assert_eq!(statuses(&left), statuses(&right));
    }

    #[test]
    fn any_interleaving_ends_in_the_same_statuses_with_continue_on_partial_failure(
        scenario in scenarios(8, tolerant()), left in choices(), right in choices(),
    ) {
        let (left, right) = (played(&scenario, &left), played(&scenario, &right));
        prop_assert_eq!(left.status(), RunStatus::Completed);
        prop_assert_eq!(right.status(), RunStatus::Completed);
        prop_assert_eq!(statuses(&left), statuses(&right), "{}\n{}", left.story(), right.story());
    }

    #[test]
    fn releases_of_a_longer_prefix_include_those_of_a_shorter_one(
        scenario in scenarios(7, everything()), choices in choices(),
    ) {
        let world = wandered(&scenario, &choices);
        let mut released: BTreeSet<(String, u32)> = BTreeSet::new();
        let mut run = Run::new(world.run.plan().clone());
        for event in &world.log {
            run.evolve(event);
            let now = releases(&run);
            // What was released before is released still, has ended, waits for a person, or has a newer attempt.
            for (step, attempt) in &released {
                let view = run.attempt(step).expect("a step");
                let gone_further = view.attempt > *attempt
                    || view.status.is_terminal()
                    || view.substatus.is_some_and(|sub| sub.as_str() == "WAITING_FOR_MANUAL_COMPLETION");
                prop_assert!(now.contains(&(step.clone(), *attempt)) || gone_further, "{step} {attempt}");
            }
            released.extend(now);
        }
    }

    #[test]
    fn releases_are_remembered_and_never_revoked(
        scenario in scenarios(7, everything()), choices in choices(), cut in 0usize..200,
    ) {
        let world = wandered(&scenario, &choices);
        let early = prefix(&world, cut % (world.log.len() + 1));
        let carried: State = serde_json::from_str(&serde_json::to_string(early.state()).unwrap()).unwrap();
        let restored = Run::restore(world.run.plan().clone(), carried).unwrap();
        prop_assert_eq!(releases(&restored), releases(&early));
        prop_assert_eq!(restored.actions(), early.actions());
    }

    #[test]
    fn limits_are_never_exceeded(scenario in scenarios(8, everything()), choices in choices()) {
        let world = wandered(&scenario, &choices);
        let limits = world.run.plan().document().limits.clone();
        let mut run = Run::new(world.run.plan().clone());
        for event in &world.log {
            run.evolve(event);
            let actions = run.actions();
            let in_flight = actions.dispatch.len() + actions.cancel.len();
            prop_assert!(in_flight <= limits.max_concurrency as usize, "{}", world.story());
            let mut per_agent: BTreeMap<String, u32> = BTreeMap::new();
            for dispatched in &actions.dispatch {
                if let Some(agent) = &dispatched.agent {
                    *per_agent.entry(agent.to_string()).or_default() += 1;
                }
            }
            prop_assert!(per_agent.values().all(|count| *count <= limits.per_agent), "{}", world.story());
        }
    }

    #[test]
    fn priorities_are_never_violated_and_no_ready_step_starves(
        scenario in scenarios(8, Wanted::default()), choices in choices(),
    ) {
        let world = played(&scenario, &choices);
        let plan = world.run.plan().clone();
        let mut run = Run::new(plan.clone());
        let mut before = BTreeSet::new();
        for event in &world.log {
            run.evolve(event);
            let now: BTreeSet<String> = releases(&run).into_iter().map(|(step, _)| step).collect();
            let fresh: Vec<&String> = now.difference(&before).collect();
            let key = |step: &str| {
                let index = plan.find(step).unwrap();
                (plan.step(index).priority, index.position())
            };
            let agents = |step: &str| run.attempt(step).unwrap().agent;
            // An independent definition of "ready", from statuses alone.
            let passed_over: Vec<String> = run.attempts()
                .filter(|view| view.status == StepStatus::Pending && !now.contains(view.step.as_str()))
                .filter(|view| !view.step.as_str().starts_with('f'))
                .filter(|view| plan.dependencies(plan.find(view.step.as_str()).unwrap()).iter().all(|link| {
                    let status = run.attempt(plan.step(link.step).id.as_str()).unwrap().status;
                    matches!(status, StepStatus::Success | StepStatus::Skipped)
                }))
                .map(|view| view.step.to_string())
                .collect();
            let load = |agent: &Option<engine_core::AgentName>| {
                now.iter().filter(|step| agents(step) == *agent).count()
            };
            let limits = &plan.document().limits;
            let running = run.state().status() == Some(RunStatus::Running);
            for waiting in &passed_over {
                let agent = agents(waiting);
                let agent_full = agent.is_some() && load(&agent) >= limits.per_agent as usize;
                for released in &fresh {
                    // Whoever was released meanwhile goes first, or the agent had no free slot.
                    prop_assert!(key(released) < key(waiting) || agent_full, "{released} before {waiting}");
                }
                if running {
                    let full = now.len() >= limits.max_concurrency as usize;
                    prop_assert!(full || agent_full, "{waiting} starves\n{}", world.story());
                }
            }
            before = now;
        }
    }

    #[test]
    fn finished_attempts_are_never_released_again(
        scenario in scenarios(7, everything()), choices in choices(),
    ) {
        let world = wandered(&scenario, &choices);
        let mut finished: BTreeSet<(String, u32)> = BTreeSet::new();
        let mut run = Run::new(world.run.plan().clone());
        for event in &world.log {
            run.evolve(event);
            for view in run.attempts().filter(|view| view.status.is_terminal()) {
                finished.insert((view.step.to_string(), view.attempt));
            }
            let again: Vec<_> = releases(&run).intersection(&finished).cloned().collect();
            prop_assert!(again.is_empty(), "{again:?}\n{}", world.story());
        }
    }

    #[test]
    fn folding_twice_changes_nothing(scenario in scenarios(7, everything()), choices in choices()) {
        let world = wandered(&scenario, &choices);
        let mut twice = Run::new(world.run.plan().clone());
        for event in &world.log {
            twice.evolve(event);
            twice.evolve(event);
        }
        prop_assert_eq!(&twice, &world.run);
        for event in &world.log {
            twice.evolve(event);
        }
        prop_assert_eq!(&twice, &world.run);
    }

    #[test]
    fn duplicates_that_come_late_change_nothing(
        scenario in scenarios(7, everything()), choices in choices(), cut in 0usize..400,
    ) {
        let mut world = World::started(scenario.plan.clone());
        world.play(&scenario, chooser(&choices));
        let length = cut % (world.log.len() + 1);
        let once = prefix(&world, length);
        let mut again = once.clone();
        for event in &world.log[..length] {
            again.evolve(event);
        }
        prop_assert_eq!(&again, &once, "{}", world.story());
        for event in &world.log[..length] {
            let mut one_more = once.clone();
            one_more.evolve(event);
            prop_assert_eq!(&one_more, &once, "{} again\n{}", crate::support::name(event), world.story());
        }
    }

    #[test]
    fn unknown_events_change_nothing_but_the_watermark(
        scenario in scenarios(7, everything()), choices in choices(), place in 0usize..200,
    ) {
        let world = wandered(&scenario, &choices);
        let mut run = world.run.clone();
        let unknown = Body::Unknown(Box::new(Unknown {
            event_type: "StepTeleported".into(),
            payload: Default::default(),
        }));
        let mut event: Event = world.seal(Draft { subject: None, occurred_at: None, body: unknown });
        event.run_seq += place as u64;
        run.evolve(&event);
        prop_assert_eq!(run.state().watermark(), event.run_seq);
        let without_watermark = |run: &Run| {
            let mut state = serde_json::to_value(run.state()).unwrap();
            for place in ["watermark", "floor", "above"] {
                state.as_object_mut().unwrap().remove(place);
            }
            state
        };
        prop_assert_eq!(without_watermark(&run), without_watermark(&world.run));
        prop_assert_eq!(run.actions(), world.run.actions());
    }

    #[test]
    fn state_rebuilt_from_the_log_equals_carried_state(
        scenario in scenarios(7, everything()), choices in choices(),
    ) {
        let world = wandered(&scenario, &choices);
        let plan = world.run.plan().clone();
        let rebuilt = Run::fold(plan.clone(), world.log.iter().map(AsRef::as_ref)).unwrap();
        let carried: State = serde_json::from_str(&serde_json::to_string(world.run.state()).unwrap()).unwrap();
        let restored = Run::restore(plan, carried).unwrap();
        prop_assert_eq!(&rebuilt, &world.run);
        prop_assert_eq!(&restored, &world.run);
    }

    #[test]
    fn compensation_is_the_reverse_of_completion_order(
        scenario in scenarios(8, everything()), choices in choices(),
    ) {
        let world = played(&scenario, &choices);
        let mut completed: Vec<String> = Vec::new();
        let mut compensated: Vec<String> = Vec::new();
        for event in &world.log {
            let step = event.subject.as_ref().map(|subject| subject.step.to_string());
            match (&event.body, step) {
                (Body::StepCompleted(_), Some(step)) => {
                    completed.retain(|earlier| *earlier != step);
                    completed.push(step);
                }
                (Body::CompensationStarted(_), Some(step)) => compensated.push(step),
                _ => {}
            }
        }
        let plan = world.run.plan();
        completed.retain(|step| plan.step(plan.find(step).unwrap()).compensation.is_some());
        completed.reverse();
        let expected = if world.status() == RunStatus::Failed { completed } else { Vec::new() };
        prop_assert_eq!(compensated, expected, "{}", world.story());
    }

    #[test]
    fn pause_releases_nothing(scenario in scenarios(8, everything()), choices in choices(), when in 0usize..12) {
        let mut world = World::started(scenario.plan.clone());
        let mut choose = chooser(&choices);
        for _ in 0..when {
            let moves = world.scripted_moves(&scenario);
            if world.ended() || moves.is_empty() {
                break;
            }
            let next = moves[choose(0) % moves.len()].clone();
            world.make(&next);
        }
        if world.signal(Command::Pause { mode: PauseMode::Drain }).is_err() {
            return Ok(());
        }
        let released = releases(&world.run);
        for _ in 0..40 {
            let moves = world.scripted_moves(&scenario);
            if world.ended() || moves.is_empty() {
                break;
            }
            let next = moves[choose(0) % moves.len()].clone();
            world.make(&next);
            let now = releases(&world.run);
            prop_assert!(now.is_subset(&released), "{}", world.story());
        }
    }

    #[test]
    fn a_signal_is_decided_once(scenario in scenarios(5, everything()), choices in choices()) {
        let mut world = wandered(&scenario, &choices);
        let step = id("s0");
        for command in [Command::Resume, Command::SkipStep { step_id: step }, Command::Cancel] {
            let signal = Signal {
                signal_id: SignalId::new("the-same").unwrap(), actor: "ops".into(), reason: None, command,
            };
            let ended = world.ended();
            world.tell(Stimulus::Signal(Box::new(signal))).unwrap();
            let decisions = world.log.iter().filter(|event| match &event.body {
                Body::SignalAccepted(accepted) => accepted.signal_id.as_str() == "the-same",
                Body::SignalRejected(rejected) => rejected.signal_id.as_str() == "the-same",
                _ => false,
            });
            prop_assert_eq!(decisions.count(), 1, "{}", world.story());
            // After its end a run folds nothing more; there the store's slot keeps the decision single.
            if ended {
                break;
            }
        }
    }

    #[test]
    fn siblings_folded_in_another_order_end_in_the_same_statuses(
        scenario in scenarios(7, tolerant()), choices in choices(), swaps in prop::collection::vec(0usize..200, 1..20),
    ) {
        let world = played(&scenario, &choices);
        let mut log = world.log.clone();
        for swap in swaps {
            let place = swap % (log.len() - 1);
            let worker = |event: &Event| event.body.kind() == engine_core::event::Kind::Worker;
            let step = |event: &Event| event.subject.as_ref().map(|subject| subject.step.clone());
            if worker(&log[place]) && worker(&log[place + 1]) && step(&log[place]) != step(&log[place + 1]) {
                log.swap(place, place + 1);
            }
        }
        let mut run = Run::new(compile(scenario.plan.clone()));
        for event in &log {
            run.evolve(event);
        }
        let other: BTreeMap<String, StepStatus> =
            run.attempts().map(|view| (view.step.to_string(), view.status)).collect();
        prop_assert_eq!(other, statuses(&world));
        prop_assert_eq!(run.state().status(), Some(RunStatus::Completed));
    }
}
