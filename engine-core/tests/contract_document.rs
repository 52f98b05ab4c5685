//! docs/contract.md: its generated tables are those of the code, and its requirement ids can be cited.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};

use engine_core::event::EventType;
use engine_core::machine::{run, step};
use engine_core::signal::SignalType;
use engine_core::{Code, decider};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/contract.md");

fn document() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

/// The text with the part between a marker and its end replaced.
fn filled(text: &str, marker: &str, content: &str) -> String {
    let start = format!("<!-- generated: {marker} -->\n");
    let (before, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no marker {start:?}"));
    let (_, after) = rest.split_once("<!-- end generated -->").unwrap();
    format!("{before}{start}\n{content}\n<!-- end generated -->{after}")
}

#[test]
fn the_generated_tables_are_those_of_the_code() {
    let text = document();
    let fresh = filled(&text, "run machine", &run::markdown());
    let fresh = filled(&fresh, "step machine", &step::markdown());
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(PATH, &fresh).unwrap();
        return;
    }
    assert!(text == fresh, "docs/contract.md is stale: run `cargo xtask docs` and commit the file");
}

/// Requirement id to (level, text).
fn requirements() -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for line in document().lines().filter(|line| line.starts_with("- **")) {
        let (id, rest) = line["- **".len()..].split_once("** (").unwrap_or_else(|| panic!("no id: {line}"));
        let (level, text) = rest.split_once(") ").unwrap_or_else(|| panic!("no level: {line}"));
        let before = found.insert(id.to_owned(), (level.to_owned(), text.to_owned()));
        assert!(before.is_none(), "{id} stands twice");
    }
    found
}

#[test]
fn every_requirement_has_an_id_of_its_own_a_level_and_a_sentence() {
    let requirements = requirements();
    assert!(requirements.len() > 400, "only {} requirements", requirements.len());
    for (id, (level, text)) in &requirements {
        let (topic, number) = id.split_once('-').unwrap();
        assert!(topic.bytes().all(|byte| byte.is_ascii_uppercase()), "{id}");
        assert!(number.parse::<u32>().is_ok(), "{id}");
        assert!(["MUST", "SHOULD", "MAY"].contains(&level.as_str()), "{id} is {level}");
        assert!(text.ends_with('.'), "{id} is no sentence: {text}");
    }
}

#[test]
fn numbers_within_a_topic_have_no_holes() {
    let mut topics: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for id in requirements().keys() {
        let (topic, number) = id.split_once('-').unwrap();
        topics.entry(topic.to_owned()).or_default().insert(number.parse().unwrap());
    }
    for (topic, numbers) in topics {
        let expected: BTreeSet<u32> = (1..=u32::try_from(numbers.len()).unwrap()).collect();
        assert_eq!(numbers, expected, "{topic}");
    }
}

#[test]
fn every_event_type_signal_and_error_code_is_explained() {
    let text = document();
    let missing: Vec<&str> = EventType::ALL
        .iter()
        .map(|event_type| event_type.as_str())
        .chain(SignalType::KNOWN.iter().copied())
        .chain(Code::ALL.iter().map(|code| code.as_str()))
        .filter(|word| !text.contains(word))
        .collect();
    assert!(missing.is_empty(), "docs/contract.md says nothing about {missing:?}");
}

#[test]
fn requirements_cited_in_the_code_exist() {
    let requirements = requirements();
    let mut cited = 0;
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for line in source.lines().filter(|line| line.trim_start().starts_with("//")) {
                for word in line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-') {
                    if let Some((topic, number)) = word.split_once('-')
                        && topic.len() > 2
                        && topic.bytes().all(|byte| byte.is_ascii_uppercase())
                        && number.parse::<u32>().is_ok()
                        && !["SHA", "UTF", "RFC", "ISO"].contains(&topic)
                    {
                        assert!(
                            requirements.contains_key(word),
                            "{}: {word} is no requirement",
                            path.display()
                        );
                        cited += 1;
                    }
                }
            }
        }
    }
    assert!(cited > 50, "only {cited} rules are cited where they are enforced");
}

#[test]
fn the_decider_version_of_the_document_is_that_of_the_code() {
    let row = format!("| `deciderVersion` | RunQueued, an integer, now {} |", decider::DECIDER_VERSION);
    assert!(document().contains(&row));
}
