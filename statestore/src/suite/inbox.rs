//! Signals on their way to whoever decides.

use std::collections::BTreeSet;

use engine_core::signal::{Command, ManualCompletion, ManualOutcome, PauseMode, Signal};
use engine_core::{Code, RunId};
use futures_util::StreamExt;
use serde_json::json;

use super::Harness;
use super::drafts::{accepted, rejected, signal, signal_id, step};
use super::handle::{Handle, Owned, open};
use super::race::race;
use super::verdict::{refused, soon};

async fn submit(store: &Handle, run: &Owned, signal: Signal) {
    store.submit(&run.tenant_id, &run.run_id, signal).await.expect("submitted");
}

async fn undecided(store: &Handle, run: &Owned) -> Vec<String> {
    let signals = store.undecided(&run.run_id).await.expect("signals");
    signals.iter().map(|signal| signal.signal_id.to_string()).collect()
}

/// Signals wait in the order in which they came, not of their names, and each run has its own.
pub async fn signals_wait_in_the_order_they_came(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    for id in ["s3", "s1", "s2"] {
        submit(&store, &run, signal(id)).await;
    }
    submit(&store, &another, signal("s1")).await;
    assert_eq!(undecided(&store.other(harness).await, &run).await, ["s3", "s1", "s2"]);
    assert_eq!(undecided(&store, &another).await, ["s1"]);
}

/// Runs that signals wait for are told to whoever was away, until the signals are taken out or have their decisions.
pub async fn runs_that_signals_wait_for_are_known(harness: &dyn Harness) {
    let store = open(harness).await;
    let (run, another) = (store.run("request").await, store.run("another").await);
    store.run("quiet").await;
    let none: [RunId; 0] = [];
    assert_eq!(store.awaited(100).await.expect("runs"), none);
    for (run, id) in [(&run, "s1"), (&run, "s2"), (&another, "s1")] {
        submit(&store, run, signal(id)).await;
    }
    let other = store.other(harness).await;
    assert_eq!(other.awaited(100).await.expect("runs"), [run.run_id.clone(), another.run_id.clone()]);
    assert_eq!(other.awaited(1).await.expect("runs"), std::slice::from_ref(&run.run_id));
    for id in ["s1", "s2"] {
        store.decided(&run.run_id, &signal_id(id)).await.expect("taken out");
    }
    assert_eq!(store.awaited(100).await.expect("runs"), std::slice::from_ref(&another.run_id));
    // Whoever decided was gone before it took the signal out.
    submit(&store, &another, signal("s2")).await;
    store.decide(&another, vec![accepted("s1")]).await;
    assert_eq!(other.awaited(100).await.expect("runs"), std::slice::from_ref(&another.run_id), "s2 waits");
    store.tell(&another, vec![rejected("s2")]).await;
    assert_eq!(other.awaited(100).await.expect("runs"), none);
}

/// Every kind of signal comes out as it went in.
pub async fn every_kind_of_signal_comes_out_as_it_went_in(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let completion = ManualCompletion {
        schema_version: 1,
        completion_token: "token".into(),
        outcome: ManualOutcome::Succeeded,
        actor_user_id: "ada".into(),
        completed_at_iso: store.now(),
        notes: Some("looked at it".into()),
        evidence_refs: vec!["store://evidence".into()],
    };
    let output = engine_core::event::step::StepOutput {
        value: Some(json!({"rows": [1, null]})),
        ..Default::default()
    };
    let commands = [
        Command::Pause { mode: PauseMode::Immediate },
        Command::Resume,
        Command::Cancel,
        Command::RetryStep { step_id: step("a"), cascade: false },
        Command::SkipStep { step_id: step("b") },
        Command::CompleteStep {
            step_id: step("c"),
            completion: Box::new(completion),
            output: Some(Box::new(output)),
        },
        Command::Approve,
    ];
    let signals: Vec<Signal> = commands
        .into_iter()
        .enumerate()
        .map(|(number, command)| Signal {
            signal_id: signal_id(&format!("s{number}")),
            actor: "ada".into(),
            reason: (number % 2 == 0).then(|| "because".into()),
            command,
        })
        .collect();
    for signal in &signals {
        submit(&store, &run, signal.clone()).await;
    }
    assert_eq!(store.undecided(&run.run_id).await.expect("signals"), signals);
}

/// A signal that comes again is the same signal: the first content stands.
pub async fn a_signal_that_comes_again_changes_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    submit(&store, &run, signal("s1")).await;
    submit(&store, &run, signal("s2")).await;
    submit(&store, &run, Signal { actor: "somebody else".into(), ..signal("s1") }).await;
    submit(&store.other(harness).await, &run, signal("s1")).await;
    assert_eq!(store.undecided(&run.run_id).await.expect("signals"), [signal("s1"), signal("s2")]);
}

/// A signal whose decision is in the log waits no longer, even if nobody took it out of the inbox.
pub async fn a_decision_in_the_log_empties_the_inbox(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for id in ["s1", "s2", "s3"] {
        submit(&store, &run, signal(id)).await;
    }
    store.decide(&run, vec![accepted("s2")]).await;
    assert_eq!(undecided(&store, &run).await, ["s1", "s3"]);
    store.tell(&run, vec![rejected("s1")]).await;
    assert_eq!(undecided(&store, &run).await, ["s3"]);
}

/// A decided signal is taken out; the others wait on.
pub async fn a_decided_signal_is_taken_out(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    submit(&store, &run, signal("s1")).await;
    submit(&store, &run, signal("s2")).await;
    store.decide(&run, vec![accepted("s1")]).await;
    for _ in 0..2 {
        store.decided(&run.run_id, &signal_id("s1")).await.expect("taken out");
    }
    store.decided(&run.run_id, &signal_id("never-sent")).await.expect("harmless");
    store.decided(&Owned::unknown().run_id, &signal_id("s2")).await.expect("harmless");
    assert_eq!(undecided(&store, &run).await, ["s2"]);
}

/// A signal that has its decision does not wait again, whether or not it was taken out.
pub async fn a_decided_signal_does_not_come_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.decide(&run, vec![accepted("s1")]).await;
    store.tell(&run, vec![rejected("s2")]).await;
    store.decided(&run.run_id, &signal_id("s2")).await.expect("taken out");
    submit(&store, &run, signal("s1")).await;
    submit(&store, &run, signal("s2")).await;
    assert_eq!(undecided(&store, &run).await, [] as [&str; 0]);
}

/// Sixteen signals at once all wait; one that sixteen send waits once.
pub async fn signals_that_come_at_once_all_wait(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    race(16, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        async move {
            submit(&store, &run, signal("shared")).await;
            submit(&store, &run, signal(&format!("s{number}"))).await;
        }
    })
    .await;
    let waiting = undecided(&store, &run).await;
    let unique: BTreeSet<&String> = waiting.iter().collect();
    assert_eq!((waiting.len(), unique.len()), (17, 17), "{waiting:?}");
}

/// A signal wakes whoever listens, from the moment when it began to listen, also through another handle.
pub async fn a_signal_wakes_whoever_listens(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    let (mut here, mut there) = (store.arrivals(), other.arrivals());
    submit(&store, &run, signal("s1")).await;
    for arrivals in [&mut here, &mut there] {
        assert_eq!(soon("the arrival of a signal", arrivals.next()).await, Some(run.run_id.clone()));
    }
    submit(&other, &run, signal("s2")).await;
    for arrivals in [&mut here, &mut there] {
        assert_eq!(soon("the arrival of a second one", arrivals.next()).await, Some(run.run_id.clone()));
    }
}

/// Signals for many runs, sent at once through two handles, name every run to whoever listens.
pub async fn every_run_with_a_signal_is_told(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let mut runs = Vec::new();
    for number in 0..12 {
        runs.push(store.run(&format!("request-{number}")).await);
    }
    let mut arrivals = store.arrivals();
    race(runs.len(), |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), runs[number].clone());
        async move { submit(&store, &run, signal("s1")).await }
    })
    .await;
    let expected: BTreeSet<RunId> = runs.into_iter().map(|run| run.run_id).collect();
    let mut told = BTreeSet::new();
    while told != expected {
        let run_id = soon("the arrivals of all signals", arrivals.next()).await.expect("no end");
        assert!(expected.contains(&run_id), "{run_id} has no signal");
        told.insert(run_id);
    }
}

/// A signal to a run that another tenant has, or nobody, goes nowhere (START-6).
pub async fn a_signal_of_another_tenant_goes_nowhere(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for stranger in [run.by("globex"), Owned::unknown()] {
        let result = store.submit(&stranger.tenant_id, &stranger.run_id, signal("s1")).await;
        refused(result, Code::NotFound);
    }
    assert_eq!(undecided(&store, &run).await, [] as [&str; 0]);
    assert_eq!(store.undecided(&Owned::unknown().run_id).await.expect("signals"), []);
}
