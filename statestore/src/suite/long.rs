//! Runs with many events: a store may keep the names of short runs in mind and ask for those of long ones, and nobody
//! must notice (STORE-3 to STORE-9, STORE-14).

use super::Harness;
use super::drafts::{
    alert, alerts, cancelled, completed, failed, retried, review, run_completed, started, timer, waiting,
};
use super::handle::{Handle, Owned, View, open};
use super::race::race;
use super::verdict::{conflict, events, freshness, names, places, refused, sound, stored};
use engine_core::Code;

/// More events than a store keeps the names of.
const MANY: u32 = 2_000;

/// A run with many events, the last of them the end of attempt 1 of step `a`.
async fn long_run(store: &Handle) -> Owned {
    let run = store.run("request").await;
    store.tell(&run, alerts("MANY", 1, MANY)).await;
    store.tell(&run, vec![started("a", 1), completed("a", 1)]).await;
    run
}

/// What is taken is given back, also beside what is not (STORE-3, STORE-4, STORE-9).
pub async fn what_a_long_run_has_taken_is_given_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = long_run(&store).await;
    let last = u64::from(MANY) + 3;
    // Each is asked for twice: the first call may find out what the second one knows.
    for _ in 0..2 {
        let again = store.tell(&run, vec![alert("MANY", 7)]).await;
        assert_eq!((freshness(&again), places(&events(again))), (vec![false], vec![8]));
        let late = store.tell(&run, vec![failed("a", 1)]).await;
        assert_eq!(freshness(&late), [false]);
        assert_eq!(names(&events(late)), ["StepCompleted"], "the end that is stored");
    }
    let mixed = vec![alert("X", 1), alert("MANY", 1), started("b", 1), failed("a", 1), completed("b", 1)];
    let told = store.tell(&run, mixed).await;
    assert_eq!(freshness(&told), [true, false, true, false, true]);
    assert_eq!(places(&events(told)), [last + 1, 2, last + 2, last, last + 3]);
    sound(&store.log(&run).await);
}

/// What comes after the end of an attempt is given the end, whether or not its own name is free (STORE-14).
pub async fn the_end_of_an_attempt_closes_it_in_a_long_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = long_run(&store).await;
    store.tell(&run, vec![completed("b", 1)]).await;
    let before = store.log(&run).await;
    for draft in [started("b", 1), retried("a", 1, 1), waiting("a", 1), review("b", 1, 1)] {
        let told = store.tell(&run, vec![draft]).await;
        assert_eq!(freshness(&told), [false]);
        assert_eq!(names(&events(told)), ["StepCompleted"]);
    }
    assert_eq!(store.log(&run).await, before, "nothing was stored");
    assert_eq!(freshness(&store.tell(&run, vec![started("b", 2)]).await), [true], "the next attempt is open");
}

/// Nothing of a decision is stored when one of its names is taken or the view is old (STORE-8).
pub async fn a_long_run_takes_all_of_a_decision_or_nothing(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = long_run(&store).await;
    let before = store.log(&run).await;
    let view = store.view(&run).await;
    let seen = View { folded_through: view.folded_through - 1, ..view };
    let unknown = conflict(store.propose(&run, vec![timer("t1"), cancelled("a", 1)], seen).await);
    assert_eq!(names(&unknown), ["StepCompleted"]);
    let stale = View { decisions: view.decisions + 1, ..seen };
    conflict(store.propose(&run, vec![timer("t1")], stale).await);
    assert_eq!(store.log(&run).await, before, "nothing was stored");
    assert_eq!(freshness(&stored(store.propose(&run, vec![timer("t1")], view).await)), [true]);
    let stale = conflict(store.propose(&run, vec![timer("t2")], view).await);
    assert_eq!(names(&stale), ["TimerFired"]);
    store.decide(&run, vec![run_completed()]).await;
    refused(store.offer(&run, vec![started("c", 1)]).await, Code::RunTerminal);
    assert_eq!(
        freshness(&store.tell(&run, vec![started("a", 1)]).await),
        [false],
        "a repeat is still answered"
    );
}

/// What another handle took meanwhile is found (STORE-3, STORE-14).
pub async fn two_handles_write_to_a_long_run_in_turn(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = long_run(&store).await;
    for number in 2..6 {
        assert_eq!(freshness(&store.tell(&run, vec![started("a", number)]).await), [true]);
        assert_eq!(freshness(&other.tell(&run, vec![completed("a", number)]).await), [true]);
        let late =
            store.tell(&run, vec![waiting("a", number), failed("a", number), alert("X", number)]).await;
        assert_eq!(freshness(&late), [false, false, true]);
        assert_eq!(freshness(&other.tell(&run, vec![alert("X", number)]).await), [false]);
    }
    sound(&store.log(&run).await);
}

/// Writers that want the same names of a long run at once: each name is stored once, and everybody is told the same.
pub async fn writers_race_for_the_names_of_a_long_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = long_run(&store).await;
    let told = race(8, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        async move {
            let mut told = Vec::new();
            for round in 1..9 {
                told.extend(events(
                    store.tell(&run, vec![alert("RACE", round), completed("z", round)]).await,
                ));
            }
            told
        }
    })
    .await;
    assert!(told.iter().all(|own| *own == told[0]), "everybody is told the same");
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), MANY as usize + 3 + 16);
}
