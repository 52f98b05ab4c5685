//! Answers that are given again when the same request comes again (IDEM-2 to IDEM-5).

use engine_core::Code;
use engine_core::data::JOURNAL_BYTES;
use engine_core::port::store::{ANSWER_KEPT_MS, RequestKey};

use super::Harness;
use super::drafts::tenant;
use super::handle::{Handle, open};
use super::race::race;
use super::verdict::refused;

fn key(text: &str) -> RequestKey {
    RequestKey::new(text).expect("a key")
}

async fn remember(store: &Handle, of: &str, text: &str, answer: &str) -> String {
    let answer = store.remember(&tenant(of), &key(text), answer, ANSWER_KEPT_MS).await;
    answer.expect("an answer").to_string()
}

async fn recall(store: &Handle, of: &str, text: &str) -> Option<String> {
    let answer = store.recall(&tenant(of), &key(text)).await.expect("an answer or none");
    answer.map(|answer| answer.to_string())
}

/// An answer is given again, through another handle too; a key that nobody used has none.
pub async fn an_answer_is_given_again(harness: &dyn Harness) {
    let store = open(harness).await;
    let answer = r#"{"runId":"Zoë's \"run\"; -- \\ 𝄞"}"#;
    assert_eq!(remember(&store, "acme", "k1", answer).await, answer);
    assert_eq!(recall(&store.other(harness).await, "acme", "k1").await.as_deref(), Some(answer));
    assert_eq!(recall(&store, "acme", "K1").await, None, "keys differ by case");
    assert_eq!(recall(&store, "acme", "k2").await, None);
}

/// The first answer to a key stands.
pub async fn the_first_answer_stands(harness: &dyn Harness) {
    let store = open(harness).await;
    remember(&store, "acme", "k1", "first").await;
    assert_eq!(remember(&store, "acme", "k1", "second").await, "first");
    assert_eq!(recall(&store, "acme", "k1").await.as_deref(), Some("first"));
}

/// Of sixteen answers that come at once one stands, and all are given it.
pub async fn one_of_many_answers_stands(harness: &dyn Harness) {
    let store = open(harness).await;
    let other = store.other(harness).await;
    let answers = race(16, |number| {
        let store = [&store, &other][number % 2].clone();
        async move { remember(&store, "acme", "k1", &format!("answer {number}")).await }
    })
    .await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(recall(&store, "acme", "k1").await.as_ref(), Some(&answers[0]));
}

/// The same key of two tenants is two keys (IDEM-2).
pub async fn keys_belong_to_a_tenant(harness: &dyn Harness) {
    let store = open(harness).await;
    remember(&store, "acme", "k1", "of acme").await;
    assert_eq!(recall(&store, "globex", "k1").await, None);
    assert_eq!(remember(&store, "globex", "k1", "of globex").await, "of globex");
    assert_eq!(recall(&store, "acme", "k1").await.as_deref(), Some("of acme"));
}

/// An answer is kept for its time and then forgotten, swept or not; giving it again does not keep it longer.
pub async fn an_answer_expires(harness: &dyn Harness) {
    let store = open(harness).await;
    remember(&store, "acme", "k1", "first").await;
    store.clock.advance(ANSWER_KEPT_MS - 1);
    assert_eq!(recall(&store, "acme", "k1").await.as_deref(), Some("first"));
    assert_eq!(remember(&store, "acme", "k1", "second").await, "first");
    store.clock.advance(2);
    assert_eq!(recall(&store, "acme", "k1").await, None);
    assert_eq!(remember(&store, "acme", "k1", "third").await, "third", "the key is free again");
    assert_eq!(recall(&store, "acme", "k1").await.as_deref(), Some("third"));
}

/// Sweeping deletes what has expired, says how many, and leaves the rest.
pub async fn sweeping_deletes_what_has_expired(harness: &dyn Harness) {
    let store = open(harness).await;
    for (text, keep_ms) in [("k1", 1000), ("k2", 1000), ("k3", 2000), ("k4", u64::MAX)] {
        store.remember(&tenant("acme"), &key(text), "answer", keep_ms).await.expect("an answer");
    }
    assert_eq!(store.sweep().await.expect("swept"), 0);
    store.clock.advance(1001);
    assert_eq!(store.sweep().await.expect("swept"), 2);
    assert_eq!(store.sweep().await.expect("swept"), 0);
    assert_eq!(recall(&store, "acme", "k3").await.as_deref(), Some("answer"));
    store.clock.advance(1_000_000_000_000);
    assert_eq!(store.sweep().await.expect("swept"), 1);
    assert_eq!(recall(&store, "acme", "k4").await.as_deref(), Some("answer"));
}

/// The longest key is a key.
pub async fn the_longest_key_is_a_key(harness: &dyn Harness) {
    let store = open(harness).await;
    let longest = "k".repeat(255);
    assert_eq!(remember(&store, "acme", &longest, "answer").await, "answer");
    assert_eq!(recall(&store, "acme", &longest).await.as_deref(), Some("answer"));
    assert_eq!(recall(&store, "acme", &longest[1..]).await, None);
}

/// An answer over the limit is refused and not kept.
pub async fn an_answer_over_the_limit_is_refused(harness: &dyn Harness) {
    let store = open(harness).await;
    let huge = "x".repeat(JOURNAL_BYTES + 1);
    let result = store.remember(&tenant("acme"), &key("k1"), &huge, ANSWER_KEPT_MS).await;
    refused(result.map(|answer| answer.len()), Code::PayloadTooLarge);
    assert_eq!(recall(&store, "acme", "k1").await, None);
}
