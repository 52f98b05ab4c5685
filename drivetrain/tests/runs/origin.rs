//! Reruns, copies and checkpoints.

use crate::process::Place;

/// Fails for good unless it is told otherwise.
const PLAN: &str = r#"
id: twice
version: "1"
steps:
  - {id: load, handler: echo, with: {rows: 3}}
  - {id: check, handler: fail, dependsOn: [load], when: "input.bad", with: {class: permanent}}
  - {id: store, handler: echo, dependsOn: [check], with: {rows: "${ steps.load.output.rows }"}}
"#;

fn failed(place: &Place) -> String {
    let plan = place.write("twice.yaml", PLAN);
    place.run(&["run", &plan, "--input", r#"{"bad": true}"#]).ends(5).run_id()
}

#[test]
fn a_rerun_takes_over_what_ended_well() {
    let place = Place::new();
    let id = failed(&place);
    place.run(&["rerun", &id]).ends(5).says(&format!("rerun of {id}"));
    place.run(&["status", "last"]).ends(0).says("taken over");
    place.run(&["rerun", &id, "--from", "start", "--input", r#"{"bad": false}"#]).ends(0).says("\"rows\": 3");
    place.run(&["rerun", &id, "--input", "{}"]).ends(9).says("ORIGIN_INVALID");
}

#[test]
fn a_rerun_with_a_changed_step_is_refused() {
    let place = Place::new();
    let id = failed(&place);
    let changed = place.write("changed.yaml", &PLAN.replace("rows: 3", "rows: 4"));
    place.run(&["rerun", &id, "--plan", &changed]).ends(9).says("PLAN_CHANGED");
}

#[test]
fn a_copy_runs_from_the_start_or_one_step_with_what_it_needs() {
    let place = Place::new();
    let id = failed(&place);
    place.run(&["copy", &id, "--input", r#"{"bad": false}"#]).ends(0).says("2 succeeded, 1 skipped");
    place.run(&["copy", &id, "--step", "load"]).ends(5).says("2 steps");
    place.run(&["copy", &id, "--step", "laod"]).ends(11).says("did you mean load?");
}

#[test]
fn a_checkpoint_is_made_listed_restored_and_pruned() {
    let place = Place::new();
    let id = failed(&place);
    place.run(&["checkpoint", "list", &id]).ends(0).says("no checkpoints");
    place.run(&["checkpoint", "restore", &id]).ends(11).says("checkpoint create");
    place.run(&["checkpoint", "create", &id, "one"]).ends(0);
    place.run(&["checkpoint", "create", &id]).ends(0);
    place.run(&["checkpoint", "list", &id]).ends(0).says("one");
    place.run(&["checkpoint", "restore", &id, "one"]).ends(5).says("from checkpoint one");
    place.run(&["status", "last"]).ends(0).says("taken over");
    place.run(&["checkpoint", "restore", &id, "two"]).ends(11).says("NOT_FOUND");
    place.run(&["checkpoint", "prune", &id, "--keep", "1"]).ends(0).says("1 checkpoint deleted").says("one");
}
