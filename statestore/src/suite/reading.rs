//! Reading a log by places.

use super::Harness;
use super::drafts::alerts;
use super::handle::{open, reading};
use super::verdict::places;

/// A page begins after its watermark and holds no more than was asked for, in order.
pub async fn pages_go_on_after_a_watermark(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 29)).await;
    let other = store.other(harness).await;
    let mut read = Vec::new();
    loop {
        let after = read.last().copied().unwrap_or(0);
        let page = other.read(reading(&run, after, 8)).await.expect("a page");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 8, "a page of {} for 8", page.len());
        read.extend(places(&page));
    }
    assert_eq!(read, (1..=30).collect::<Vec<u64>>());
    let middle = store.read(reading(&run, 27, 1)).await.expect("a page");
    assert_eq!(places(&middle), [28]);
}

/// Nothing, everything and beyond the end can be asked for.
pub async fn extreme_pages_are_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.tell(&run, alerts("X", 1, 9)).await;
    let read = async |after, limit| places(&store.read(reading(&run, after, limit)).await.expect("a page"));
    assert_eq!(read(0, 0).await, [0_u64; 0]);
    let all = read(0, usize::MAX).await;
    assert!(!all.is_empty() && (1..=10).collect::<Vec<u64>>().starts_with(&all), "{all:?}");
    assert_eq!(read(9, usize::MAX).await, [10]);
    assert_eq!(read(10, 100).await, [0_u64; 0]);
    for after in [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(read(after, usize::MAX).await, [0_u64; 0], "after {after}");
    }
}

/// A run that only another tenant has is read by nobody else, whatever page is asked for (START-6).
pub async fn the_log_of_another_tenant_is_not_found(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for (after, limit) in [(0, 10), (1, 10), (0, 0), (u64::MAX, usize::MAX)] {
        let result = store.read(reading(&run.by("globex"), after, limit)).await;
        super::verdict::refused(result, engine_core::Code::NotFound);
    }
}
