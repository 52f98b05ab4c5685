//! A server that runs: waiting until it is ready, and stopping it.

use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::data::{Data, process_file};
use crate::port;
use crate::process::{Signal, ended, poll, send};

/// After a crash a server first replays its log; a busy machine needs its time for that.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A server that stops writes everything out first.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The line of the process file that says how far the server is.
const STATUS_LINE: usize = 8;

/// A server process of ours. Dropping it ends the process at once.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    data: Data,
}

/// What a starting server came to.
#[derive(Debug)]
pub(crate) enum Readiness {
    /// It takes connections.
    Ready,
    /// It ended.
    Ended(ExitStatus),
}

impl Server {
    /// Takes charge of a process.
    pub(crate) fn new(process: Child, data: Data) -> Self {
        Self { process, data }
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> Result<bool> {
        Ok(self.process.try_wait().context("cannot look after postgres")?.is_none())
    }

    /// Whether the server takes connections; one that neither does nor ended yet is waited for.
    pub(crate) fn serves(&mut self, port: u16) -> Result<bool> {
        let serves = poll(STOP_LIMIT, || {
            if !self.runs()? {
                return Ok(Some(false));
            }
            Ok(port::is_heard(port).then_some(true))
        })?;
        match serves {
            Some(serves) => Ok(serves),
            None => bail!(
                "postgres in {} runs and took no connections for {STOP_LIMIT:?}; {}",
                self.data.directory.display(),
                self.data.tail()
            ),
        }
    }

    /// Waits until the server takes connections or ended.
    pub(crate) fn until_ready(&mut self) -> Result<Readiness> {
        let (process, files) = (self.process.id(), self.data.files());
        let readiness = poll(READY_LIMIT, || {
            if let Some(status) = self.process.try_wait().context("cannot look after postgres")? {
                return Ok(Some(Readiness::Ended(status)));
            }
            Ok(is_ready(&files, process).then_some(Readiness::Ready))
        })?;
        match readiness {
            Some(readiness) => Ok(readiness),
            None => bail!(
                "postgres in {} was not ready after {READY_LIMIT:?}; {}",
                files.display(),
                self.data.tail()
            ),
        }
    }

    /// Ends the server and waits until it did.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<()> {
        if !self.runs()? {
            return Ok(());
        }
        send(signal, self.process.id())?;
        if ended(&mut self.process, STOP_LIMIT)?.is_none() {
            bail!(
                "postgres in {} still runs {STOP_LIMIT:?} after it was told to end; {}",
                self.data.directory.display(),
                self.data.tail()
            );
        }
        Ok(())
    }

    /// Lets the process outlive this one.
    pub(crate) fn leave(self) {
        // Nothing is lost: a `Child` holds no more than the process id, and its other files are the log's.
        std::mem::forget(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.end(Signal::Quit).is_err() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Whether the server that has this process id takes connections. The file of a server that crashed lies around
/// until the next one writes its own.
pub(crate) fn is_ready(files: &Path, process: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(process_file(files)) else {
        return false;
    };
    let mut lines = text.lines().map(str::trim);
    lines.next().is_some_and(|line| line == process.to_string())
        && lines.nth(STATUS_LINE - 2).is_some_and(|line| line == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_the_same_process_says_ready() {
        let folder = tempfile::tempdir().unwrap();
        let write = |status: &str| {
            let text = format!("4711\n/data\n1700000000\n15000\n/tmp\n127.0.0.1\n  1  2\n{status}\n");
            std::fs::write(process_file(folder.path()), text).unwrap();
        };
        assert!(!is_ready(folder.path(), 4711), "there is no file yet");
        write("starting");
        assert!(!is_ready(folder.path(), 4711));
        write("ready   ");
        assert!(is_ready(folder.path(), 4711));
        assert!(!is_ready(folder.path(), 4712));
    }
}
