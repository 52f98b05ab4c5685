//! Drawings of a plan, as text.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use drivetrain::CompiledPlan;
use drivetrain::graph::{Drawing, dot, mermaid, svg};

fn drawing() -> Drawing {
    let plan = CompiledPlan::read(
        r#"
id: drawn
version: "1.0"
name: A "drawn" <plan>
steps:
  - {id: load, handler: http, fallback: cache}
  - {id: cache, handler: echo}
  - {id: check, handler: rules, name: Check & "count", when: "input.check", dependsOn: [load]}
  - {id: pay, handler: pay, dependsOn: [check], compensation: {handler: refund}}
  - {id: a-step-with-a-rather-long-name, handler: notify, completion: manual, dependsOn: [{step: pay, required: false}, load]}
"#,
    );
    Drawing::of(&plan.unwrap())
}

#[test]
fn a_plan_as_mermaid() {
    insta::assert_snapshot!(mermaid::render(&drawing()));
}

#[test]
fn a_plan_as_dot() {
    insta::assert_snapshot!(dot::render(&drawing()));
}

#[test]
fn a_plan_as_svg() {
    insta::assert_snapshot!(svg::render(&drawing()));
}

#[test]
fn every_step_of_a_large_plan_has_a_place_of_its_own() {
    let text = include_str!("../../examples/nightly-fanout.yaml");
    let picture = svg::render(&Drawing::of(&CompiledPlan::read(text).unwrap()));
    let places: std::collections::BTreeSet<&str> = picture
        .lines()
        .filter(|line| line.starts_with("<g>"))
        .filter_map(|line| line.split("<rect ").nth(1)?.split(" width").next())
        .collect();
    assert_eq!(places.len(), 101);
}
