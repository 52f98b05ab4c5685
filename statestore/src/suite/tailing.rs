//! Following a log: what is there, then what comes; none is missed and none repeated.

use engine_core::event::Event;
use engine_core::port::store::ReadRequest;
use engine_core::{Code, Result};
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};

use super::Harness;
use super::drafts::{alert, alerts};
use super::handle::{Handle, Owned, open, reading};
use super::race::race;
use super::verdict::{places, refused, soon, sound};

type Tail = BoxStream<'static, Result<Event>>;

/// The next so many events of a tail.
async fn next(tail: &mut Tail, count: usize) -> Vec<Event> {
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let event = soon("the next event of a tail", tail.next()).await;
        events.push(event.expect("a tail has no end").expect("an event"));
    }
    events
}

/// What is there comes first, then each new event, also when a page is smaller than what is there.
pub async fn a_tail_gives_what_is_there_and_then_what_comes(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 9)).await;
    let mut tail = store.tail(reading(&run, 0, 4));
    assert_eq!(places(&next(&mut tail, 10).await), (1..=10).collect::<Vec<u64>>());
    store.tell(&run, alerts("Y", 1, 5)).await;
    let came = next(&mut tail, 5).await;
    assert_eq!(came, store.log(&run).await[10..]);
    store.tell(&run, vec![alert("Z", 1)]).await;
    assert_eq!(places(&next(&mut tail, 1).await), [16]);
}

/// A tail begins after its watermark.
pub async fn a_tail_begins_after_its_watermark(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 9)).await;
    let mut tail = store.tail(reading(&run, 8, 100));
    store.tell(&run, vec![alert("Y", 1)]).await;
    assert_eq!(places(&next(&mut tail, 3).await), [9, 10, 11]);
}

/// A tail waits for a place that is not there yet.
pub async fn a_tail_may_begin_beyond_the_end(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let mut tail = store.tail(reading(&run, 3, 100));
    store.tell(&run, alerts("X", 1, 4)).await;
    assert_eq!(places(&next(&mut tail, 2).await), [4, 5]);
}

/// What is written through another handle, as by another process, is told too.
pub async fn a_tail_sees_what_another_handle_writes(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    let mut tail = store.tail(reading(&run, 1, 100));
    for number in 1..=5 {
        other.tell(&run, vec![alert("X", number)]).await;
        assert_eq!(places(&next(&mut tail, 1).await), [u64::from(number) + 1]);
    }
}

/// While eight writers append through two handles, tails that begin at different moments miss and repeat nothing.
pub async fn a_tail_misses_and_repeats_nothing_under_load(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let run = store.run("request").await;
    // RunQueued and eight writers with fifteen events each.
    let total = 1 + 8 * 15;
    let logs = race(12, |number| {
        let (store, run) = ([&store, &other][number % 2].clone(), run.clone());
        async move {
            match number {
                0..8 => {
                    write(&store, &run, number).await;
                    Vec::new()
                }
                _ => follow(&store, &run, number, total).await,
            }
        }
    })
    .await;
    let log = store.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), total);
    for followed in &logs[8..] {
        assert_eq!(followed, &log, "a tail gives the log");
    }
}

async fn write(store: &Handle, run: &Owned, number: usize) {
    for round in 0..15 {
        store.tell(run, vec![alert(&format!("W{number}"), round)]).await;
    }
}

/// Reads a part and follows from there.
async fn follow(store: &Handle, run: &Owned, number: usize, total: usize) -> Vec<Event> {
    let mut followed = store.read(reading(run, 0, number)).await.expect("a page");
    let after = followed.last().map_or(0, |event| event.run_seq);
    let mut tail = store.tail(reading(run, after, number));
    let left = total - followed.len();
    followed.extend(next(&mut tail, left).await);
    followed
}

/// A page of nothing and a page of everything are pages.
pub async fn extreme_pages_of_a_tail_are_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 4)).await;
    for limit in [0, 1, usize::MAX] {
        let mut tail = store.tail(reading(&run, 0, limit));
        assert_eq!(places(&next(&mut tail, 5).await), [1, 2, 3, 4, 5], "pages of {limit}");
    }
    let mut beyond = store.tail(reading(&run, u64::MAX, 100));
    assert!(
        beyond.next().now_or_never().is_none(),
        "there is nothing after the last place that can be named"
    );
    let mut tail = store.tail(reading(&run, 5, 100));
    store.tell(&run, vec![alert("Y", 1)]).await;
    assert_eq!(places(&next(&mut tail, 1).await), [6]);
    assert!(beyond.next().now_or_never().is_none(), "and still not after an event");
}

/// The tail of a run that another tenant has, or nobody, says so (START-6).
pub async fn the_tail_of_another_tenant_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for stranger in [run.by("globex"), Owned::unknown()] {
        let request: ReadRequest = reading(&stranger, 0, 10);
        let first = soon("the answer of a tail", store.tail(request).next()).await;
        refused(first.expect("an answer"), Code::NotFound);
    }
}
