//! The built-in handler `http`, against a real server.

use std::sync::{Arc, Mutex};

use engine_core::decider::Report;
use engine_core::failure::FailureClass;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use worker::builtin::{Builtins, HttpPolicy};
use worker::{EnvironmentSecrets, Handlers, Worker};

use crate::simple::run;
use crate::support::{World, error, value};

/// Answers each path in its own way, and remembers what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    closed: mpsc::UnboundedReceiver<()>,
}

impl Server {
    async fn start(elsewhere: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (closing, closed) = mpsc::unbounded_channel();
        let (log, elsewhere) = (asked.clone(), elsewhere.to_owned());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, elsewhere, closing) = (log.clone(), elsewhere.clone(), closing.clone());
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !is_whole(&request) {
                        let mut part = [0; 4096];
                        match stream.read(&mut part).await {
                            Ok(0) | Err(_) => return,
                            Ok(count) => request.extend_from_slice(&part[..count]),
                        }
                    }
                    let request = String::from_utf8(request).unwrap();
                    let path = request.split(' ').nth(1).unwrap().to_owned();
                    log.lock().unwrap().push(request);
                    if path == "/never" {
                        let mut rest = Vec::new();
                        let _ = stream.read_to_end(&mut rest).await;
                        let _ = closing.send(());
                        return;
                    }
                    let _ = stream.write_all(&answer(&path, &elsewhere)).await;
                });
            }
        });
        Self { address, asked, closed }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn is_whole(request: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(request) else { return false };
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(path: &str, elsewhere: &str) -> Vec<u8> {
    let (status, headers, body): (&str, String, Vec<u8>) = match path.split('?').next().unwrap() {
        "/json" => {
            let headers = "Content-Type: application/json; charset=utf-8\r\nSet-Cookie: session=1\r\nX-Two: a\r\nX-Two: b";
            ("200 OK", headers.to_owned(), br#"{"n": 1}"#.to_vec())
        }
        "/text" => ("200 OK", "Content-Type: text/plain".to_owned(), "grüße".into()),
        "/empty" => ("204 No Content", String::from("X: y"), Vec::new()),
        "/binary" => ("200 OK", "Content-Type: image/png".to_owned(), vec![0xff, 0xfe, 0x00]),
        "/broken" => ("200 OK", "Content-Type: application/json".to_owned(), b"{".to_vec()),
        "/large" => ("200 OK", "X: y".to_owned(), vec![b'x'; 5000]),
        "/here" => ("302 Found", "Location: /json".to_owned(), Vec::new()),
        "/there" => ("307 Temporary Redirect", format!("Location: {elsewhere}"), Vec::new()),
        "/round" => ("302 Found", "Location: /round".to_owned(), Vec::new()),
        status => {
            let status = status.trim_start_matches('/');
            return format!("HTTP/1.1 {status} Status\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwhy?")
                .into();
        }
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\n{headers}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend(body);
    answer
}

fn worker(world: &World, hosts: &[&str]) -> Worker {
    let policy = hosts.iter().fold(HttpPolicy::new(), |policy, host| policy.allow(format!("http://{host}")));
    let mut handlers = Handlers::new();
    let builtins = Builtins { http: policy.largest_answer(4000), ..Builtins::default() };
    worker::builtin::register(&mut handlers, builtins, world.time.clone()).unwrap();
    let secrets = EnvironmentSecrets::with_variables("", |_| Some("s3cret-token".to_owned()));
    world.builder(handlers).secrets(Arc::new(secrets)).build().unwrap()
}

#[tokio::test]
async fn a_request_is_sent_as_written_with_the_idempotency_key() {
    let world = World::memory();
    let server = Server::start("").await;
    let worker = worker(&world, &[&server.address]);
    let with = json!({
        "method": "post", "url": server.url("/json?a=1"), "query": {"b": "x y", "c": 2},
        "headers": {"X-Mine": "yes"}, "body": {"order": 7},
    });
    let output = value(run(&world, &worker, "http", with).await);
    assert_eq!(output["status"], 200);
    assert_eq!(output["body"], json!({"n": 1}));
    assert_eq!(output["headers"]["x-two"], "a, b");
    assert_eq!(output["headers"].get("set-cookie"), None);
    let asked = &server.asked()[0];
    assert!(asked.starts_with("POST /json?a=1&b=x+y&c=2 HTTP/1.1\r\n"), "{asked}");
    assert!(
        asked.contains("x-mine: yes\r\n") && asked.contains("content-type: application/json\r\n"),
        "{asked}"
    );
    assert!(asked.ends_with("\r\n\r\n{\"order\":7}"), "{asked}");
    let key = asked.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap();
    assert_eq!(key.len(), 64);
}

#[tokio::test]
async fn answers_are_outputs_or_failures_by_their_status() {
    let world = World::memory();
    let server = Server::start("").await;
    let worker = worker(&world, &[&server.address]);
    let ask = async |path: &str| run(&world, &worker, "http", json!({"url": server.url(path)})).await;
    assert_eq!(value(ask("/text").await)["body"], "grüße");
    assert_eq!(value(ask("/empty").await)["body"], Value::Null);
    for (path, code, class, status) in [
        ("/404", "NotFoundError", FailureClass::Permanent, Some(404)),
        ("/418", "HTTP_418", FailureClass::Permanent, Some(418)),
        ("/429", "TooManyRequests", FailureClass::Transient, Some(429)),
        ("/500", "HTTP_500", FailureClass::Transient, Some(500)),
        ("/503", "ServiceUnavailable", FailureClass::Transient, Some(503)),
        ("/304", "HTTP_304", FailureClass::Permanent, Some(304)),
        ("/binary", "ValidationError", FailureClass::Permanent, None),
        ("/broken", "InvalidAnswer", FailureClass::Transient, None),
        ("/large", "PAYLOAD_TOO_LARGE", FailureClass::Permanent, None),
        ("/round", "TOO_MANY_REDIRECTS", FailureClass::Permanent, None),
    ] {
        let error = error(ask(path).await);
        assert_eq!((error.code.as_str(), error.class, error.http_status), (code, class, status), "{path}");
    }
    let error = error(ask("/500?key=private").await);
    assert!(error.message.ends_with("/500 answered 500 Internal Server Error: why?"), "{}", error.message);
}

#[tokio::test]
async fn only_hosts_on_the_allow_list_are_called_also_by_redirect() {
    let world = World::memory();
    let other = Server::start("").await;
    let server = Server::start(&other.url("/json")).await;
    let worker = worker(&world, &[&server.address]);
    let ask = async |url: String| run(&world, &worker, "http", json!({"url": url})).await;
    assert_eq!(value(ask(server.url("/here")).await)["body"], json!({"n": 1}));
    for url in [other.url("/json"), server.url("/there"), server.url("/json").replace("http:", "https:")] {
        let error = error(ask(url.clone()).await);
        assert_eq!((error.code.as_str(), error.class), ("policy_deny", FailureClass::Permanent), "{url}");
    }
    for url in ["not a url".to_owned(), server.url("/json").replace("//", "//user:pass@")] {
        assert_eq!(error(ask(url).await).code, "ValidationError");
    }
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn secret_headers_reach_the_host_they_are_meant_for_and_no_other() {
    let world = World::memory();
    let other = Server::start("").await;
    let server = Server::start(&other.url("/json")).await;
    let worker = worker(&world, &[&server.address, &other.address]);
    let with = json!({
        "url": server.url("/there"), "headers": {"X-Plain": "goes along"},
        "secretHeaders": {"X-Api-Key": "{token}", "Authorization": "Bearer {token}!"},
    });
    let steps = json!([{"id": "a", "handler": "http", "with": with, "secrets": {"token": "env:T"}}]);
    let started = world.start(steps, json!(null)).await;
    let report = world.execute(&worker, &started, "a").await;
    assert!(!format!("{report:?}").contains("s3cret-token"));
    assert_eq!(value(report)["status"], 200);
    let asked = &server.asked()[0];
    assert!(asked.contains("x-api-key: s3cret-token\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer s3cret-token!\r\n"), "{asked}");
    let forwarded = &other.asked()[0];
    assert!(!forwarded.contains("s3cret") && forwarded.contains("x-plain: goes along"), "{forwarded}");

    let unknown = json!({"url": server.url("/json"), "secretHeaders": {"X": "{nobody}"}});
    let refused = error(run(&world, &worker, "http", unknown).await);
    assert!(refused.message.contains("nobody"), "{}", refused.message);
}

#[tokio::test]
async fn nobody_listening_is_a_transient_failure() {
    let world = World::memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let worker = worker(&world, &[&address]);
    let error = error(run(&world, &worker, "http", json!({"url": format!("http://{address}/")})).await);
    assert_eq!(
        (error.code.as_str(), error.class),
        ("ECONNREFUSED", FailureClass::Transient),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_dropped_closes_its_connection() {
    let world = World::memory();
    let mut server = Server::start("").await;
    let worker = worker(&world, &[&server.address]);
    let steps = json!([{"id": "a", "handler": "http", "with": {"url": server.url("/never")}}]);
    let started = world.start(steps, json!(null)).await;
    for cancelled in [true, false] {
        let ready = world.ready(&worker, &started, "a").await;
        let call = world.call();
        let token = call.cancellation.clone();
        let before = server.asked().len();
        let asked = server.asked.clone();
        let arrives = async {
            while asked.lock().unwrap().len() == before {
                tokio::task::yield_now().await;
            }
        };
        if cancelled {
            let (report, ()) = tokio::join!(worker.execute(ready, call), async {
                arrives.await;
                token.cancel();
            });
            assert_eq!(report, Report::Cancelled);
        } else {
            tokio::select! {
                report = worker.execute(ready, call) => panic!("it ended: {report:?}"),
                () = arrives => {}
            }
        }
        server.closed.recv().await.unwrap();
    }
}
