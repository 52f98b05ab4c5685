//! Many writers at once, also through two handles: one order, no gap, one winner.

use std::collections::BTreeSet;

use engine_core::event::Event;
use engine_core::port::store::{Appended, StoredEvent};
use futures_util::FutureExt;

use super::drafts::{alert, approved, cancelled, completed, creation, failed, timer};
use super::handle::{Handle, Owned, View, open};
use super::race::race;
use super::verdict::{events, places, sound, stored};
use super::{Harness, drafts};

const WRITERS: usize = 16;
const ROUNDS: u32 = 12;

/// Sixteen writers on one run: every acknowledged event is in the log once, at the place that was told.
pub async fn sixteen_writers_on_one_run(harness: &dyn Harness) {
    let store = open(harness).await;
    write_at_once(&[store]).await;
}

/// The same through two handles.
pub async fn sixteen_writers_on_one_run_through_two_handles(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    write_at_once(&[store, other]).await;
}

async fn write_at_once(handles: &[Handle]) {
    let run = handles[0].run("request").await;
    let told = race(WRITERS, |number| {
        let (store, run) = (handles[number % handles.len()].clone(), run.clone());
        async move {
            let mut told = Vec::new();
            for round in 0..ROUNDS {
                let code = format!("W{number}");
                told.extend(events(store.tell(&run, drafts::alerts(&code, round * 2, 2)).await));
            }
            told
        }
    })
    .await;
    let log = handles[0].log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 1 + WRITERS * ROUNDS as usize * 2);
    for own in told {
        assert!(own.is_sorted_by_key(|event| event.run_seq), "a writer's own events keep their order");
        for event in own {
            assert_eq!(log[usize::try_from(event.run_seq).expect("small") - 1], event);
        }
    }
}

/// Sixteen writers on eight runs, each writing to all of them: every log is sound.
pub async fn sixteen_writers_on_many_runs(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let mut runs = Vec::new();
    for number in 0..8 {
        runs.push(store.run(&format!("request-{number}")).await);
    }
    race(WRITERS, |number| {
        let (store, runs) = ([&store, &other][number % 2].clone(), runs.clone());
        async move {
            for round in 0..3 {
                for offset in 0..runs.len() {
                    let run = &runs[(number + offset) % runs.len()];
                    store.tell(run, vec![alert(&format!("W{number}"), round)]).await;
                }
            }
        }
    })
    .await;
    for run in &runs {
        let log = store.log(run).await;
        sound(&log);
        assert_eq!(log.len(), 1 + WRITERS * 3);
    }
}

/// Two writers race for the end of an attempt with different ends: one wins, and both are given its event.
pub async fn two_writers_race_for_one_slot(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    for number in 1..=10 {
        race_for_the_end(&[&store, &other], &run, number, 2).await;
    }
    assert_eq!(store.log(&run).await.len(), 11);
}

/// Sixteen writers race for it.
pub async fn sixteen_writers_race_for_one_slot(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    for number in 1..=3 {
        race_for_the_end(&[&store, &other], &run, number, WRITERS).await;
    }
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 4);
}

async fn race_for_the_end(handles: &[&Handle], run: &Owned, attempt: u32, writers: usize) {
    let ends: Vec<StoredEvent> = race(writers, |number| {
        let (store, run) = (handles[number % handles.len()].clone(), run.clone());
        async move {
            let draft = if number % 2 == 0 { completed("a", attempt) } else { failed("a", attempt) };
            store.tell(&run, vec![draft]).await.remove(0)
        }
    })
    .await;
    let winners: Vec<&StoredEvent> = ends.iter().filter(|end| end.fresh).collect();
    assert_eq!(winners.len(), 1, "one of {writers} stores the end");
    assert!(ends.iter().all(|end| end.event == winners[0].event), "all are given the same end: {ends:?}");
}

/// Sixteen drivers decide on the same view: one is stored, the others are told what it stored (STORE-8).
pub async fn racing_decisions_are_stored_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    for round in 0..3 {
        let view = store.view(&run).await;
        let answers: Vec<Appended> = race(WRITERS, |number| {
            let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
            async move {
                let drafts = vec![timer(&format!("t{round}-{number}")), timer(&format!("u{round}-{number}"))];
                store.propose(&run, drafts, view).await.expect("an answer")
            }
        })
        .await;
        let mut winners: Vec<Vec<Event>> = Vec::new();
        let mut told: Vec<Vec<Event>> = Vec::new();
        for answer in answers {
            match answer {
                Appended::Stored(stored) => winners.push(events(stored)),
                Appended::Conflict(unknown) => told.push(unknown),
            }
        }
        assert_eq!(winners.len(), 1, "one of them decides");
        assert!(told.iter().all(|unknown| *unknown == winners[0]), "the others are told its decision");
    }
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 1 + 3 * 2);
}

/// Drivers and workers at once: no decision is stored on a stale view and every worker event is.
pub async fn drivers_and_workers_write_at_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    let decided: Vec<u32> = race(8, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        async move {
            let mut decided = 0;
            for round in 0..10 {
                if number < 4 {
                    store.tell(&run, vec![alert(&format!("W{number}"), round)]).await;
                    continue;
                }
                let view = store.view(&run).await;
                let view = View { nothing_after: Some(view.folded_through), ..view };
                let drafts =
                    vec![timer(&format!("t{number}-{round}")), cancelled("a", view.folded_through as u32)];
                if let Appended::Stored(told) = store.propose(&run, drafts, view).await.expect("an answer") {
                    assert_eq!(told[0].event.run_seq, view.folded_through + 1, "nothing came between");
                    assert_eq!(told[1].event.run_seq, view.folded_through + 2);
                    decided += 1;
                }
            }
            decided
        }
    })
    .await;
    let log = store.log(&run).await;
    sound(&log);
    let decided: u32 = decided.iter().sum();
    assert_eq!(log.len(), 1 + 40 + 2 * decided as usize);
}

/// The end of a run and worker events at once: nothing but audit stands after the end.
pub async fn nothing_slips_in_behind_the_end_of_a_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    for attempt in 0..5 {
        let run = store.run(&format!("request-{attempt}")).await;
        store.start(&run).await;
        let view = store.view(&run).await;
        race(8, |number| {
            let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
            async move {
                if number == 0 {
                    stored(store.propose(&run, vec![drafts::run_completed()], view).await);
                    return;
                }
                let result = store.offer(&run, vec![completed("a", number as u32)]).await;
                if let Err(error) = result {
                    super::verdict::refused::<()>(Err(error), engine_core::Code::RunTerminal);
                }
            }
        })
        .await;
        let log = store.log(&run).await;
        sound(&log);
        assert_eq!(log.last().map(|event| event.body.type_name()), Some("RunCompleted"));
    }
}

/// Sixteen starts of one identity make one run (START-3).
pub async fn racing_starts_make_one_run(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let created = race(WRITERS, |number| {
        let store = [&store, &other][number % 2].clone();
        async move { store.create(creation("acme", "request")).await.expect("a run") }
    })
    .await;
    assert_eq!(created.iter().filter(|created| created.fresh).count(), 1, "one makes it");
    let ids: BTreeSet<_> = created.iter().map(|created| created.run_id.clone()).collect();
    assert_eq!(ids.len(), 1, "all are given the same run");
    let run = Owned { tenant_id: drafts::tenant("acme"), run_id: created[0].run_id.clone() };
    assert_eq!(places(&store.log(&run).await), [1]);
}

/// Sixteen starts of different identities make sixteen runs.
pub async fn racing_starts_of_different_identities_make_a_run_each(harness: &dyn Harness) {
    let store = open(harness).await;
    let created = race(WRITERS, |number| {
        let store = store.clone();
        async move {
            let run = store.run(&format!("request-{number}")).await;
            store.decide(&run, vec![approved()]).await;
            run
        }
    })
    .await;
    let ids: BTreeSet<_> = created.iter().map(|run| run.run_id.clone()).collect();
    assert_eq!(ids.len(), WRITERS);
    for run in &created {
        sound(&store.log(run).await);
    }
}

/// Writers that give up before they are answered leave a sound log, and what they append again is there once.
pub async fn writers_that_give_up_leave_a_sound_log(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    race(8, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        async move {
            let code = format!("W{number}");
            for round in 0..10 {
                // Asked once and dropped: whether it was stored is open.
                let _ = store.offer(&run, vec![alert(&code, round)]).now_or_never();
                if round % 2 == 0 {
                    store.tell(&run, vec![alert(&code, round)]).await;
                }
            }
        }
    })
    .await;
    let mut again = Vec::new();
    for number in 0..8 {
        again.extend(store.tell(&run, drafts::alerts(&format!("W{number}"), 0, 10)).await);
    }
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 1 + 8 * 10, "each is there once");
    for event in events(again) {
        assert_eq!(log[usize::try_from(event.run_seq).expect("small") - 1], event);
    }
}
