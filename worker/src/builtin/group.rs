//! A program and everything that it started, ended together.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Child;

/// The process group of a program. Dropping it ends every process in it, however the call ended.
#[derive(Debug)]
pub(super) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
    /// Everything has ended; the number of the group may be another's by now.
    over: AtomicBool,
}

#[cfg(unix)]
impl Group {
    /// Makes the program the leader of a group of its own.
    pub(super) fn prepare(command: &mut std::process::Command) {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }

    pub(super) fn of(child: &Child) -> Self {
        let leader =
            child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { leader, over: AtomicBool::new(false) }
    }

    /// Asks every process to end.
    pub(super) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends every process.
    pub(super) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader.filter(|_| !self.over.load(Ordering::Acquire)) {
            // Nobody is left to be told: that is what was wanted.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    pub(super) fn prepare(_: &mut std::process::Command) {}

    pub(super) fn of(_: &Child) -> Self {
        Self { over: AtomicBool::new(false) }
    }

    /// There are no groups here: the program itself ends when its handle is dropped.
    pub(super) fn terminate(&self) {}

    pub(super) fn kill(&self) {}
}

impl Group {
    /// Ends what the program has left running, once the program itself has ended. Nothing is ended after that.
    pub(super) fn close(&self) {
        self.kill();
        self.over.store(true, Ordering::Release);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
