//! A throwaway server.

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::data::{Data, Start};
use super::programs;
use super::server::{End, Server};
use crate::account::Account;
use crate::place;
use crate::watchdog::Watchdog;

/// A Temporal server of its own on a database file in a temporary directory, for tests that stop, crash and start it
/// again.
///
/// It ends with this value, or else with this process, whatever ends the process. Its port stays the same all its life.
/// Installs Temporal's command line into the cache folder when there is none on the path.
// The fields are dropped in this order: the server before its watchdog, which removes the directory.
#[derive(Debug)]
pub struct DevServer {
    server: Option<Server>,
    watchdog: Watchdog,
    port: u16,
    data: Data,
    _directory: TempDir,
}

impl DevServer {
    /// Starts a server with an empty database, which takes connections when this returns.
    ///
    /// # Errors
    ///
    /// When Temporal's command line cannot be found or installed, with what to install; when it does not start, with the
    /// end of its log.
    pub fn start() -> Result<Self> {
        let program = programs::locate()?;
        let directory =
            place::fresh_directory(&Account::Caller, "drivetrain-temporal-", &place::for_a_while())?;
        let mut watchdog = Watchdog::over(directory.path())?;
        let data = Data { program, directory: directory.path().to_owned(), web: false };
        let (server, port) = data.start_anywhere(None, &mut |process, _| watchdog.guard(process))?;
        Ok(Self { server: Some(server), watchdog, port, data, _directory: directory })
    }

    /// Where it takes connections, as `127.0.0.1:17233`.
    #[must_use]
    pub fn address(&self) -> String {
        super::address(self.port)
    }

    /// Temporal's command line, for operators' commands.
    #[must_use]
    pub fn program(&self) -> &std::path::Path {
        &self.data.program
    }

    /// What the server wrote to its log last.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.data.tail()
    }

    /// Stops the server in an orderly way and returns when it ended. Does nothing when it is stopped already.
    ///
    /// # Errors
    ///
    /// When it does not stop within a minute.
    pub fn stop(&mut self) -> Result<()> {
        self.end(End::Orderly)
    }

    /// Ends the server as a crash would: at once, with what is in its database file. Does nothing when it is stopped
    /// already.
    ///
    /// # Errors
    ///
    /// When it does not end within a minute.
    pub fn kill(&mut self) -> Result<()> {
        self.end(End::AtOnce)
    }

    /// Starts the server again on the same database and the same port. Does nothing when it runs.
    ///
    /// # Errors
    ///
    /// When somebody else listens on the port meanwhile, or it does not start, with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server
            && server.runs()?
        {
            return Ok(());
        }
        self.server = None;
        let watchdog = &mut self.watchdog;
        match self.data.start(self.port, &mut |process| watchdog.guard(process))? {
            Start::Ready(server) => self.server = Some(server),
            Start::PortTaken => bail!(
                "temporal in {} cannot start again: somebody else listens on its port {} now; start a new server",
                self.data.directory.display(),
                self.port
            ),
        }
        Ok(())
    }

    fn end(&mut self, how: End) -> Result<()> {
        if let Some(server) = &mut self.server {
            server.end(how).context("cannot stop the server")?;
            self.server = None;
            self.watchdog.release()?;
        }
        Ok(())
    }
}
