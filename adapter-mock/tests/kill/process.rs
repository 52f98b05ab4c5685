//! This program again, in another process, on an [`Errand`].

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::errand::Errand;
use super::patience::{LIMIT, until};

const SIGKILL: i32 = 9;

/// A process. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// What it tells: that it drives runs, then that it has started its own; `false` when it is gone.
    told: Receiver<bool>,
}

impl Process {
    /// Starts this program on an errand.
    pub(crate) fn start(errand: &Errand) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        // The end of its input asks it to stop; so it does not outlive this process either.
        let mut command = Command::new(program);
        command.args(errand.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut output = child.stdout.take().expect("it is piped");
        let (sender, told) = channel();
        std::thread::spawn(move || {
            let mut alive = true;
            while alive {
                alive = output.read_exact(&mut [0]).is_ok();
                // Whoever does not wait does not want to know.
                let _ = sender.send(alive);
            }
        });
        Self { child, told }
    }

    /// Waits until it drives runs.
    pub(crate) fn until_open(&self) {
        let opened = self.told.recv_timeout(LIMIT).expect("a process opens its engine");
        assert!(opened, "the process ended before it had opened its engine");
    }

    /// Waits until it has started all of its runs; it must be open.
    pub(crate) fn until_started(&self) {
        let started = self.told.recv_timeout(LIMIT).expect("a process starts its runs");
        assert!(started, "the process ended before it had started its runs");
    }

    /// Kills the process, which must have been alive.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        let status = self.child.wait().expect("it can be waited for");
        assert_eq!(status.signal(), Some(SIGKILL), "the process failed by itself: {status}");
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        drop(self.child.stdin.take());
        let mut status = None;
        until("the end of a process", || {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        let status = status.expect("it has ended");
        assert!(status.success(), "the process failed: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
