//! A real Temporal: started, crashed, started again, kept, and gone with the process that started it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dev_servers::keep::{Keeper, ServerKind};
use dev_servers::temporal::{DevServer, SHARED_VARIABLE, shared_address};

/// A server whose starter is gone must have ended after this time.
const GONE_LIMIT: Duration = Duration::from_secs(20);

/// Runs Temporal's own command line against a server and returns what it writes.
fn ask(server: &DevServer, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(server.program());
    let output = command.args(arguments).args(["--address", &server.address()]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn listens(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

fn gone(address: &str) {
    let start = Instant::now();
    while listens(address) {
        assert!(start.elapsed() < GONE_LIMIT, "the server is still there after {GONE_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_crashed_server_starts_again_on_its_port_and_knows_its_workflows() {
    let mut server = DevServer::start().unwrap();
    let address = server.address();
    assert_eq!(ask(&server, &["operator", "cluster", "health"]).unwrap(), "SERVING");
    let start = ["workflow", "start", "--type", "t", "--task-queue", "q", "--workflow-id", "kept"];
    ask(&server, &start).unwrap();
    server.kill().unwrap();
    assert!(!listens(&address));
    server.kill().unwrap();
    server.start_again().unwrap();
    server.start_again().unwrap();
    assert_eq!(server.address(), address);
    let told = ask(&server, &["workflow", "describe", "--workflow-id", "kept"]).unwrap();
    assert!(told.contains("kept"), "{told}");
    server.stop().unwrap();
    assert!(!listens(&address), "{}", server.log_tail());
}

#[test]
fn two_servers_live_side_by_side_and_one_outlives_the_other() {
    let (first, second) = (DevServer::start().unwrap(), DevServer::start().unwrap());
    let address = first.address();
    assert_ne!(address, second.address());
    drop(first);
    assert!(!listens(&address));
    assert_eq!(ask(&second, &["operator", "cluster", "health"]).unwrap(), "SERVING");
}

#[test]
fn tests_of_a_process_share_one_server() {
    assert_eq!(shared_address().unwrap(), shared_address().unwrap());
}

#[test]
fn the_server_is_gone_after_its_starter_was_killed() {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_hold-temporal"))
        .env_remove(SHARED_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();
    assert!(listens(address));
    holder.kill().unwrap();
    holder.wait().unwrap();
    gone(address);
}

#[test]
fn a_server_named_in_the_environment_is_used_in_place_of_an_own_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_hold-temporal"))
        .env(SHARED_VARIABLE, "somewhere.test:7233")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"somewhere.test:7233\n");
}

#[test]
fn a_kept_server_is_found_again_and_taken_down() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = Keeper::in_folder(folder.path().to_owned());
    let first = keeper.up(ServerKind::Temporal);
    let second = keeper.up(ServerKind::Temporal);
    let status = keeper.status(ServerKind::Temporal);
    // Everything is done before anything is judged, so that a failure leaves no server behind.
    let down = keeper.down(ServerKind::Temporal).unwrap();
    let first = first.unwrap();
    assert_eq!(second.unwrap(), first);
    assert_eq!(status.unwrap().as_ref(), Some(&first));
    assert!(down && !first.directory.exists() && !listens(&first.address));
    assert_eq!(keeper.status(ServerKind::Temporal).unwrap(), None);
}
