//! Which of two things a process did first: hand its writes to the disk, or acknowledge them. Only the system knows, and
//! `strace` asks it.

use std::process::Command;

use super::errand::Errand;
use super::process::{Process, this_program};

/// What a process was seen doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Something written is on the disk.
    Synced,
    /// It begins to write a line.
    Acknowledges,
}

/// Runs this program on an errand, to its end, and tells what it did, in order.
pub(crate) fn watch(errand: &Errand) -> Vec<Seen> {
    make_sure_of_strace();
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-e", "signal=none", "-o"]);
    command.arg(&file).arg(this_program());
    let lines = Process::start_under(&mut command, errand).finish();
    let trace = std::fs::read_to_string(&file).expect("a trace");
    let seen: Vec<Seen> = trace.lines().filter_map(read).collect();
    let acknowledged = seen.iter().filter(|seen| **seen == Seen::Acknowledges).count();
    assert_eq!(acknowledged, lines.len(), "the trace shows every line that was written");
    seen
}

/// What a line of the trace says, as `4711 fdatasync(9) = 0`. A call that another thread's interrupts stands in two
/// lines, `… <unfinished ...>` and `<... fdatasync resumed>) = 0`: a sync counts when it has returned, a line when it
/// begins.
fn read(line: &str) -> Option<Seen> {
    let (_, call) = line.split_once(' ')?;
    let call = call.trim_start();
    let sync = ["fsync(", "fdatasync(", "<... fsync resumed>", "<... fdatasync resumed>"];
    if sync.iter().any(|start| call.starts_with(start)) {
        return call.ends_with("= 0").then_some(Seen::Synced);
    }
    call.starts_with("write(1, ").then_some(Seen::Acknowledges)
}

/// Without `strace` nothing is known about the disk, and the trial fails.
fn make_sure_of_strace() {
    let works = || Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if works() {
        return;
    }
    let installed =
        Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "strace"]).output();
    assert!(works(), "strace is needed to see what reaches the disk: install it; apt-get said {installed:?}");
}
