//! The command line where nothing needs to be driven: help, plans, configuration, and what is said to bad input.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::process::{Command, Output};

fn drivetrain(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drivetrain"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DRIVETRAIN_") {
            command.env_remove(name);
        }
    }
    command.env("USER", "jane").env("COLUMNS", "100").current_dir(folder).args(arguments).output().unwrap()
}

/// Exit code, output and errors as one text.
fn told(folder: &Path, arguments: &[&str]) -> String {
    let output = drivetrain(folder, arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let place = folder.display().to_string();
    let all = format!(
        "exit code {}\n{}{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    );
    all.replace(&place, "FOLDER")
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Nothing was made in a folder besides these.
fn assert_only(folder: &Path, expected: &[&str]) {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn the_help_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "",
        "run",
        "plan",
        "plan check",
        "plan graph",
        "plan schema",
        "list",
        "status",
        "events",
        "pause",
        "resume",
        "cancel",
        "retry",
        "skip",
        "complete",
        "approve",
        "rerun",
        "copy",
        "link",
        "archive",
        "worker",
        "checkpoint",
        "checkpoint list",
        "checkpoint create",
        "checkpoint restore",
        "checkpoint prune",
        "conformance",
        "conformance compare",
        "conformance check-log",
        "doctor",
        "config",
        "config show",
        "completions",
    ] {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let name =
            if command.is_empty() { "help".to_owned() } else { format!("help {command}").replace(' ', "_") };
        insta::assert_snapshot!(name, told(folder.path(), &words));
    }
}

#[test]
fn every_example_plan_passes_its_check() {
    let plans = [
        "examples/hello.yaml",
        "examples/order-saga.yaml",
        "examples/approval.yaml",
        "examples/nightly-fanout.yaml",
        "examples/etl/plan.yaml",
        "examples/flaky-http/plan.yaml",
    ];
    let arguments: Vec<&str> =
        ["plan", "check", "--handlers", "none-besides-the-built-in"].into_iter().chain(plans).collect();
    insta::assert_snapshot!(told(repository(), &arguments));
}

#[test]
fn a_wrong_plan_is_told_with_every_problem_and_its_place_and_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "id: wrong\nversion: 1\nsteps:\n  - {id: a, handler: ecko}\n  - {id: b, handler: echo, dependsOn: [c], timeout: 3}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    insta::assert_snapshot!(told(folder.path(), &["run", "plan.yaml"]));
    assert_only(folder.path(), &["plan.yaml"]);
}

#[test]
fn an_unknown_handler_is_told_with_the_nearest_and_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "id: wrong\nversion: \"1\"\nsteps:\n  - {id: a, handler: ecko}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    insta::assert_snapshot!(told(folder.path(), &["run", "plan.yaml"]));
    assert_only(folder.path(), &["plan.yaml"]);
}

#[test]
fn what_is_said_to_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let hello = repository().join("examples/hello.yaml");
    let hello = hello.to_str().unwrap();
    let said: Vec<String> = [
        &["run", "nowhere.yaml"] as &[&str],
        &["run", "."],
        &["run", hello, "--input", "{bad"],
        &["run", hello, "--input", "@nowhere.json"],
        &["run", hello, "--input", "{\"name\": 3}"],
        &["--engine", "temporal", "run", hello],
        &["--engine", "embeded", "run", hello],
        &["--set", "stroe.url=x", "list"],
        &["--set", "tenant", "list"],
        &["--tenant", "a b", "list"],
        &["--store", "mysql://db/x", "run", hello],
        &["--config", "nowhere.toml", "list"],
        &["run", hello, "--allow-exec", "no-such-program"],
        &["list", "--status", "done"],
        &["list"],
        &["status", "last"],
        &["pause", "01900000-0000-7000-8000-000000000000"],
        &["rnu", hello],
    ]
    .iter()
    .map(|arguments| {
        let shown: Vec<&str> =
            arguments.iter().map(|word| if *word == hello { "hello.yaml" } else { word }).collect();
        format!("$ drivetrain {}\n{}", shown.join(" "), told(folder.path(), arguments))
    })
    .collect();
    insta::assert_snapshot!(said.join("\n"));
    assert_only(folder.path(), &[]);
}

#[test]
fn a_store_that_cannot_be_opened_is_told_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.db"), "not a database").unwrap();
    std::fs::create_dir(folder.path().join("folder.db")).unwrap();
    let said: Vec<String> = ["sqlite://text.db", "sqlite://folder.db", "sqlite://text.db/below.db"]
        .iter()
        .map(|url| told(folder.path(), &["--store", url, "list"]))
        .collect();
    insta::assert_snapshot!(said.join("\n"));
    assert_eq!(std::fs::read_to_string(folder.path().join("text.db")).unwrap(), "not a database");
    assert_only(folder.path(), &["folder.db", "text.db"]);
}

#[test]
fn passwords_are_in_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let url = "postgres://jane:hunter2@127.0.0.1:1/runs";
    for command in ["list", "doctor"] {
        let said = told(folder.path(), &["--store", url, "--set", "store.write_budget_ms=1", command]);
        assert!(said.contains("postgres://jane:***@127.0.0.1:1/runs") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn the_effective_configuration_says_where_each_value_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("drivetrain.toml"),
        "tenant = \"acme\"\n[temporal]\napi_key = \"hunter2\"\n",
    )
    .unwrap();
    insta::assert_snapshot!(told(folder.path(), &["--set", "signal_timeout_ms=5", "config", "show"]));
}

#[test]
fn the_doctor_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let said =
        told(folder.path(), &["--engine", "conductor", "--set", "exec.allow=sh,no-such-program", "doctor"]);
    for expected in
        ["exit code 1", "problem  engine", "warning  exec", "is not there yet", "1 problem, 1 warning"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_only(folder.path(), &[]);
}

#[test]
fn a_drawing_is_written_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let hello = repository().join("examples/hello.yaml");
    let hello = hello.to_str().unwrap();
    let said = told(folder.path(), &["plan", "graph", hello, "--format", "svg", "--output", "hello.svg"]);
    assert_eq!(said, "exit code 0\n");
    assert!(std::fs::read_to_string(folder.path().join("hello.svg")).unwrap().ends_with("</svg>\n"));
    let said = told(folder.path(), &["plan", "graph", hello, "--output", "nowhere/hello.svg"]);
    assert!(said.starts_with("exit code 1") && said.contains("nowhere/hello.svg"), "{said}");
    assert_only(folder.path(), &["hello.svg"]);
}

#[test]
fn the_schema_and_completions_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let schema = drivetrain(folder.path(), &["plan", "schema"]);
    assert_eq!(String::from_utf8(schema.stdout).unwrap(), engine_core::plan::schema::text());
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = drivetrain(folder.path(), &["completions", shell]);
        assert!(script.status.success() && script.stdout.len() > 1000, "{shell}");
    }
}
