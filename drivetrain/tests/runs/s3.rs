//! Large outputs in S3: the real program against a server in this process that speaks just enough of it, since no
//! real S3 can be had here.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use engine_core::hash::sha256_hex;

use crate::process::Place;

/// What was asked, as `PUT /bucket/key`, and what is kept.
#[derive(Default)]
struct Bucket {
    asked: Vec<String>,
    objects: BTreeMap<String, Vec<u8>>,
}

/// Keeps what is put and gives it back, to whoever signs with the right key.
struct Server {
    address: String,
    bucket: Arc<Mutex<Bucket>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let bucket = Arc::<Mutex<Bucket>>::default();
        let kept = Arc::clone(&bucket);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.unwrap(), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { address, bucket }
    }

    fn asked(&self, method: &str) -> usize {
        self.bucket.lock().unwrap().asked.iter().filter(|line| line.starts_with(method)).count()
    }
}

/// Answers requests until the other side has no more.
fn serve(stream: TcpStream, bucket: &Mutex<Bucket>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((method, path, headers)) = head(&mut reader) {
        let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let signed = header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=key-1/")
            && header("authorization").contains("/eu-test-1/s3/aws4_request")
            && header("x-amz-content-sha256") == sha256_hex(&body);
        let mut bucket = bucket.lock().unwrap();
        bucket.asked.push(format!("{method} {path}"));
        let (status, content) = match method.as_str() {
            _ if !signed => ("403 Forbidden", Vec::new()),
            "PUT" => {
                bucket.objects.insert(path, body);
                ("200 OK", Vec::new())
            }
            "GET" => match bucket.objects.get(&path) {
                Some(content) => ("200 OK", content.clone()),
                None => ("404 Not Found", Vec::new()),
            },
            _ => ("405 Method Not Allowed", Vec::new()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"1\"\r\n\
             Last-Modified: Wed, 11 Feb 2026 10:30:00 GMT\r\n\r\n",
            content.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
        stream.write_all(&content).unwrap();
    }
}

/// Method, path and headers of the next request, if there is one.
fn head(reader: &mut impl std::io::BufRead) -> Option<(String, String, BTreeMap<String, String>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.trim().to_owned()),
            None => return Some((method, path, headers)),
        };
    }
}

const PLAN: &str = r#"
id: large
version: "1"
steps:
  - {id: make, handler: echo, with: {text: "more than ten bytes"}}
  - {id: use, handler: echo, dependsOn: [make], with: {again: "${ steps.make.output.text }"}}
"#;

fn settings(server: &Server) -> Vec<String> {
    let pairs = [
        ("worker.inline_limit_bytes", "10"),
        ("artifacts.url", "s3://plans/below/here"),
        ("artifacts.endpoint", server.address.as_str()),
        ("artifacts.region", "eu-test-1"),
        ("artifacts.access_key_id", "key-1"),
    ];
    pairs.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect()
}

fn run(place: &Place, settings: &[String], more: &[&str]) -> crate::process::Said {
    let arguments: Vec<&str> = settings.iter().map(String::as_str).chain(more.iter().copied()).collect();
    place.run(&arguments)
}

#[test]
fn large_outputs_go_to_s3_and_come_back_for_the_next_step() {
    let (place, server) = (Place::new(), Server::start());
    let plan = place.write("large.yaml", PLAN);
    let mut settings = settings(&server);
    settings.extend(["--set".to_owned(), "artifacts.secret_access_key=hidden-1".to_owned()]);
    let said = run(&place, &settings, &["run", &plan]).ends(0).says("s3://plans/below/here/default/");
    assert!(server.asked("PUT /plans/below/here/default/") >= 2);
    assert!(server.asked("GET /plans/below/here/default/") >= 1, "the second step read what the first made");
    assert!(!said.out.contains("hidden-1") && !said.err.contains("hidden-1"));
    let kept = server.bucket.lock().unwrap().objects.values().cloned().collect::<Vec<_>>();
    assert!(kept.contains(&br#"{"again":"more than ten bytes"}"#.to_vec()), "{kept:?}");
    run(&place, &settings, &["config", "show"]).ends(0).says("(hidden)");
}

#[test]
fn a_store_that_does_not_take_the_key_is_told_by_the_step_that_needs_it() {
    let (place, server) = (Place::new(), Server::start());
    let plan = place.write("large.yaml", PLAN);
    let mut settings = settings(&server);
    settings.extend(["--set".to_owned(), "artifacts.secret_access_key=x".to_owned()]);
    let wrong = settings.iter().map(|word| word.replace("key-1", "key-2")).collect::<Vec<_>>();
    run(&place, &wrong, &["run", &plan]).ends(5).says("403");
}

#[test]
fn a_server_that_is_no_address_is_told_before_anything_is_stored() {
    let place = Place::new();
    let words = [
        "--set",
        "artifacts.url=s3://b/p",
        "--set",
        "artifacts.endpoint=minio",
        "run",
        "examples/hello.yaml",
    ];
    place.run(&words).ends(2).says("\"minio\" is no address").says("https://");
    assert!(!place.path("data").exists());
}
