//! From text to a plan, or to every problem with its place.

use engine_core::plan::{self, CompiledPlan, Problem, ProblemCode, Problems, ValidationOptions};
use engine_core::{Code, Error};

const EVERYTHING: &str = include_str!("plans/everything.yaml");
const TERRIBLE: &str = include_str!("plans/terrible.yaml");

fn problems(text: &str) -> Vec<Problem> {
    plan::read(text).expect_err("the plan has problems").0
}

/// The only problem of a plan, as `code path line:column`.
fn only(text: &str) -> String {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{}", Problems(problems.clone()));
    let problem = &problems[0];
    format!(
        "{} {} {}:{}",
        problem.code,
        problem.path,
        problem.line.unwrap_or_default(),
        problem.column.unwrap_or_default()
    )
}

/// A plan of the given steps, in YAML at the start of a line.
fn with_steps(steps: &str) -> String {
    format!("id: p\nversion: \"1\"\nsteps:\n{steps}")
}

#[test]
fn a_plan_with_every_field_survives_yaml_json_and_back() {
    let from_yaml = plan::read(EVERYTHING).unwrap_or_else(|problems| panic!("{problems}"));
    let json = serde_json::to_string_pretty(&from_yaml).unwrap();
    let from_json = plan::read(&json).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(from_yaml, from_json);
    assert_eq!(plan::validate(&from_yaml), Ok(()));
    let hash = |plan| CompiledPlan::new(plan).unwrap().hash().to_owned();
    assert_eq!(hash(from_yaml), hash(from_json));
}

#[test]
fn the_plan_with_every_field_leaves_none_out() {
    let schema: serde_json::Value = serde_json::from_str(plan::schema::text()).unwrap();
    let written = serde_json::to_string(&plan::read(EVERYTHING).unwrap()).unwrap();
    let mut missing = Vec::new();
    let objects = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for (name, _) in objects.filter_map(|object| object["properties"].as_object()).flatten() {
        // Two of the three ways to schedule are shown at steps; a plan has only one of them.
        if name != "intervalMs" && !written.contains(&format!("\"{name}\":")) {
            missing.push(name);
        }
    }
    // These have their default in the example and are not written then.
    missing.retain(|name| !["mode", "dispatch", "required", "onWorkerLost"].contains(&name.as_str()));
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn a_terrible_plan_gets_all_of_its_problems_in_one_report() {
    let report = Problems(problems(TERRIBLE)).to_string();
    insta::assert_snapshot!("terrible", report);
    assert!(!report.contains("sk_live"), "a secret must not be repeated");
    for problem in problems(TERRIBLE) {
        assert!(!problem.hint.is_empty(), "{problem}");
    }
}

#[test]
fn a_syntax_error_is_one_problem_with_its_place() {
    assert_eq!(only("id: p\nsteps: [\n  {id: a\n"), "SYNTAX  3:3");
    assert_eq!(only("id: p\nid: q\nversion: \"1\"\nsteps: [{id: a, handler: h}]"), "DUPLICATE_KEY id 2:1");
    assert_eq!(only("id: p\n---\nid: q\n").split(' ').next(), Some("SYNTAX"));
    assert_eq!(only("").split(' ').next(), Some("WRONG_TYPE"));
    assert_eq!(only("just text"), "WRONG_TYPE  1:1");
}

#[test]
fn a_repeated_key_does_not_hide_the_other_problems() {
    let found = problems("id: p\nid: q\nversion: \"1\"\nsteps:\n  - {id: a, handler: h, wen: x}\n");
    let codes: Vec<ProblemCode> = found.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [ProblemCode::DuplicateKey, ProblemCode::UnknownField]);
    let found = problems(
        "id: p\nid: q\nversion: \"1\"\nsteps:\n  - {id: a, handler: h, handler: h, with: {x: 1, x: 2}}\n",
    );
    let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["id", "steps[0].handler", "steps[0].with.x"]);
    let overridden = with_steps(
        "  - {id: a, handler: h, retry: &r {maxAttempts: 2, backoff: linear}}\n  - {id: b, handler: h, retry: {<<: *r, maxAttempts: 3}, wen: x}\n",
    );
    assert_eq!(only(&overridden), "UNKNOWN_FIELD steps[1].wen 5:58");
}

#[test]
fn json_with_tabs_and_rare_characters_is_placed_like_yaml() {
    let text = "{\n\t\"id\": \"p\", \"version\": \"1\", \"name\": \"\\ud83d\\ude00\",\n\t\"steps\": [\n\t\t{\"id\": \"a\",\t\"handler\": \"h\", \"dependsOn\": [\"b\"]}\n\t]\n}";
    assert_eq!(only(text), "UNKNOWN_STEP steps[0].dependsOn[0] 4:45");
    let fixed = text.replace("[\"b\"]", "[]");
    assert_eq!(plan::read(&fixed).unwrap().name.as_deref(), Some("\u{1f600}"));
}

#[test]
fn a_repeated_key_in_json_is_refused() {
    assert_eq!(
        only(
            "{\"id\": \"p\", \"version\": \"1\",\n \"version\": \"2\", \"steps\": [{\"id\": \"a\", \"handler\": \"h\"}]}"
        ),
        "DUPLICATE_KEY version 2:2"
    );
}

#[test]
fn places_are_exact_for_keys_values_list_entries_and_aliases() {
    assert_eq!(
        only(&with_steps("  - id: a\n    handler: h\n    wehn: x\n")),
        "UNKNOWN_FIELD steps[0].wehn 6:5"
    );
    assert_eq!(
        only(&with_steps("  - id: a\n    handler: h\n    priority:   9\n")),
        "OUT_OF_RANGE steps[0].priority 6:17"
    );
    assert_eq!(only(&with_steps("  - id: a\n")), "MISSING_FIELD steps[0].handler 4:5");
    assert_eq!(
        only(&with_steps("  - {id: a, handler: h, name: é, readOnly: [x, 'ä.']}\n")),
        "PATH_INVALID steps[0].readOnly[1] 4:48"
    );
    let shared = "  - {id: a, handler: h, with: &w {x: \"${ a. }\"}}\n  - {id: b, handler: h, with: *w}\n";
    let places: Vec<_> =
        problems(&with_steps(shared)).iter().map(|problem| (problem.path.clone(), problem.line)).collect();
    assert_eq!(places, [("steps[0].with.x".to_owned(), Some(4)), ("steps[1].with.x".to_owned(), Some(5))]);
}

#[test]
fn hostile_text_is_refused_quickly() {
    let deep_flow = format!("id: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_json = format!("{{\"id\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_block = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = level - 1;
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 10].join(", ")));
    }
    let wide = format!("id: &t {}\nversion: [{}]\n", "x".repeat(1_000_000), vec!["*t"; 1000].join(","));
    let long = format!("id: {}", "x".repeat(11 * 1024 * 1024));
    for (name, text) in [
        ("deep flow", deep_flow),
        ("deep JSON", deep_json),
        ("deep block", deep_block),
        ("alias bomb", bomb),
        ("wide aliases", wide),
        ("long", long),
    ] {
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].code, ProblemCode::DocumentTooLarge, "{name}: {}", found[0]);
    }
}

#[test]
fn numbers_that_the_types_cannot_hold_are_placed_too() {
    assert_eq!(
        only(&with_steps("  - {id: a, handler: h}\n  - {id: b, handler: h, timeoutMs: 1.0e30}\n")),
        "OUT_OF_RANGE steps[1].timeoutMs 5:36"
    );
    assert_eq!(
        only("id: p\nversion: \"1\"\nlimits: {maxFailures: 99999999999}\nsteps: [{id: a, handler: h}]\n"),
        "OUT_OF_RANGE limits.maxFailures 3:23"
    );
    let plan =
        plan::read(&with_steps("  - {id: a, handler: h, timeoutMs: 1.0e3, with: {x: 1.0e3}}\n")).unwrap();
    assert_eq!(plan.steps[0].timeout_ms, Some(1000));
    assert_eq!(plan.steps[0].with, Some(serde_json::json!({"x": 1000.0})));
    assert_eq!(
        only(&with_steps("  - {id: a, handler: h, timeoutMs: 1.5}\n")),
        "WRONG_TYPE steps[0].timeoutMs 4:36"
    );
}

#[test]
fn booleans_are_true_and_false_only() {
    let text = "id: p\nversion: \"1\"\nseparationOfDuties: yes\nsteps: [{id: a, handler: h}]\n";
    let found = problems(text);
    assert_eq!(found[0].message, "expected true or false, found a text");
    assert_eq!(found[0].hint, "write true or false");
}

#[test]
fn handlers_are_checked_where_they_are_known() {
    let options = ValidationOptions { known_handlers: Some(["http".to_owned(), "undo".to_owned()].into()) };
    let text = with_steps(
        "  - {id: a, handler: htp, compensation: {handler: und}}\n  - {id: b, handler: temporal:X@q}\n  - {id: c, handler: http}\n",
    );
    assert!(plan::read(&text).is_ok());
    let found = plan::read_with(&text, &options).unwrap_err().0;
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "steps[0].handler (line 4, column 22): UNKNOWN_HANDLER: there is no handler \"htp\" (did you mean \"http\"?)",
            "steps[0].compensation.handler (line 4, column 51): UNKNOWN_HANDLER: there is no handler \"und\" (did you mean \"undo\"?)",
        ]
    );
}

#[test]
fn compiling_from_text_gives_one_error_with_all_problems() {
    let error: Error = CompiledPlan::read("id: p\nversion: 1\nsteps: []\n").unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
    assert!(error.message().starts_with("the plan has 2 problems:\n"), "{error}");
    assert_eq!(CompiledPlan::read(EVERYTHING).unwrap().len(), 6);
}

#[test]
fn problems_of_a_plan_made_in_code_have_paths_and_no_lines() {
    let mut plan = plan::read(EVERYTHING).unwrap();
    plan.steps[0].priority = 9;
    plan.steps[1].fallback = Some(engine_core::StepId::new("nowhere").unwrap());
    let found = plan::validate(&plan).unwrap_err().0;
    let places: Vec<(&str, Option<u32>)> =
        found.iter().map(|problem| (problem.path.as_str(), problem.line)).collect();
    assert!(places.contains(&("steps[0].priority", None)), "{places:?}");
    assert!(places.contains(&("steps[1].fallback", None)), "{places:?}");
}
