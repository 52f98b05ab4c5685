//! Listing runs by filter, a page at a time.

use std::collections::BTreeSet;

use engine_core::machine::RunStatus;
use engine_core::port::store::{ListRequest, PageKey, RunRecord};
use engine_core::{Code, PlanId, RunId};

use super::Harness;
use super::drafts::{approved, creation, paused, tenant};
use super::handle::{Handle, Owned, open};
use super::verdict::refused;

/// All runs of the usual tenant.
fn everything(limit: usize) -> ListRequest {
    ListRequest {
        tenant_id: tenant("acme"),
        statuses: Vec::new(),
        plan_id: None,
        from: None,
        until: None,
        after: None,
        limit,
    }
}

/// Every page of a list, one after the other.
async fn all_pages(store: &Handle, mut request: ListRequest) -> Vec<RunRecord> {
    let mut runs = Vec::new();
    for _ in 0..1000 {
        let page = store.list(request.clone()).await.expect("a page");
        assert!(page.runs.len() <= request.limit, "a page of {} for {}", page.runs.len(), request.limit);
        assert!(!page.runs.is_empty() || request.after.is_none(), "a key leads to a page that has something");
        assert!(!page.runs.is_empty() || page.next.is_none(), "nothing comes after an empty page");
        runs.extend(page.runs);
        match page.next {
            Some(key) => request.after = Some(key),
            None => return runs,
        }
    }
    panic!("the list does not end");
}

fn ids(runs: &[RunRecord]) -> Vec<RunId> {
    runs.iter().map(|run| run.run_id.clone()).collect()
}

async fn make(store: &Handle, count: usize) -> Vec<Owned> {
    let mut runs = Vec::new();
    for number in 0..count {
        runs.push(store.run(&format!("request-{number}")).await);
        store.clock.advance(10);
    }
    runs
}

/// The newest run comes first, and a record in a list is the one that is found by its id.
pub async fn the_newest_run_comes_first(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut runs = make(&store, 7).await;
    store.start(&runs[2]).await;
    runs.reverse();
    let listed = all_pages(&store, everything(100)).await;
    assert_eq!(ids(&listed), runs.iter().map(|run| run.run_id.clone()).collect::<Vec<_>>());
    for (record, run) in listed.iter().zip(&runs) {
        assert_eq!(*record, store.record(run).await);
    }
}

/// Nobody sees the runs of another tenant (START-6).
pub async fn a_tenant_sees_its_own_runs_only(harness: &dyn Harness) {
    let store = open(harness).await;
    let acme = store.run_of("acme", "request").await;
    let globex = store.run_of("globex", "request").await;
    assert_eq!(ids(&all_pages(&store, everything(10)).await), [acme.run_id]);
    let request = ListRequest { tenant_id: tenant("globex"), ..everything(10) };
    assert_eq!(ids(&all_pages(&store, request).await), [globex.run_id]);
    let request = ListRequest { tenant_id: tenant("nobody"), ..everything(10) };
    assert_eq!(all_pages(&store, request).await, []);
}

/// Only runs in one of the statuses that were asked for.
pub async fn runs_are_found_by_status(harness: &dyn Harness) {
    let store = open(harness).await;
    let runs = make(&store, 4).await;
    store.decide(&runs[1], vec![approved()]).await;
    store.start(&runs[2]).await;
    store.decide(&runs[2], vec![paused(1)]).await;
    let ended = store.ended_run("ended").await;
    let listed = async |statuses: &[RunStatus]| {
        let request = ListRequest { statuses: statuses.to_vec(), ..everything(2) };
        ids(&all_pages(&store, request).await)
    };
    assert_eq!(listed(&[RunStatus::Pending]).await, [runs[3].run_id.clone(), runs[0].run_id.clone()]);
    assert_eq!(listed(&[RunStatus::Approved]).await, [runs[1].run_id.clone()]);
    let mixed = listed(&[RunStatus::Completed, RunStatus::Paused, RunStatus::Approved]).await;
    assert_eq!(mixed, [ended.run_id, runs[2].run_id.clone(), runs[1].run_id.clone()]);
    assert_eq!(listed(&[RunStatus::Failed]).await, [] as [RunId; 0]);
}

/// Only runs of the plan that was asked for.
pub async fn runs_are_found_by_plan(harness: &dyn Harness) {
    let store = open(harness).await;
    store.run("orders").await;
    let plan_id = PlanId::new("invoices").expect("a plan id");
    let mut request = creation("acme", "invoices");
    request.queued.plan_ref.plan_id = plan_id.clone();
    let invoices = store.run_from(request).await;
    let request = ListRequest { plan_id: Some(plan_id), ..everything(10) };
    assert_eq!(ids(&all_pages(&store, request).await), [invoices.run_id]);
    let nothing = ListRequest { plan_id: Some(PlanId::new("invoice").expect("a plan id")), ..everything(10) };
    assert_eq!(all_pages(&store, nothing).await, []);
}

/// Only runs made at or after one time and before another.
pub async fn runs_are_found_by_time(harness: &dyn Harness) {
    let store = open(harness).await;
    let began = store.now();
    let runs = make(&store, 5).await;
    let listed = async |from: Option<u64>, until: Option<u64>| {
        let request = ListRequest {
            from: from.map(|millis| began.plus_millis(millis)),
            until: until.map(|millis| began.plus_millis(millis)),
            ..everything(2)
        };
        ids(&all_pages(&store, request).await)
    };
    let expected = |numbers: &[usize]| -> Vec<RunId> {
        numbers.iter().map(|number| runs[*number].run_id.clone()).collect()
    };
    assert_eq!(listed(Some(20), None).await, expected(&[4, 3, 2]), "from is part of it");
    assert_eq!(listed(None, Some(20)).await, expected(&[1, 0]), "until is not");
    assert_eq!(listed(Some(10), Some(31)).await, expected(&[3, 2, 1]));
    assert_eq!(listed(Some(50), None).await, expected(&[]));
    assert_eq!(listed(Some(30), Some(10)).await, expected(&[]));
}

/// While new runs are made, the pages of a list hold every run that was there first, once, newest first.
pub async fn pages_stay_whole_while_new_runs_are_made(harness: &dyn Harness) {
    let store = open(harness).await;
    let mut there = BTreeSet::new();
    for number in 0..21 {
        there.insert(store.run(&format!("request-{number}")).await.run_id);
        // Groups of three are made at the same moment: a page may end between them.
        if number % 3 == 2 {
            store.clock.advance(1);
        }
    }
    let mut request = everything(4);
    let mut listed: Vec<RunRecord> = Vec::new();
    for number in 0.. {
        let page = store.list(request.clone()).await.expect("a page");
        listed.extend(page.runs);
        let Some(key) = page.next else { break };
        request.after = Some(key);
        if number % 2 == 0 {
            store.clock.advance(1);
        }
        store.run(&format!("late-{number}")).await;
    }
    let unique: BTreeSet<RunId> = ids(&listed).into_iter().collect();
    assert_eq!(unique.len(), listed.len(), "none is there twice");
    assert!(there.is_subset(&unique), "none of the first is missing");
    assert!(listed.is_sorted_by(|one, next| one.created_at >= next.created_at), "newest first");
}

/// A key that this store did not give is refused.
pub async fn a_key_of_no_page_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    make(&store, 3).await;
    for key in ["", "garbage", "0", "' OR 1=1 --", "\0", "💥", &"9".repeat(10_000), "-1,-1", "null"] {
        let request = ListRequest { after: Some(PageKey(key.into())), ..everything(2) };
        refused(store.list(request).await, Code::InvalidId);
    }
}

/// Nothing and everything can be asked for.
pub async fn extreme_limits_are_harmless(harness: &dyn Harness) {
    let store = open(harness).await;
    let runs = make(&store, 5).await;
    assert_eq!(all_pages(&store, everything(usize::MAX)).await.len(), runs.len());
    let page = store.list(everything(0)).await.expect("a page");
    assert!(page.runs.len() <= 1, "{} runs for none", page.runs.len());
    assert_eq!(all_pages(&store, everything(1)).await.len(), runs.len());
}
