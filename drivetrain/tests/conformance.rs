//! `drivetrain conformance`: the suite on an engine, reports beside each other, and the log of a run.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use engine_core::event::step::StepStarted;
use engine_core::event::{Draft, Subject};
use engine_core::port::store::{AppendAs, AppendRequest, ListRequest};
use engine_core::{StepId, TenantId};
use serde_json::Value;

const PLAN: &str = "
id: pair
version: 1.0.0
approval: required
steps:
  - {id: a, handler: echo}
  - {id: b, handler: echo, dependsOn: [a]}
";

fn drivetrain(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drivetrain"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DRIVETRAIN_") {
            command.env_remove(name);
        }
    }
    command.env("USER", "jane").current_dir(folder).args(arguments).output().unwrap()
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_suite_runs_and_leaves_its_reports() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["conformance", "--case", "graph.*", "--case", "scenario.diamond", "--report", "report"];
    let (code, out, err) = said(&drivetrain(folder.path(), &arguments));
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("pass     graph."), "a line a case where nobody looks: {out}");
    assert!(out.contains("pass     scenario.diamond"), "{out}");
    assert!(out.contains("adapter-mock 0.1.0 conforms"), "{out}");
    for file in ["report.json", "report.schema.json", "report.md", "junit.xml", "badge.svg"] {
        assert!(folder.path().join("report").join(file).is_file(), "{file}");
    }
    assert!(!folder.path().join(".drivetrain").exists(), "the configured store is not touched");
    let text = std::fs::read_to_string(folder.path().join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["result"], "success");
    assert!(report["scenarios"][0]["trace"]["moments"].as_array().unwrap().len() > 5, "{report}");
}

#[test]
fn a_variant_is_named_in_the_report_and_what_it_leaves_out_too() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["conformance", "--case", "durability.*", "--variant", "worker-restart", "--json"];
    let (code, out, err) = said(&drivetrain(folder.path(), &arguments));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(code <= 1, "{err}");
    let excluded = report["excluded"].as_array().unwrap();
    assert!(excluded.iter().any(|case| case["case"] == "durability.a_lost_worker_is_no_failed_try"), "{out}");
    assert!(
        report["cases"].as_array().unwrap().iter().all(|case| case["variant"] == "worker-restart"),
        "{out}"
    );
}

#[test]
fn what_cannot_be_tested_is_told_with_what_can() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = said(&drivetrain(folder.path(), &["conformance", "--engine", "conductor"]));
    assert_eq!(code, 13, "{err}");
    assert!(err.contains("no harness") && err.contains("it can test: mock (embedded)"), "{err}");
    let (code, _, err) = said(&drivetrain(folder.path(), &["conformance", "--store", "oracle:"]));
    assert_eq!(code, 13, "{err}");
    assert!(err.contains("oracle:"), "{err}");
    let (code, out, _) = said(&drivetrain(folder.path(), &["conformance", "--case", "no.such"]));
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("nothing ran"), "{out}");
    let (code, _, err) = said(&drivetrain(folder.path(), &["conformance", "--profile", "cor"]));
    assert_eq!(code, 2, "{err}");
}

#[test]
fn reports_are_compared_and_the_first_divergence_of_a_trace_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["conformance", "--case", "graph.*", "--case", "scenario.diamond", "--report", "a"];
    assert_eq!(said(&drivetrain(folder.path(), &arguments)).0, 0);
    let same = drivetrain(folder.path(), &["conformance", "compare", "a", "a/report.json"]);
    let (code, out, err) = said(&same);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("1 trace: 1 the same, 0 part"), "{out}");
    let text = std::fs::read_to_string(folder.path().join("a/report.json")).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    report["implementation"]["engine"] = "other".into();
    report["cases"][0]["verdict"] = "fail".into();
    report["cases"][0]["what"] = "it is wrong".into();
    let moments = report["scenarios"][0]["trace"]["moments"].as_array_mut().unwrap();
    let last = moments.len() - 1;
    moments[last]["event"] = "RunFailed".into();
    std::fs::write(folder.path().join("b.json"), report.to_string()).unwrap();
    let (code, out, err) = said(&drivetrain(folder.path(), &["conformance", "compare", "a", "b.json", "a"]));
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("1 worse, 0 better") && out.contains("pass -> fail: it is wrong"), "{out}");
    let marked: Vec<&str> = out.lines().filter(|line| line.contains("first divergence")).collect();
    assert_eq!(marked.len(), 1, "{out}");
    assert!(marked[0].contains("RunCompleted") && marked[0].contains("RunFailed"), "{out}");
    let (code, _, err) = said(&drivetrain(folder.path(), &["conformance", "compare", "a", "c.json"]));
    assert_eq!(code, 2);
    assert!(err.contains("c.json cannot be read"), "{err}");
}

#[test]
fn the_log_of_a_run_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), PLAN).unwrap();
    let store = format!("sqlite://{}/runs.db", folder.path().display());
    let (code, out, err) =
        said(&drivetrain(folder.path(), &["--store", &store, "run", "plan.yaml", "--detach"]));
    assert_eq!(code, 0, "{out}{err}");
    let judge = || said(&drivetrain(folder.path(), &["--store", &store, "conformance", "check-log", "last"]));
    let (code, out, err) = judge();
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("nothing is wrong"), "{out}");
    tokio::runtime::Runtime::new().unwrap().block_on(start_too_early(&store));
    let (code, out, err) = judge();
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("StepStarted a#1 at 2 before RunStarted (GRAPH-12)"), "{out}");
    assert!(out.contains("violations found"), "{out}");
}

/// What no driver would write: a step begins before its run does.
async fn start_too_early(url: &str) {
    let store =
        statestore::open(url, statestore::Options { outbox: false, ..Default::default() }).await.unwrap();
    let tenant_id = TenantId::new("default").unwrap();
    let request = ListRequest {
        tenant_id: tenant_id.clone(),
        statuses: Vec::new(),
        plan_id: None,
        from: None,
        until: None,
        after: None,
        limit: 1,
    };
    let run = store.list(request).await.unwrap().runs.remove(0);
    let started = StepStarted {
        handler: "echo".parse().unwrap(),
        agent: None,
        worker: "nobody".to_owned(),
        claim_until: None,
        idempotency_token: None,
    };
    let draft = Draft {
        subject: Some(Subject::new(StepId::new("a").unwrap(), 1)),
        occurred_at: None,
        body: started.into(),
    };
    let request = AppendRequest {
        tenant_id,
        run_id: run.run_id,
        drafts: vec![draft],
        emitted_by: Arc::from("test"),
        append_as: AppendAs::Worker,
        fence: None,
    };
    store.append(request).await.unwrap();
}
