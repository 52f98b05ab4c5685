//! Ctrl-C.

use crate::plans::{FOREVER, SLOW};
use crate::process::{Place, on_each_store};

on_each_store! {
    ctrl_c_pauses_drains_and_says_how_to_go_on,
    ctrl_c_twice_cancels,
    ctrl_c_leaves_a_run_that_waits_for_a_person_as_it_is,
}

fn ctrl_c_pauses_drains_and_says_how_to_go_on(place: &Place) {
    let plan = place.write("slow.yaml", SLOW);
    let mut run = place.start(&["run", &plan]);
    run.wait_for("started (sleep)");
    let id = run.run_id();
    run.send("INT");
    let said =
        run.end().ends(7).says("first                 succeeded").says(&format!("drivetrain resume {id}"));
    assert!(!said.out.contains("second                started"), "{}", said.out);
    let said = place.run(&["resume", &id]).ends(0).says("COMPLETED");
    assert!(!said.out.contains("first  "), "nothing is done again: {}", said.out);
    place.run(&["resume", &id]).ends(9).says("RUN_TERMINAL");
}

fn ctrl_c_twice_cancels(place: &Place) {
    let plan = place.write("forever.yaml", FOREVER);
    let mut run = place.start(&["run", &plan]);
    run.wait_for("started (sleep)");
    run.send("INT");
    run.wait_for("paused (signal): Ctrl-C");
    run.send("INT");
    run.end().ends(6).says("CANCELLED");
}

fn ctrl_c_leaves_a_run_that_waits_for_a_person_as_it_is(place: &Place) {
    let mut run = place.start(&["run", "examples/approval.yaml", "--input", r#"{"customer": "ACME"}"#]);
    run.wait_for("queued");
    run.send("INT");
    let said = run.end().ends(8);
    let id = said.run_id();
    place.run(&["status", &id]).ends(0).says("PENDING").says("waiting for approval");
}
