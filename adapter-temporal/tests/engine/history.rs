//! What a history holds, and what happens when it is cut off.

use client::Ask;
use engine_core::event::EventType;
use engine_core::machine::RunStatus;

use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_history_names_steps_and_holds_no_payload() {
    let place = Place::open("payload", |options| options).await;
    let plan = "
id: payload
version: 1.0.0
result: steps.read.output
steps:
  - {id: write, handler: script, with: {value: {letter: 'the-secret-letter'}}}
  - {id: read, handler: script, with: {note: '${steps.write.output.letter}', value: {letter: 'the-secret-letter'}}}
";
    let run = place.world.start(plan).await.unwrap();
    run.ends(RunStatus::Completed).await.unwrap();
    let history = place.history(&run).await;
    for name in ["DrivetrainRun", "write#1", "read#1", "\"script\""] {
        assert!(history.contains(name), "{name} is not in {history}");
    }
    // Payloads are written in base64: the letter in any position.
    use std::fmt::Write as _;
    let decoded: String = history.split('"').filter_map(decode).fold(history.clone(), |mut all, text| {
        let _ = writeln!(all, "{text}");
        all
    });
    assert!(decoded.contains("StepCompleted"), "payloads can be read: {decoded}");
    assert!(!decoded.contains("the-secret-letter"), "{decoded}");
    place.world.close().await;
}

/// A word in base64 as text, if it is one.
fn decode(word: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0u32);
    for letter in word.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_goes_over_several_executions_and_does_nothing_twice() {
    let place =
        Place::open("long", |options| adapter_temporal::Options { longest_history: Some(40), ..options })
            .await;
    let steps: Vec<String> =
        (0..30).map(|number| format!("  - {{id: s{number}, handler: script}}\n")).collect();
    let run =
        place.world.start(&format!("id: long\nversion: 1.0.0\nsteps:\n{}", steps.concat())).await.unwrap();
    run.ends(RunStatus::Completed).await.unwrap();
    let once: Vec<String> = (0..30).map(|number| format!("s{number}#1.1")).collect();
    assert_eq!(place.world.entries(), once);
    assert!(place.executions(&run, 3).await >= 3);
    place.world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_goes_on_while_the_history_is_cut_off_and_signals_are_heard() {
    let place =
        Place::open("cut", |options| adapter_temporal::Options { longest_history: Some(30), ..options })
            .await;
    let mut plan = "id: cut\nversion: 1.0.0\nmode: graph\nsteps:\n".to_owned();
    plan += "  - {id: slow, handler: script, with: {gate: slow}}\n  - {id: s0, handler: script}\n";
    for number in 1..12 {
        plan += &format!("  - {{id: s{number}, handler: script, dependsOn: [s{}]}}\n", number - 1);
    }
    plan += "  - {id: last, handler: script, dependsOn: [slow, s11]}\n";
    let run = place.world.start(&plan).await.unwrap();
    place.world.at_gate("slow", 1).await.unwrap();
    // The chain makes the history long; the step at the gate is then left to its claim.
    assert!(place.executions(&run, 2).await >= 2);
    run.accept(Ask::pause()).await.unwrap();
    run.accept(Ask::resume()).await.unwrap();
    place.world.open_gate("slow");
    run.ends(RunStatus::Completed).await.unwrap();
    assert_eq!(place.world.visits_of("slow").len(), 1, "the handler was not called again");
    assert_eq!(run.count(EventType::StepRetried).await.unwrap(), 0, "nobody was lost");
    place.world.close().await;
}
