//! Whatever the text, reading it ends in a plan that can be used or in problems; never in a panic.

use engine_core::data::StepMapping;
use engine_core::plan::{self, CompiledPlan};
use proptest::prelude::*;

const EVERYTHING: &str = include_str!("plans/everything.yaml");
const TERRIBLE: &str = include_str!("plans/terrible.yaml");

fn reading_holds(text: &str) -> Result<(), TestCaseError> {
    match plan::read(text) {
        Err(problems) => prop_assert!(!problems.0.is_empty()),
        Ok(plan) => {
            let compiled = CompiledPlan::new(plan.clone()).expect("a plan without problems compiles");
            for step in compiled.indices() {
                prop_assert!(StepMapping::new(&compiled, step).is_ok());
            }
            let json = serde_json::to_string(&plan).expect("a plan can be written");
            prop_assert_eq!(plan::read(&json), Ok(plan));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Edit {
    Remove(usize),
    Repeat(usize, usize),
    Insert(usize, String),
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits {
        let count = lines.len().max(1);
        match edit {
            Edit::Remove(line) if !lines.is_empty() => {
                lines.remove(line % count);
            }
            Edit::Repeat(from, to) if !lines.is_empty() => {
                let line = lines[from % count].clone();
                lines.insert(to % count, line);
            }
            Edit::Insert(line, part) if !lines.is_empty() => {
                let line = &mut lines[line % count];
                let middle = (0..=line.len()).filter(|at| line.is_char_boundary(*at)).nth(line.len() / 2);
                line.insert_str(middle.unwrap_or(0), part);
            }
            _ => {}
        }
    }
    lines.join("\n")
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let part = prop_oneof![
        "[ -~]{0,4}",
        Just("${ a. }".to_owned()),
        Just("\u{1f600}".to_owned()),
        Just("\t".to_owned()),
        Just("&a *a".to_owned()),
        Just("<<: *patient".to_owned()),
        Just("- !!binary ".to_owned()),
        Just("1e999".to_owned()),
    ];
    let edit = prop_oneof![
        any::<usize>().prop_map(Edit::Remove),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Edit::Repeat(from, to)),
        (any::<usize>(), part).prop_map(|(line, part)| Edit::Insert(line, part)),
    ];
    prop::collection::vec(edit, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_plan_is_read_or_refused(edits in edits(), good in any::<bool>()) {
        reading_holds(&edited(if good { EVERYTHING } else { TERRIBLE }, &edits))?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\PC|[\n\t{}\\[\\]:,&*'\"\\\\-]){0,60}") {
        reading_holds(&text)?;
    }

    #[test]
    fn any_expression_is_read_or_refused(text in "[a-z@.*&|!<>=()\\[\\]{}?:,'\"`$é0-9 -]{0,40}") {
        if let Ok(expression) = plan::expression::Expression::parse(&text) {
            let _ = expression.evaluate(&serde_json::json!({"a": [1, "x", {"b": null}], "steps": {}}));
            let _ = expression.reads();
        }
    }
}
