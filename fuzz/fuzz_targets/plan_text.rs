//! Whatever the text of a plan is: reading it answers, and what it accepts compiles.
#![no_main]

use engine_core::plan::{self, CompiledPlan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(document) = plan::read(text) else { return };
    let hash = plan::compiled::plan_hash(&document);
    let compiled = CompiledPlan::new(document).expect("a plan that was read without problems compiles");
    assert_eq!(compiled.hash(), hash, "compiling does not change the document");
    assert_eq!(compiled.topological().len(), compiled.len(), "every step has a place in the order");
});
