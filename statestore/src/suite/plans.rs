//! Plans by content.

use engine_core::Code;
use engine_core::hash::{canonical_json, sha256_hex};
use serde_json::json;

use super::Harness;
use super::drafts::{plan, tenant};
use super::handle::open;
use super::race::race;
use super::verdict::refused;

/// The canonical document of the usual plan.
fn document() -> String {
    let value = serde_json::to_value(plan().document()).expect("a plan is plain data");
    let text = canonical_json(&value);
    assert_eq!(sha256_hex(&text), plan().hash(), "the hash is that of the canonical text");
    text
}

/// A plan is found by its hash, through another handle too; keeping it again changes nothing.
pub async fn a_plan_is_found_by_its_hash(harness: &dyn Harness) {
    let store = open(harness).await;
    let (acme, text) = (tenant("acme"), document());
    for _ in 0..2 {
        store.put_plan(&acme, plan().hash(), &text).await.expect("kept");
        let other = store.other(harness).await;
        assert_eq!(&*other.plan(&acme, plan().hash()).await.expect("the plan"), text);
    }
}

/// Content that is not of the hash is refused, and neither is kept.
pub async fn content_of_another_hash_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let (acme, text) = (tenant("acme"), document());
    for hash in [sha256_hex("something else"), plan().hash().to_uppercase(), String::new()] {
        refused(store.put_plan(&acme, &hash, &text).await, Code::PlanHashMismatch);
        refused(store.plan(&acme, &hash).await, Code::PlanMissing);
    }
    let changed = format!("{text} ");
    refused(store.put_plan(&acme, plan().hash(), &changed).await, Code::PlanHashMismatch);
    refused(store.plan(&acme, plan().hash()).await, Code::PlanMissing);
}

/// A plan that nobody kept is missing, whatever its hash looks like.
pub async fn a_plan_that_nobody_kept_is_missing(harness: &dyn Harness) {
    let store = open(harness).await;
    for hash in [plan().hash(), "", "'; DROP TABLE plans; --", "💥", "\0"] {
        refused(store.plan(&tenant("acme"), hash).await, Code::PlanMissing);
    }
}

/// A tenant does not have the plans of another, even of the same content (START-6).
pub async fn each_tenant_has_its_own_plans(harness: &dyn Harness) {
    let store = open(harness).await;
    let (acme, globex, text) = (tenant("acme"), tenant("globex"), document());
    store.put_plan(&acme, plan().hash(), &text).await.expect("kept");
    refused(store.plan(&globex, plan().hash()).await, Code::PlanMissing);
    store.put_plan(&globex, plan().hash(), &text).await.expect("kept");
    assert_eq!(&*store.plan(&globex, plan().hash()).await.expect("the plan"), text);
}

/// Any text comes back as it was kept.
pub async fn any_text_comes_back_as_it_was_kept(harness: &dyn Harness) {
    let store = open(harness).await;
    let value = json!({"name": "Zoë's \"plan\"; -- \\ 𝄞 \u{0} \u{1F9ED}", "large": "x".repeat(2_000_000)});
    let text = canonical_json(&value);
    let hash = sha256_hex(&text);
    store.put_plan(&tenant("acme"), &hash, &text).await.expect("kept");
    assert!(&*store.plan(&tenant("acme"), &hash).await.expect("the plan") == text.as_str());
}

/// Sixteen that keep one plan at once all succeed.
pub async fn a_plan_may_be_kept_by_many_at_once(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let results = race(16, |number| {
        let store = [&store, &other][number % 2].clone();
        async move { store.put_plan(&tenant("acme"), plan().hash(), &document()).await }
    })
    .await;
    for result in results {
        result.expect("kept");
    }
    assert_eq!(&*store.plan(&tenant("acme"), plan().hash()).await.expect("the plan"), document());
}
