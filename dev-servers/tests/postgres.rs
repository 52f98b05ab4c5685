//! A real Postgres: started, stopped, crashed, started again, and gone with the process that started it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dev_servers::postgres::{Cluster, SHARED_VARIABLE, shared_url};

/// A server whose starter is gone must have ended after this time, files and all.
const GONE_LIMIT: Duration = Duration::from_secs(20);

/// Runs a statement and returns what it answers.
fn query(programs: &Path, url: &str, statement: &str) -> Result<String, String> {
    let output = Command::new(programs.join("psql"))
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--command", statement, url])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn ask(cluster: &Cluster, statement: &str) -> String {
    query(cluster.programs(), &cluster.url(), statement).unwrap()
}

fn listens(url: &str) -> bool {
    let host_and_port = url.split(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).unwrap();
    TcpStream::connect(host_and_port).is_ok()
}

#[test]
fn a_fresh_cluster_answers_over_tcp_and_over_its_socket() {
    let cluster = Cluster::start().unwrap();
    for url in [cluster.url(), cluster.socket_url()] {
        let answer =
            query(cluster.programs(), &url, "SELECT current_user, current_setting('server_encoding')");
        assert_eq!(answer.unwrap(), "drivetrain|UTF8", "{url}");
    }
    let address = "SELECT inet_server_addr() IS NULL";
    assert_eq!(query(cluster.programs(), &cluster.socket_url(), address).unwrap(), "t");
    assert_eq!(query(cluster.programs(), &cluster.url(), address).unwrap(), "f");
}

#[test]
fn commits_are_synced_to_disk_as_in_production() {
    let cluster = Cluster::start().unwrap();
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(ask(&cluster, &format!("SHOW {setting}")), "on", "{setting}");
    }
    assert_eq!(ask(&cluster, "SHOW max_connections"), "100");
}

#[test]
fn a_stopped_cluster_refuses_connections_and_keeps_its_data_and_port() {
    let mut cluster = Cluster::start().unwrap();
    let url = cluster.url();
    ask(&cluster, "CREATE TABLE kept AS SELECT 42 AS number");
    cluster.stop().unwrap();
    assert!(!listens(&url));
    cluster.stop().unwrap();
    cluster.start_again().unwrap();
    assert_eq!(cluster.url(), url);
    assert_eq!(ask(&cluster, "SELECT number FROM kept"), "42");
    cluster.start_again().unwrap();
    assert_eq!(ask(&cluster, "SELECT number FROM kept"), "42");
}

#[test]
fn clients_that_keep_trying_while_the_server_is_away_do_not_take_its_port() {
    let mut cluster = Cluster::start().unwrap();
    let url = cluster.url();
    for _ in 0..3 {
        cluster.stop().unwrap();
        // As many attempts as the system has ports for clients: in its range, one would have met itself.
        let met = (0..30_000).filter(|_| listens(&url)).count();
        assert_eq!(met, 0, "somebody listens on the port of a stopped server");
        cluster.start_again().unwrap();
    }
    assert_eq!(ask(&cluster, "SELECT 1"), "1");
}

#[test]
fn a_crashed_cluster_recovers_what_was_committed() {
    let mut cluster = Cluster::start().unwrap();
    ask(&cluster, "CREATE TABLE kept AS SELECT 42 AS number");
    cluster.kill().unwrap();
    assert!(!listens(&cluster.url()));
    cluster.start_again().unwrap();
    assert_eq!(ask(&cluster, "SELECT number FROM kept"), "42");
    let log = cluster.log_tail();
    assert!(log.contains("not properly shut down"), "an orderly stop is no crash: {log}");
}

#[test]
fn a_server_that_ended_by_itself_can_be_started_again() {
    let mut cluster = Cluster::start().unwrap();
    let process_file = format!("{}/postmaster.pid", ask(&cluster, "SHOW data_directory"));
    let process_file = std::fs::read_to_string(process_file).unwrap();
    signal("KILL", process_file.lines().next().unwrap());
    gone("the server", || !listens(&cluster.url()));
    cluster.start_again().unwrap();
    assert_eq!(ask(&cluster, "SELECT 1"), "1");
}

#[test]
fn two_clusters_live_side_by_side_and_one_outlives_the_other() {
    let (first, second) = (Cluster::start().unwrap(), Cluster::start().unwrap());
    assert_ne!(first.url(), second.url());
    ask(&first, "CREATE TABLE only_here (number int)");
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'";
    assert_eq!((ask(&first, tables), ask(&second, tables)), ("1".to_owned(), "0".to_owned()));
    let (url, directory) = (first.url(), PathBuf::from(ask(&first, "SHOW data_directory")));
    drop(first);
    assert!(!listens(&url));
    assert!(!directory.parent().unwrap().exists(), "a dropped cluster leaves nothing behind");
    assert_eq!(ask(&second, "SELECT 1"), "1");
}

#[test]
fn somebody_on_the_port_of_a_stopped_cluster_is_named_as_the_reason() {
    let mut cluster = Cluster::start().unwrap();
    cluster.stop().unwrap();
    let port: u16 = cluster.url().rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    let _other = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let error = cluster.start_again().unwrap_err().to_string();
    assert!(error.contains(&format!("listens on its port {port}")), "{error}");
}

#[test]
fn tests_of_a_process_share_one_server() {
    assert_eq!(shared_url().unwrap(), shared_url().unwrap());
}

/// Another process that holds a shared server, and that server.
struct Holder {
    process: Child,
    url: String,
    directory: PathBuf,
}

impl Holder {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_hold-postgres"))
            .env_remove(SHARED_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        // Any psql does; this cluster has one.
        let cluster = Cluster::start().unwrap();
        let files = query(cluster.programs(), &url, "SHOW data_directory").unwrap();
        let directory = Path::new(&files).parent().unwrap().to_owned();
        Self { process, url, directory }
    }

    fn takes_everything_along(&self) {
        gone("the server", || !listens(&self.url));
        gone("its directory", || !self.directory.exists());
    }
}

#[test]
fn the_server_is_gone_after_its_starter_was_killed() {
    let mut holder = Holder::start();
    assert!(holder.directory.exists() && listens(&holder.url));
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    holder.takes_everything_along();
}

#[test]
fn the_shared_server_is_gone_after_its_process_ended_as_usual() {
    let mut holder = Holder::start();
    drop(holder.process.stdin.take());
    assert!(holder.process.wait().unwrap().success());
    holder.takes_everything_along();
}

#[test]
fn a_server_named_in_the_environment_is_used_in_place_of_an_own_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_hold-postgres"))
        .env(SHARED_VARIABLE, "postgres://somewhere.test/else")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"postgres://somewhere.test/else\n");
}

fn signal(name: &str, process: &str) {
    let script = r#"kill -s "$1" "$2""#;
    assert!(Command::new("sh").args(["-c", script, "sh", name, process]).status().unwrap().success());
}

fn gone(what: &str, is_gone: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_gone() {
        assert!(start.elapsed() < GONE_LIMIT, "{what} is still there after {GONE_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
