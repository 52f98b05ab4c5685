//! Reruns, copies and checkpoints.

use crate::process::{Place, on_each_store};

on_each_store! {
    a_rerun_takes_over_what_ended_well,
    a_rerun_with_a_changed_step_is_refused,
    a_copy_runs_from_the_start_or_one_step_with_what_it_needs,
    a_link_and_an_archive_have_what_a_completed_run_left,
    a_checkpoint_is_made_listed_restored_and_pruned,
}

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

fn a_rerun_takes_over_what_ended_well(place: &Place) {
    let id = failed(place);
    place.run(&["rerun", &id]).ends(5).says(&format!("rerun of {id}"));
    place.run(&["status", "last"]).ends(0).says("taken over");
    place.run(&["rerun", &id, "--from", "start", "--input", r#"{"bad": false}"#]).ends(0).says("\"rows\": 3");
    place.run(&["rerun", &id, "--input", "{}"]).ends(9).says("ORIGIN_INVALID");
}

fn a_rerun_with_a_changed_step_is_refused(place: &Place) {
    let id = failed(place);
    let changed = place.write("changed.yaml", &PLAN.replace("rows: 3", "rows: 4"));
    place.run(&["rerun", &id, "--plan", &changed]).ends(9).says("PLAN_CHANGED");
}

fn a_copy_runs_from_the_start_or_one_step_with_what_it_needs(place: &Place) {
    let id = failed(place);
    place.run(&["copy", &id, "--input", r#"{"bad": false}"#]).ends(0).says("2 succeeded, 1 skipped");
    place.run(&["copy", &id, "--step", "load"]).ends(5).says("2 steps");
    place.run(&["copy", &id, "--step", "laod"]).ends(11).says("did you mean load?");
}

fn a_checkpoint_is_made_listed_restored_and_pruned(place: &Place) {
    let id = failed(place);
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

/// The last step tells what the first left, so a run that took the first over shows whether it has its output.
const TOLD: &str = r#"
id: told
version: "1"
result: "{told: steps.load.output.rows}"
steps:
  - {id: load, handler: echo, with: {rows: 3}}
  - {id: sign, handler: echo, dependsOn: [load], completion: manual}
"#;

fn a_link_and_an_archive_have_what_a_completed_run_left(place: &Place) {
    let failed = failed(place);
    for kind in ["link", "archive"] {
        place.run(&[kind, &failed]).ends(9).says("ORIGIN_INVALID").says("COMPLETED");
    }
    let plan = place.write("told.yaml", TOLD);
    let id = place.run(&["run", &plan, "--no-wait"]).ends(8).run_id();
    place.run(&["complete", &id, "sign", "--output", "{}"]).ends(0).says("\"told\": 3");
    let events = |id: &str| place.run(&["events", id, "--json"]).ends(0).out;
    let mut source = id.clone();
    for kind in ["link", "archive", "link", "archive"] {
        let made = place.run(&[kind, &source]).ends(0).says("\"told\": 3").run_id();
        assert_ne!(made, source);
        place.run(&["status", &made]).ends(0).says("2 succeeded").says("taken over");
        assert!(!events(&made).contains("StepStarted"), "nothing is done again");
        assert_eq!(events(&made).contains("\"rows\":3"), kind == "archive", "only an archive has copies");
        // The next is made from this one: what it left lies further back.
        source = made;
    }
    let large =
        place.run(&["--set", "worker.inline_limit_bytes=2", "run", &plan, "--no-wait"]).ends(8).run_id();
    place.run(&["complete", &large, "sign"]).ends(0);
    place.run(&["archive", &large]).ends(9).says("artifact store").says("make a link");
    place.run(&["link", &large]).ends(0).says("\"told\": 3");
}
