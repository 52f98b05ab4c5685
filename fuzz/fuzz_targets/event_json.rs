//! Whatever JSON is handed in as an event: checking answers, and what can be read can be written and read
//! again as the same event.
#![no_main]

use engine_core::event::{Event, schema};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let _ = schema::validate_json(&value);
    let Ok(event) = Event::from_json(value) else { return };
    let written = serde_json::to_string(&event).expect("an event can be written");
    let value = serde_json::from_str(&written).expect("a written event is JSON");
    let again = Event::from_json(value).expect("a written event can be read");
    assert_eq!(again, event, "reading what was written gives the same event");
});
