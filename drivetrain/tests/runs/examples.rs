//! Every example does what its first lines say.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::process::{Place, on_each_store};

on_each_store! {
    hello_greets_whom_it_is_told,
    events_as_json_are_the_whole_log,
    the_saga_ships_or_undoes_everything_in_reverse_order,
    the_fan_out_does_a_hundred_shards,
}

fn hello_greets_whom_it_is_told(place: &Place) {
    place.run(&["run", "examples/hello.yaml"]).ends(0).says("Hello, world! The answer is 42.");
    place.run(&["run", "examples/hello.yaml", "--input", r#"{"name": "Ada"}"#]).ends(0).says("Hello, Ada!");
}

fn events_as_json_are_the_whole_log(place: &Place) {
    let said = place.run(&["run", "examples/hello.yaml", "--json"]).ends(0);
    let types: Vec<String> = said
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["eventType"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(types.first().map(String::as_str), Some("RunQueued"));
    assert_eq!(types.last().map(String::as_str), Some("RunCompleted"));
    let log = place.run(&["events", "last", "--json"]).ends(0);
    assert_eq!(log.out, said.out);
    assert_eq!(place.run(&["events", "last", "--follow", "--json"]).ends(0).out, said.out);
}

fn the_saga_ships_or_undoes_everything_in_reverse_order(place: &Place) {
    let good = r#"{"order": "A-17", "address": "Main St 1"}"#;
    place.run(&["run", "examples/order-saga.yaml", "--input", good]).ends(0).says("shp-A-17");
    let bad = r#"{"order": "A-17", "address": "nowhere"}"#;
    let said =
        place.run(&["run", "examples/order-saga.yaml", "--input", bad]).ends(5).says("UNKNOWN_ADDRESS");
    let undone: Vec<&str> = said
        .out
        .lines()
        .filter(|line| line.ends_with("  undone"))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(undone, ["charge", "reserve"]);
}

#[test]
fn the_etl_loads_what_its_programs_extracted() {
    let place = Place::new();
    let target = place.path("report.json");
    let input = serde_json::json!({"target": target}).to_string();
    let config = "examples/etl/drivetrain.toml";
    place.run(&["--config", config, "run", "examples/etl/plan.yaml", "--input", &input]).ends(0);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(target).unwrap()).unwrap();
    assert_eq!(report["orders"], 4);
    assert_eq!(report["revenue"], 437.5);
    // Without its configuration no program may be started.
    place.run(&["run", "examples/etl/plan.yaml", "--input", &input]).ends(5);
}

fn the_fan_out_does_a_hundred_shards(place: &Place) {
    place.run(&["run", "examples/nightly-fanout.yaml"]).ends(0).says("\"shards\": 100");
}

/// The example server, stopped when it is not needed any more.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn example(name: &str) -> Command {
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_drivetrain")).parent().unwrap().join("examples");
    Command::new(programs.join(name))
}

#[test]
fn the_flaky_service_is_asked_again_and_the_one_that_is_down_is_replaced() {
    let place = Place::new();
    let mut server =
        Server(example("flaky-server").arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("listening on ");
    let input = serde_json::json!({"service": address}).to_string();
    let said = place
        .run(&["run", "examples/flaky-http/plan.yaml", "--input", &input, "--allow-http", address])
        .ends(0)
        .says("\"price\": 42")
        .says("\"rate\": 1.08");
    assert_eq!(said.out.matches("quote                 failed, again").count(), 2);
    place.run(&["status", "last"]).ends(0).says("yesterday stood in");
}

#[test]
fn typed_handlers_run_inside_a_program() {
    let output = example("typed-handlers").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"euros\":147"));
}
