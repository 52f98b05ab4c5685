//! A server that runs: waiting until it is ready, and stopping it.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::data::Data;
use crate::process::{Signal, ended, poll, send};

/// A fresh database takes a second; a busy machine gets much longer.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A server that stops tells those who wait for an answer first.
const STOP_LIMIT: Duration = Duration::from_secs(60);

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
        Ok(self.process.try_wait().context("cannot look after temporal")?.is_none())
    }

    /// Waits until it takes connections, or ends.
    pub(crate) fn until_ready(&mut self, port: u16) -> Result<Readiness> {
        let ready = poll(READY_LIMIT, || {
            if let Some(status) = self.process.try_wait().context("cannot look after temporal")? {
                return Ok(Some(Readiness::Ended(status)));
            }
            Ok(self.data.is_ready(port).then_some(Readiness::Ready))
        })?;
        match ready {
            Some(ready) => Ok(ready),
            None => bail!(
                "temporal in {} was not ready after {READY_LIMIT:?}; {}",
                self.data.directory.display(),
                self.data.tail()
            ),
        }
    }

    /// Ends the server and waits for that.
    pub(crate) fn end(&mut self, how: End) -> Result<()> {
        if !self.runs()? {
            return Ok(());
        }
        match how {
            End::Orderly => send(Signal::Interrupt, self.process.id())?,
            End::AtOnce => self.process.kill().context("cannot kill temporal")?,
        }
        if ended(&mut self.process, STOP_LIMIT)?.is_none() {
            bail!(
                "temporal in {} still runs {STOP_LIMIT:?} after it was told to end; {}",
                self.data.directory.display(),
                self.data.tail()
            );
        }
        Ok(())
    }

    /// Leaves the process running.
    pub(crate) fn leave(self) {
        // Nothing is lost: a `Child` holds no more than the process id, and its other files are the log's.
        std::mem::forget(self);
    }
}

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It may finish what it has begun.
    Orderly,
    /// As a crash would end it.
    AtOnce,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
