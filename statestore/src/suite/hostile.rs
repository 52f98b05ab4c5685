//! Text that is meant to break a store: whatever stands in a free field comes back as it was.

use engine_core::event::{Body, Draft};
use engine_core::port::store::{
    AppendAs, ClaimRequest, Delivered, FailedDelivery, NextTry, SaveCheckpoint, UnclaimRequest,
};
use engine_core::signal::Signal;
use serde_json::json;

use super::drafts::{
    alert, checkpoint_id, completed, completed_with, creation, run_started, signal, step, timer,
};
use super::handle::{open, request};
use super::verdict::{events, freshness, sound, stored};
use super::{Harness, drafts, samples};

/// SQL, quotes, backslashes, control characters, four-byte UTF-8, things that look like parameters.
const HOSTILE: &[&str] = &[
    "'; DROP TABLE events; --",
    "\" OR \"1\"=\"1",
    "\\' \\\\ \\x00 \\u0000 \\n",
    "$1 ?1 :name @p %s {} $$ /* */ -- #",
    "𝄞 \u{1F9ED} \u{10FFFF} Zoë नमस्ते \u{200F}\u{202E}",
    "\r\n\t\u{1}\u{7f}\u{85}\u{feff}",
    "%_[a-z]*",
    "null",
    "",
    " leading and trailing ",
];

/// Who appends, what ties events together, and the whole of a run's context come back as they were.
pub async fn any_text_in_the_envelope_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    for (number, text) in HOSTILE.iter().enumerate() {
        let mut asked = creation("acme", &format!("request-{number}"));
        asked.correlation_id = (*text).into();
        asked.emitted_by = (*text).into();
        let queued = &mut asked.queued;
        queued.context.project_id = (*text).into();
        queued.context.environment_id = (*text).into();
        queued.context.triggered_by = Some((*text).into());
        queued.original_intent = Some((*text).into());
        queued.plan_ref.uri = (*text).into();
        let run = store.run_from(asked.clone()).await;
        let mut append = request(&run, vec![alert("X", 1)], AppendAs::Worker, None);
        append.emitted_by = (*text).into();
        stored(store.append(append).await);
        let log = store.other(harness).await.log(&run).await;
        sound(&log);
        assert_eq!(log[0].body, Body::from(asked.queued), "{text:?}");
        for event in &log {
            assert_eq!(&*event.emitted_by, *text);
            assert_eq!(&*event.correlation_id, *text);
        }
    }
}

/// A payload comes back as it was, in keys and values, and in fields that decide about keys.
pub async fn any_text_in_a_payload_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    store.start(&run).await;
    for (number, text) in HOSTILE.iter().enumerate() {
        let attempt = u32::try_from(number).expect("small") + 1;
        let told = store.tell(&run, vec![output(text, attempt), failure(text, attempt)]).await;
        assert_eq!(freshness(&told), [true, true]);
        store.decide(&run, vec![timer(text)]).await;
        if !text.is_empty() {
            store.tell(&run, vec![alert(text, attempt), samples::unknown(text)]).await;
        }
    }
    let log = store.other(harness).await.log(&run).await;
    sound(&log);
    assert_eq!(log.len(), 3 + HOSTILE.len() * 5 - 2);
    for (number, text) in HOSTILE.iter().enumerate() {
        let expected = output(text, u32::try_from(number).expect("small") + 1).body;
        assert!(log.iter().any(|event| event.body == expected), "{text:?} did not come back");
        assert!(log.iter().any(|event| event.body == timer(text).body), "{text:?} did not come back");
    }
}

fn output(text: &str, attempt: u32) -> Draft {
    completed_with("a", attempt, json!({ text: [text, {"deep": text}] }))
}

fn failure(text: &str, attempt: u32) -> Draft {
    let mut draft = drafts::failed("b", attempt);
    if let Body::StepFailed(failed) = &mut draft.body {
        failed.error.message = text.into();
    }
    draft
}

/// The engine's name for a run comes back, in its record and in its log.
pub async fn any_engine_reference_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    for (number, text) in HOSTILE.iter().enumerate() {
        let run = store.run(&format!("request-{number}")).await;
        store.decide(&run, vec![drafts::approved(), run_started(text, store.now())]).await;
        assert_eq!(store.record(&run).await.engine_run_ref.as_deref(), Some(*text));
    }
}

/// A signal's words come back, and a person's reason cannot end a run's inbox.
pub async fn any_text_in_a_signal_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let mut sent = Vec::new();
    for (number, text) in HOSTILE.iter().chain(&["nul \0 inside"]).enumerate() {
        let signal =
            Signal { actor: (*text).into(), reason: Some((*text).into()), ..signal(&format!("s{number}")) };
        store.submit(&run.tenant_id, &run.run_id, signal.clone()).await.expect("submitted");
        sent.push(signal);
    }
    assert_eq!(store.undecided(&run.run_id).await.expect("signals"), sent);
}

/// Holders and workers may be called anything, and no two of them are taken for one.
pub async fn any_name_of_a_holder_is_its_own(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let names: Vec<&str> = HOSTILE.iter().copied().filter(|name| !name.is_empty()).collect();
    for (position, name) in names.iter().enumerate() {
        let fence = store.lease_for(&run, name, 1000).await.expect("a lease");
        assert_eq!(store.lease_for(&run, name, 1000).await.expect("renewed"), fence);
        let attempt = u32::try_from(position).expect("small") + 1;
        let claim = |worker: &str| ClaimRequest {
            run_id: run.run_id.clone(),
            step_id: step("a"),
            attempt,
            worker: worker.into(),
            duration_ms: 1000,
        };
        store.claim(claim(name)).await.expect("a claim");
        for stranger in names.iter().filter(|other| *other != name) {
            assert!(store.lease_for(&run, stranger, 1000).await.is_err(), "{stranger:?} is not {name:?}");
            assert!(store.claim(claim(stranger)).await.is_err(), "{stranger:?} is not {name:?}");
        }
        let unclaim = UnclaimRequest {
            run_id: run.run_id.clone(),
            step_id: step("a"),
            attempt,
            worker: (*name).into(),
        };
        store.unclaim(unclaim).await.expect("given back");
        store.claim(claim("next")).await.expect("the attempt is free");
        store.release(&run.run_id, fence).await.expect("released");
    }
}

/// Relays may be called anything, and what went wrong is kept in any words.
pub async fn any_name_of_a_relay_and_any_error_is_kept(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let names: Vec<&str> = HOSTILE.iter().copied().filter(|name| !name.is_empty()).collect();
    for (position, name) in (1_u32..).zip(&names) {
        let seq = u64::from(position);
        assert_eq!(store.take(name, 1).await.len(), 1);
        for stranger in names.iter().filter(|other| *other != name) {
            assert_eq!(store.take(stranger, 1).await, [], "{stranger:?} is not {name:?}");
        }
        let failed = FailedDelivery {
            relay: (*name).into(),
            run_id: run.run_id.clone(),
            run_seq: seq,
            error: (*name).into(),
            next: NextTry::Never,
        };
        store.fail_delivery(failed).await.expect("noted");
        let letters = store.dead_letters(100).await.expect("dead letters");
        assert_eq!(letters.last().map(|letter| letter.error.as_str()), Some(*name));
        let delivered = Delivered { relay: (*name).into(), run_id: run.run_id.clone(), up_to_seq: seq };
        store.acknowledge(delivered).await.expect("acknowledged");
        store.tell(&run, vec![alert("X", position)]).await;
        store.clock.advance(1);
    }
}

/// Who saves a checkpoint may be called anything.
pub async fn any_name_of_a_keeper_is_kept(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    for (number, text) in HOSTILE.iter().enumerate() {
        let save = SaveCheckpoint {
            tenant_id: run.tenant_id.clone(),
            run_id: run.run_id.clone(),
            checkpoint_id: checkpoint_id(&format!("c{number}")),
            projection: store.projection(&run).await.record(),
            emitted_by: (*text).into(),
        };
        store.save_checkpoint(save).await.expect("saved");
        assert_eq!(
            store.log(&run).await.last().map(|event| event.emitted_by.to_string()).as_deref(),
            Some(*text)
        );
    }
}

/// Identifiers at the end of what is allowed are identifiers, and those that look alike are not one.
pub async fn long_and_similar_identifiers_are_kept_apart(harness: &dyn Harness) {
    let store = open(harness).await;
    let long = "t".repeat(128);
    let run = store.run_of(&long, "request").await;
    let lower = store.run_of("tenant", "request").await;
    let upper = store.run_of("TENANT", "request").await;
    assert!(store.find(&drafts::tenant("tenant"), &upper.run_id).await.is_err());
    assert!(store.find(&drafts::tenant("TENANT"), &lower.run_id).await.is_err());
    let longest = "s".repeat(128);
    let told =
        store.tell(&run, vec![completed(&longest, u32::MAX), completed(&longest[1..], u32::MAX)]).await;
    assert_eq!(freshness(&told), [true, true]);
    let apart = vec![completed("step", 1), completed("STEP", 1), completed("st.p", 1), completed("st_p", 1)];
    assert_eq!(freshness(&store.tell(&run, apart).await), [true; 4]);
    sound(&store.log(&run).await);
}

/// Numbers come back as they were, to the last bit.
pub async fn every_number_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let numbers = json!([
        0,
        -1,
        u64::MAX,
        i64::MIN,
        9_007_199_254_740_993_u64,
        0.1,
        2.5,
        0.300_000_000_000_000_04,
        5e-324,
        1.797_693_134_862_315_7e308,
        -1e-7,
        1e21,
        123_456_789.123_456_79,
    ]);
    let told = events(store.tell(&run, vec![completed_with("a", 1, numbers)]).await);
    assert_eq!(store.log(&run).await[1], told[0]);
}

/// A payload as deep as a plan may be comes back.
pub async fn a_deep_payload_comes_back(harness: &dyn Harness) {
    let store = open(harness).await;
    let run = store.run("request").await;
    let deep = (0..100).fold(json!("bottom"), |inner, _| json!([inner]));
    let told = events(store.tell(&run, vec![completed_with("a", 1, deep)]).await);
    assert_eq!(store.log(&run).await[1], told[0]);
}
