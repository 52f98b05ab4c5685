//! Secrets: given to the handler, and kept out of everything that is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use engine_core::decider::Report;
use engine_core::event::step::StepError;
use engine_core::failure::FailureClass;
use engine_core::plan::FullSecretRef;
use engine_core::port::{Secret, SecretsProvider, SecretsRequest, StepContext};
use engine_core::{Code, Error, Result, TenantId};
use serde_json::{Value, json};
use worker::{DirectorySecrets, EnvironmentSecrets, Handlers, SecretsByProvider};

use crate::support::{World, error, tenant};

const PASSWORD: &str = "hunter2-and-more";

fn environment() -> Arc<dyn SecretsProvider> {
    Arc::new(EnvironmentSecrets::with_variables("T_", |name| {
        (name == "T_PASSWORD").then(|| PASSWORD.to_owned())
    }))
}

fn request(references: &[(&str, &str, &str)]) -> SecretsRequest {
    SecretsRequest {
        tenant_id: tenant(),
        environment_id: "test".into(),
        references: references
            .iter()
            .map(|(name, provider, key)| {
                let reference =
                    FullSecretRef { provider: (*provider).into(), key: (*key).into(), version: None };
                ((*name).to_owned(), reference)
            })
            .collect(),
    }
}

/// Says the secret in every way that it can.
fn leaky() -> Handlers {
    let mut handlers = Handlers::new();
    handlers
        .register_fn("leaky", |context: StepContext, how: String| async move {
            let secret = context.secret("password").unwrap().expose().to_owned();
            assert_eq!(secret, PASSWORD);
            context.observer.log(&format!("logging in with {secret}"));
            let seen = BTreeMap::from([("seen".to_owned(), json!([secret.clone()]))]);
            context.request_review(&format!("is {secret} right?"), seen);
            match how.as_str() {
                "error" => Err(StepError::classified(&secret, None, format!("denied for {secret}"))),
                "panic" => panic!("no {secret}"),
                _ => Ok(json!({"deep": [{"text": format!("<{secret}>")}]})),
            }
        })
        .unwrap();
    handlers
}

#[tokio::test]
async fn a_secret_is_in_nothing_that_leaves_the_call() {
    let world = World::memory();
    let worker = world.builder(leaky()).secrets(environment()).build().unwrap();
    for how in ["output", "error", "panic"] {
        let steps =
            json!([{"id": "a", "handler": "leaky", "with": how, "secrets": {"password": "env:PASSWORD"}}]);
        let run = world.start(steps, json!(null)).await;
        let report = world.execute(&worker, &run, "a").await;
        let text = format!("{report:?}");
        assert!(text.contains("***") && !text.contains(PASSWORD), "{how}: {text}");
    }
    let lines = world.heard.lines.lock().unwrap().clone();
    assert_eq!(lines, ["logging in with ***"; 3]);
    let reviews = world.heard.reviews.lock().unwrap().clone();
    assert_eq!(reviews[0].0, "is *** right?");
    assert_eq!(reviews[0].1["seen"], json!(["***"]));
}

#[derive(Debug)]
struct Away;

#[async_trait]
impl SecretsProvider for Away {
    async fn resolve(&self, _: SecretsRequest) -> Result<BTreeMap<String, Secret>> {
        Err(Error::new(Code::StoreUnavailable, "the vault is sealed"))
    }
}

#[tokio::test]
async fn without_its_secrets_a_handler_is_not_called() {
    let world = World::memory();
    let called = Arc::new(AtomicU32::new(0));
    let mut handlers = Handlers::new();
    let calls = called.clone();
    handlers
        .register_fn("count", move |_, _: Value| {
            calls.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
        .unwrap();
    let none = world.worker(handlers.clone());
    let with = |provider| world.builder(handlers.clone()).secrets(provider).build().unwrap();
    let steps = json!([{"id": "a", "handler": "count", "secrets": {"key": "env:MISSING"}}]);
    let run = world.start(steps, json!(null)).await;
    for (worker, code, class) in [
        (none, "SECRET_UNRESOLVED", FailureClass::Permanent),
        (with(environment()), "SECRET_UNRESOLVED", FailureClass::Permanent),
        (with(Arc::new(Away)), "STORE_UNAVAILABLE", FailureClass::Transient),
    ] {
        let error = error(world.execute(&worker, &run, "a").await);
        assert_eq!((error.code.as_str(), error.class), (code, class), "{}", error.message);
    }
    assert_eq!(called.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_environment_gives_only_what_has_its_prefix_and_to_whom_it_belongs() {
    let secrets = environment().resolve(request(&[("p", "env", "PASSWORD")])).await.unwrap();
    assert_eq!(secrets["p"].expose(), PASSWORD);
    for key in ["OTHER", "../PASSWORD", "PASS WORD"] {
        let error = environment().resolve(request(&[("p", "env", key)])).await.unwrap_err();
        assert_eq!(error.code(), Code::SecretUnresolved, "{key}");
    }
    let mut versioned = request(&[("p", "env", "PASSWORD")]);
    versioned.references.get_mut("p").unwrap().version = Some("2".into());
    assert!(environment().resolve(versioned).await.unwrap_err().message().contains("version 2"));
    let theirs = EnvironmentSecrets::with_variables("", |_| Some("x".into()))
        .only_for(TenantId::new("other").unwrap());
    let error = theirs.resolve(request(&[("p", "env", "PASSWORD")])).await.unwrap_err();
    assert!(error.message().contains("acme"), "{error}");
}

#[tokio::test]
async fn a_folder_gives_its_files_and_nothing_outside() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("secrets");
    std::fs::create_dir_all(root.join("stripe")).unwrap();
    std::fs::create_dir_all(root.join("acme/test")).unwrap();
    std::fs::write(folder.path().join("outside"), "no").unwrap();
    std::fs::write(root.join("stripe/key"), "sk-1\r\n").unwrap();
    std::fs::write(root.join("two"), "line\n\n").unwrap();
    std::fs::write(root.join("binary"), [0xff, 0xfe]).unwrap();
    std::fs::write(root.join("acme/test/own"), "mine").unwrap();
    // As Kubernetes does it: a link to a link to a folder.
    std::os::unix::fs::symlink("stripe", root.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/key", root.join("linked")).unwrap();
    std::os::unix::fs::symlink("../outside", root.join("escaping")).unwrap();

    let secrets = DirectorySecrets::new(&root);
    let wanted = request(&[("a", "file", "stripe/key"), ("b", "file", "linked"), ("c", "file", "two")]);
    let found = secrets.resolve(wanted).await.unwrap();
    assert_eq!((found["a"].expose(), found["b"].expose(), found["c"].expose()), ("sk-1", "sk-1", "line\n"));
    for key in
        ["missing", "../outside", "escaping", "/etc/passwd", "stripe", "binary", "", "a/../../outside", "."]
    {
        let error = secrets.resolve(request(&[("x", "file", key)])).await.unwrap_err();
        assert_eq!(error.code(), Code::SecretUnresolved, "{key:?}: {error}");
    }
    let own = DirectorySecrets::new(&root).per_tenant();
    let found = own.resolve(request(&[("own", "file", "own")])).await.unwrap();
    assert_eq!(found["own"].expose(), "mine");
    assert!(own.resolve(request(&[("x", "file", "stripe/key")])).await.is_err());
    let elsewhere = SecretsRequest { environment_id: "../../".into(), ..request(&[("x", "file", "own")]) };
    assert_eq!(own.resolve(elsewhere).await.unwrap_err().code(), Code::SecretUnresolved);
}

#[tokio::test]
async fn the_reference_chooses_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "from a file").unwrap();
    let both = SecretsByProvider::new()
        .with("env", environment())
        .with("file", Arc::new(DirectorySecrets::new(folder.path())));
    let found = both.resolve(request(&[("a", "env", "PASSWORD"), ("b", "file", "key")])).await.unwrap();
    assert_eq!((found["a"].expose(), found["b"].expose()), (PASSWORD, "from a file"));
    let error = both.resolve(request(&[("a", "vault", "x")])).await.unwrap_err();
    assert_eq!(error.code(), Code::SecretUnresolved);
    assert!(error.hint().unwrap().contains("env, file"), "{error}");
}

#[tokio::test]
async fn what_goes_into_the_log_has_no_secret_in_it() {
    let world = World::memory();
    let worker = world.builder(leaky()).secrets(environment()).build().unwrap();
    let steps =
        json!([{"id": "a", "handler": "leaky", "with": "x", "secrets": {"password": "env:PASSWORD"}}]);
    let run = world.start(steps, json!(null)).await;
    let report = world.complete(&worker, &run, "a").await;
    assert!(matches!(report, Report::Completed(_)));
    let log = serde_json::to_string(&world.log(&run).await).unwrap();
    assert!(log.contains("<***>") && !log.contains(PASSWORD));
}
