//! Signals from another process than the one that drives the run.

use crate::plans::{FOREVER, SLOW};
use crate::process::{Place, on_each_store};

on_each_store! {
    people_approve_and_complete_from_another_terminal,
    one_terminal_is_enough,
    a_run_is_paused_and_resumed_from_another_process,
    a_run_is_cancelled_from_another_process,
    a_held_run_is_retried_and_skipped,
    a_run_whose_process_was_killed_goes_on_elsewhere,
    a_worker_does_what_others_leave_to_it,
    a_signal_that_nobody_may_decide_here_is_kept,
    what_others_left_behind_is_left_to_workers,
}

/// A step that fails and holds the run.
const HELD: &str = r#"
id: held
version: "1"
steps:
  - {id: broken, handler: fail, with: {class: permanent}, onFailure: pause}
  - {id: after, handler: echo, dependsOn: [broken], with: {done: true}}
"#;

fn people_approve_and_complete_from_another_terminal(place: &Place) {
    let mut run = place.start(&["run", "examples/approval.yaml", "--input", r#"{"customer": "ACME"}"#]);
    run.wait_for("queued");
    let id = run.run_id();
    place.run(&["--actor", "grace", "approve", &id]).ends(0).says("accepted");
    run.wait_for("waits for a person");
    place.run(&["complete", &id, "sign", "--output", r#"{"signedBy": "Grace"}"#]).ends(0).says("accepted");
    run.end().ends(0).says("\"signedBy\": \"Grace\"");
    place.run(&["approve", &id]).ends(9).says("RUN_TERMINAL");
}

fn one_terminal_is_enough(place: &Place) {
    let input = r#"{"customer": "ACME"}"#;
    let said = place.run(&["run", "examples/approval.yaml", "--no-wait", "--input", input]).ends(8);
    let id = said.run_id();
    said.says(&format!("drivetrain approve {id}"));
    place.run(&["approve", &id]).ends(8).says(&format!("drivetrain complete {id} sign"));
    place.run(&["complete", &id, "sing"]).ends(11).says("did you mean sign?");
    place.run(&["complete", &id, "sign"]).ends(0).says("COMPLETED");
}

fn a_run_is_paused_and_resumed_from_another_process(place: &Place) {
    let plan = place.write("slow.yaml", SLOW);
    let mut run = place.start(&["run", &plan]);
    run.wait_for("started (sleep)");
    let id = run.run_id();
    place.run(&["pause", &id, "--reason", "lunch"]).ends(0).says("PAUSED");
    run.wait_for("paused (signal): lunch");
    place.run(&["pause", &id]).ends(9).says("RUN_ALREADY_PAUSED");
    run.wait_for("nothing in flight any more");
    place.run(&["resume", &id]).ends(0).says("RUNNING");
    run.end().ends(0).says("2 succeeded");
}

fn a_run_is_cancelled_from_another_process(place: &Place) {
    let plan = place.write("forever.yaml", FOREVER);
    let mut run = place.start(&["run", &plan]);
    run.wait_for("started (sleep)");
    place.run(&["cancel", &run.run_id()]).ends(0).says("accepted");
    run.end().ends(6);
    place.run(&["list", "--status", "cancelled"]).ends(0).says("forever 1");
}

fn a_held_run_is_retried_and_skipped(place: &Place) {
    let plan = place.write("held.yaml", HELD);
    let said = place.run(&["run", &plan, "--no-wait"]).ends(8);
    let id = said.run_id();
    said.says(&format!("drivetrain retry {id} broken")).says(&format!("drivetrain skip {id} broken"));
    // The run stays paused: what is to be done again waits for RESUME.
    place.run(&["retry", &id, "broken"]).ends(7).says(&format!("drivetrain resume {id}"));
    place.run(&["resume", &id]).ends(8).says("holds the run");
    place.run(&["skip", &id, "broken"]).ends(7);
    place.run(&["resume", &id]).ends(0).says("COMPLETED");
}

fn a_run_whose_process_was_killed_goes_on_elsewhere(place: &Place) {
    let plan = place.write("slow.yaml", SLOW);
    let mut run = place.start(&["run", &plan]);
    run.wait_for("started (sleep)");
    let id = run.run_id();
    run.send("KILL");
    run.end().ends(-1);
    let mut worker = place.start(&["worker"]);
    worker.wait_for("serving");
    place.run(&["events", &id, "--follow"]).ends(0).says("RunCompleted");
    worker.send("INT");
    worker.end().ends(0);
}

fn a_worker_does_what_others_leave_to_it(place: &Place) {
    let mut worker = place.start(&["worker"]);
    worker.wait_for("serving");
    let said = place.run(&["run", "examples/hello.yaml", "--detach"]).ends(0);
    let id = said.out.trim().to_owned();
    place.run(&["events", &id, "--follow"]).ends(0).says("RunCompleted");
    worker.send("TERM");
    worker.end().ends(0).says("stopping");
}

fn a_signal_that_nobody_may_decide_here_is_kept(place: &Place) {
    let said =
        place.run(&["run", "examples/approval.yaml", "--no-wait", "--input", r#"{"customer": "x"}"#]).ends(8);
    let id = said.run_id();
    let timeout = "signal_timeout_ms=50";
    place
        .run(&["--set", timeout, "cancel", &id, "--detach"])
        .ends(10)
        .says("drivetrain --set signal_timeout_ms=50 worker");
    let mut worker = place.start(&["worker"]);
    worker.wait_for("serving");
    place.run(&["events", &id, "--follow"]).ends(0).says("RunCancelled");
}

fn what_others_left_behind_is_left_to_workers(place: &Place) {
    let left = place.run(&["run", "examples/hello.yaml", "--detach"]).ends(0).out.trim().to_owned();
    let untouched = || assert_eq!(place.run(&["events", &left, "--json"]).ends(0).out.lines().count(), 1);
    place.run(&["run", "examples/hello.yaml"]).ends(0);
    untouched();
    // Nor does a signal that this process decides bring more than its own run.
    let plan = place.write("held.yaml", HELD);
    let held = place.run(&["run", &plan, "--no-wait"]).ends(8).run_id();
    place.run(&["skip", &held, "broken"]).ends(7).says("this process drives the run");
    place.run(&["resume", &held]).ends(0).says("COMPLETED");
    place.run(&["rerun", &held]).ends(0);
    untouched();
    let mut worker = place.start(&["worker"]);
    worker.wait_for("serving");
    place.run(&["events", &left, "--follow"]).ends(0).says("RunCompleted");
    worker.send("INT");
    worker.end().ends(0);
}
