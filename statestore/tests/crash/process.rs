//! This program again, in another process, on an [`Errand`](super::errand::Errand).

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::errand::Errand;
use super::patience::{LIMIT, until};

const SIGKILL: i32 = 9;

/// A process and the lines that it writes. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts this program on an errand.
    pub(crate) fn start(errand: &Errand) -> Self {
        Self::start_under(&mut Command::new(this_program()), errand)
    }

    /// Starts it as the last argument of another program.
    pub(crate) fn start_under(command: &mut Command, errand: &Errand) -> Self {
        command.args(errand.arguments()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in whole_lines(output) {
                // Whoever does not listen any more does not want to know.
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// The next line; `None` when the process has ended.
    pub(crate) fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("process {} wrote nothing for {LIMIT:?}", self.child.id())
            }
        }
    }

    /// Kills the process, if it still runs, and gives the lines that it wrote and nobody has read.
    pub(crate) fn kill(mut self) -> Vec<String> {
        // It fails when the process has ended meanwhile; how it ended is looked at below.
        let _ = self.child.kill();
        let status = self.child.wait().expect("it can be waited for");
        let killed = status.signal() == Some(SIGKILL);
        assert!(killed || status.success(), "the process failed by itself: {status}");
        self.rest()
    }

    /// Waits until the process has ended by itself, and gives the lines that nobody has read.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut status: Option<ExitStatus> = None;
        until("the end of a process", || {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        let status = status.expect("it has ended");
        assert!(status.success(), "the process failed: {status}");
        self.rest()
    }

    fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where this program is.
pub(crate) fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("the path of this program")
}

/// Lines with an end: what a killed process had not finished does not count.
fn whole_lines(output: impl Read) -> impl Iterator<Item = String> {
    let mut output = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = String::new();
        output.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    })
}
