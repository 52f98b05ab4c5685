//! Configuration: where values come from, what is refused and how, and the samples and tables that people copy.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};

use drivetrain::config::keys::{DefaultValue, KEYS};
use drivetrain::config::{Config, ConfigProblems, Sources};

fn load(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("drivetrain.toml"), file).unwrap();
    let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    Config::load(&Sources {
        file: None,
        folder: Some(folder.path().to_owned()),
        environment: environment.iter().map(owned).collect(),
        flags: flags
            .iter()
            .map(|(key, value)| (format!("--set {key}"), (*key).to_owned(), (*value).to_owned()))
            .collect(),
    })
}

/// The problems, without the folder of this test.
fn problems(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let told = load(file, environment, flags).unwrap_err();
    let name = |place: &str| place.rsplit('/').next().unwrap_or_default().to_owned();
    let lines = told
        .0
        .iter()
        .map(|problem| format!("{}: {} ({})", name(&problem.place), problem.message, problem.hint));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file_and_that_over_the_default() {
    let file = "tenant = \"file\"\nproject = \"file\"\nenvironment = \"file\"\n";
    let environment =
        [("DRIVETRAIN_TENANT", "variable"), ("DRIVETRAIN_PROJECT", "variable"), ("HOME", "/root")];
    let config = load(file, &environment, &[("tenant", "flag")]).unwrap();
    assert_eq!(config.tenant().unwrap().as_str(), "flag");
    assert_eq!(config.project(), "variable");
    assert_eq!(config.environment(), "file");
    assert_eq!(config.engine(), "embedded");
}

#[test]
fn the_default_store_lies_in_the_data_folder() {
    let config = load("data_dir = \"/var/lib/runs\"", &[], &[]).unwrap();
    assert_eq!(config.store_url(), "sqlite:///var/lib/runs/drivetrain.db");
    assert!(!config.store_options().outbox);
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place_and_the_right_key() {
    let file = "engin = \"embedded\"\n\n[store]\nurl = 7\ndurabilty = \"full\"\ndurability = \"maybe\"\n\n[exce]\nallow = []\n";
    insta::assert_snapshot!(problems(
        file,
        &[
            ("DRIVETRAIN_STORE_ULR", "x"),
            ("DRIVETRAIN_EMBEDDED_LEASE_MS", "soon"),
            ("DRIVETRAIN_SECRET_KEY", "x")
        ],
        &[("worker.claim", "3")],
    ));
}

#[test]
fn a_file_that_is_no_toml_is_told_with_line_and_column() {
    let told = problems("tenant = \"a\"\nproject = \n", &[], &[]);
    assert!(told.starts_with("drivetrain.toml:2:"), "{told}");
}

#[test]
fn a_named_file_must_be_there_and_another_need_not() {
    let missing = Sources { file: Some("no/such/file.toml".into()), ..Sources::default() };
    let told = Config::load(&missing).unwrap_err().to_string();
    assert!(told.contains("no/such/file.toml") && told.contains("--config"), "{told}");
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources { folder: Some(folder.path().to_owned()), ..Sources::default() };
    assert_eq!(Config::load(&sources).unwrap().file, None);
}

#[test]
fn secrets_are_hidden_wherever_the_configuration_is_shown() {
    let environment = [
        ("DRIVETRAIN_TEMPORAL_API_KEY", "hunter2"),
        ("DRIVETRAIN_CONDUCTOR_KEY_SECRET", "hunter2"),
        ("DRIVETRAIN_STORE_URL", "postgres://jane:hunter2@db/runs"),
    ];
    let config = load("", &environment, &[]).unwrap();
    let shown = format!("{:?} {}", config.shown(), config.shown_json());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("postgres://jane:***@db/runs") && shown.contains("(hidden)"), "{shown}");
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

#[test]
fn every_sample_has_only_keys_that_there_are() {
    let mut samples: Vec<PathBuf> =
        ["etl", "flaky-http"].iter().map(|folder| examples().join(folder).join("drivetrain.toml")).collect();
    let folder = std::fs::read_dir(examples().join("config")).unwrap();
    samples.extend(folder.map(|entry| entry.unwrap().path()));
    assert!(samples.len() >= 6);
    for sample in samples {
        let sources = Sources { file: Some(sample.clone()), ..Sources::default() };
        let config =
            Config::load(&sources).unwrap_or_else(|problems| panic!("{}: {problems}", sample.display()));
        assert!(drivetrain::engines::find(&config.engine()).is_ok(), "{}", sample.display());
    }
}

#[test]
fn the_sample_of_the_embedded_engine_says_the_defaults() {
    let sources = Sources { file: Some(examples().join("config/embedded.toml")), ..Sources::default() };
    let (said, default) = (Config::load(&sources).unwrap(), Config::defaults());
    for (said, default) in said.shown().iter().zip(default.shown()) {
        assert_eq!(said.value, default.value, "{}", said.path);
    }
}

#[test]
fn the_table_in_the_guide_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let mut table = "| key | variable | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in KEYS {
        let default = match key.default {
            DefaultValue::Absent => "none".to_owned(),
            DefaultValue::Derived(from) => from.to_owned(),
            fixed => fixed.value().map(|value| format!("`{}`", value.written())).unwrap_or_default(),
        };
        let secret = if key.secret { "; a secret" } else { "" };
        let row = format!("| `{}` | `{}` | {default} | {}{secret} |\n", key.path, key.variable(), key.about);
        table.push_str(&row);
    }
    check_generated(&path, "keys", &table);
}

#[test]
fn the_exit_codes_in_the_guide_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    check_generated(&path, "exit codes", &drivetrain::cli::exit::markdown());
}

/// Compares the part of a document between its markers, or writes it when asked.
fn check_generated(path: &Path, marker: &str, content: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let start = format!("<!-- generated: {marker} -->\n");
    let (before, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no marker {start:?}"));
    let (_, after) = rest.split_once("<!-- end generated -->").unwrap();
    let fresh = format!("{before}{start}\n{content}\n<!-- end generated -->{after}");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "{} is stale: run UPDATE_DOCS=1 cargo test -p drivetrain --test config",
        path.display()
    );
}
