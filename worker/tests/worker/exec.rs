//! The built-in handler `exec`, with real programs.

use std::path::Path;

use engine_core::decider::Report;
use engine_core::failure::FailureClass;
use serde_json::{Value, json};
use worker::builtin::{Builtins, ExecPolicy, Program};
use worker::{EnvironmentSecrets, Handlers, Worker};

use crate::simple::{builtins, run};
use crate::support::{World, error, value};

fn policy() -> ExecPolicy {
    let shell = Program::at("/bin/sh")
        .with_variable("CONFIGURED", "yes")
        .accepting_variable("GIVEN")
        .with_exit_code(3, FailureClass::Permanent);
    ExecPolicy::new().allow("shell", shell).allow("missing", Program::at("/nowhere/at/all"))
}

fn worker(world: &World) -> Worker {
    builtins(world, Builtins { exec: policy(), ..Builtins::default() })
}

fn script(text: &str) -> Value {
    json!({"program": "shell", "args": ["-c", text]})
}

#[tokio::test]
async fn a_program_gets_json_and_gives_json() {
    let world = World::memory();
    let worker = worker(&world);
    let mut with = script("cat");
    with["input"] = json!({"text": "ä\n", "n": [1, null]});
    assert_eq!(value(run(&world, &worker, "exec", with).await), json!({"text": "ä\n", "n": [1, null]}));
    assert_eq!(value(run(&world, &worker, "exec", script("echo hello >&2")).await), Value::Null);
    assert_eq!(*world.heard.lines.lock().unwrap(), ["hello"]);
    // It need not read what it is given, and nothing is given unless the step says so.
    let mut with = script("echo 5");
    with["input"] = json!("x".repeat(1_000_000));
    assert_eq!(value(run(&world, &worker, "exec", with).await), json!(5));
    assert_eq!(value(run(&world, &worker, "exec", script("wc -c")).await), json!(0));
}

#[tokio::test]
async fn a_program_sees_only_the_environment_that_it_is_given() {
    let world = World::memory();
    let worker = worker(&world);
    let names = r#"printf '['; env | sort | while IFS='=' read -r name rest; do printf '"%s",' "$name"; done; printf 'null]'"#;
    let mut with = script(names);
    with["env"] = json!({"GIVEN": "1"});
    let names = value(run(&world, &worker, "exec", with).await);
    let names: Vec<&str> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let ours: Vec<&str> =
        names.into_iter().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    let expected = [
        "CONFIGURED",
        "DRIVETRAIN_ATTEMPT",
        "DRIVETRAIN_IDEMPOTENCY_TOKEN",
        "DRIVETRAIN_RUN_ID",
        "DRIVETRAIN_STEP_ID",
        "GIVEN",
        "PATH",
    ];
    assert_eq!(ours, expected);
    let mut with = script("true");
    with["env"] = json!({"LD_PRELOAD": "/tmp/evil.so"});
    let refused = error(run(&world, &worker, "exec", with).await);
    assert_eq!(refused.class, FailureClass::Permanent);
    assert!(refused.message.contains("LD_PRELOAD"), "{}", refused.message);
}

#[tokio::test]
async fn exit_codes_have_classes() {
    let world = World::memory();
    let worker = worker(&world);
    for (text, code, class) in [
        ("exit 1", "EXIT_1", FailureClass::Transient),
        ("exit 3", "EXIT_3", FailureClass::Permanent),
        ("exit 64", "EXIT_64", FailureClass::Permanent),
        ("exit 75", "EXIT_75", FailureClass::Transient),
        ("exit 78", "EXIT_78", FailureClass::Permanent),
        ("exit 79", "EXIT_79", FailureClass::Transient),
        ("kill -9 $$", "SIGNALLED", FailureClass::Transient),
        (
            r#"echo '{"code": "OutOfStock", "class": "permanent", "message": "none left"}'; exit 1"#,
            "OutOfStock",
            FailureClass::Permanent,
        ),
        ("echo this is not JSON", "ValidationError", FailureClass::Permanent),
    ] {
        let error = error(run(&world, &worker, "exec", script(text)).await);
        assert_eq!((error.code.as_str(), error.class), (code, class), "{text}: {}", error.message);
    }
    let told =
        error(run(&world, &worker, "exec", script("echo first >&2; echo the reason >&2; exit 9")).await);
    assert_eq!(told.message, "program shell ended with exit code 9: the reason");
    let shown = error(run(&world, &worker, "exec", script("echo this is not JSON")).await);
    assert!(shown.message.contains("this is not JSON"), "{}", shown.message);
}

#[tokio::test]
async fn only_programs_on_the_allow_list_run() {
    let world = World::memory();
    let worker = worker(&world);
    for program in ["sh", "/bin/cat", "../bin/sh", "./shell", ""] {
        let error = error(run(&world, &worker, "exec", json!({"program": program})).await);
        assert_eq!(
            (error.code.as_str(), error.class),
            ("policy_deny", FailureClass::Permanent),
            "{program:?}"
        );
    }
    let by_path = json!({"program": "/bin/sh", "args": ["-c", "echo 1"]});
    assert_eq!(value(run(&world, &worker, "exec", by_path).await), json!(1));
    let missing = error(run(&world, &worker, "exec", json!({"program": "missing"})).await);
    assert_eq!((missing.code.as_str(), missing.class), ("EXEC_NOT_STARTED", FailureClass::Permanent));
    let relative = ExecPolicy::new().allow("x", Program::at("bin/x"));
    assert!(worker::builtin::exec::Exec::new(relative).is_err());
}

#[tokio::test]
async fn too_much_output_ends_the_program() {
    let world = World::memory();
    let worker = worker(&world);
    let error = error(run(&world, &worker, "exec", script("cat /dev/zero")).await);
    assert_eq!((error.code.as_str(), error.class), ("PAYLOAD_TOO_LARGE", FailureClass::Permanent));
}

#[tokio::test]
async fn secrets_reach_a_program_and_nobody_else() {
    let world = World::memory();
    let mut handlers = Handlers::new();
    let allowed = Builtins { exec: policy(), ..Builtins::default() };
    worker::builtin::register(&mut handlers, allowed, world.time.clone()).unwrap();
    let secrets = EnvironmentSecrets::with_variables("", |_| Some("s3cret-value".to_owned()));
    let worker = world.builder(handlers).secrets(std::sync::Arc::new(secrets)).build().unwrap();
    let text = r#"echo "using $GIVEN" >&2; printf '{"given": "%s", "length": %s}' "$GIVEN" "$${#GIVEN}""#;
    let with = json!({"program": "shell", "args": ["-c", text], "secretEnv": {"GIVEN": "key"}});
    let steps = json!([{"id": "a", "handler": "exec", "with": with, "secrets": {"key": "env:KEY"}}]);
    let run = world.start(steps, json!(null)).await;
    let output = value(world.execute(&worker, &run, "a").await);
    assert_eq!(output, json!({"given": "***", "length": 12}));
    assert_eq!(*world.heard.lines.lock().unwrap(), ["using ***"]);
}

/// Waits for a program's sign of life: a file that appears.
async fn appears(file: &Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Waits until a process is gone.
async fn disappears(process: &str) {
    let alive = || match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        // A zombie has ended; somebody else has to collect it.
        Ok(stat) => !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'),
        Err(_) => false,
    };
    while alive() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_the_program_and_its_children() {
    let world = World::memory();
    let worker = worker(&world);
    let folder = tempfile::tempdir().unwrap();
    let sign = folder.path().join("sign");
    let with = script(&format!("sleep 600 & echo $! > {}; wait", sign.display()));
    let steps = json!([{"id": "a", "handler": "exec", "with": with}]);
    let run = world.start(steps, json!(null)).await;
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    let child = tokio::select! {
        report = worker.execute(ready, call) => panic!("it ended: {report:?}"),
        child = appears(&sign) => child,
    };
    disappears(&child).await;
}

#[tokio::test]
async fn a_program_that_leaves_somebody_behind_does_not_hold_the_step() {
    let world = World::memory();
    let worker = worker(&world);
    let report = run(&world, &worker, "exec", script("sleep 600 & echo $!")).await;
    disappears(&value(report).to_string()).await;
}

#[tokio::test]
async fn a_program_is_asked_to_end_when_the_step_is_cancelled() {
    let world = World::memory();
    let worker = worker(&world);
    let folder = tempfile::tempdir().unwrap();
    let (sign, farewell) = (folder.path().join("sign"), folder.path().join("farewell"));
    let text = format!(
        "trap 'echo bye > {}; exit 0' TERM; echo up > {}; while :; do sleep 0.01; done",
        farewell.display(),
        sign.display()
    );
    let steps = json!([{"id": "a", "handler": "exec", "with": script(&text)}]);
    let run = world.start(steps, json!(null)).await;
    let ready = world.ready(&worker, &run, "a").await;
    let call = world.call();
    let token = call.cancellation.clone();
    let (report, ()) = tokio::join!(worker.execute(ready, call), async {
        appears(&sign).await;
        token.cancel();
    });
    assert_eq!(report, Report::Cancelled);
    assert_eq!(appears(&farewell).await, "bye");
}
