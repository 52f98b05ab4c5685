//! A throwaway cluster.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::data::{Data, Start};
use super::programs::Programs;
use super::server::Server;
use crate::account::Account;
use crate::place;
use crate::process::Signal;
use crate::watchdog::Watchdog;

/// A Postgres cluster of its own in a temporary directory, for tests that stop, crash and start it again.
///
/// It ends with this value, or else with this process, whatever ends the process: then the server stops within a
/// few moments and its files are removed. Its port stays the same all its life. Installs Postgres when there is none
/// and the caller is root on Debian.
// The fields are dropped in this order: the server before its watchdog, which removes the directory.
#[derive(Debug)]
pub struct Cluster {
    server: Option<Server>,
    watchdog: Watchdog,
    port: u16,
    data: Data,
    _directory: TempDir,
}

impl Cluster {
    /// Makes a cluster and starts its server, which takes connections when this returns.
    ///
    /// # Errors
    ///
    /// When Postgres cannot be found or installed, with what to install; when it does not start, with the end of its
    /// log.
    pub fn start() -> Result<Self> {
        let programs = Programs::locate()?;
        // After the programs, because Debian's package brings a user.
        let account = Account::for_servers()?;
        let directory = place::fresh_directory(&account, "drivetrain-postgres-", &place::for_a_while())?;
        let mut watchdog = Watchdog::over(directory.path())?;
        let data = Data { programs, account, directory: directory.path().to_owned() };
        data.create(&mut |process| watchdog.guard(process))?;
        let (server, port) = data.start_anywhere(None, &mut |process, _| watchdog.guard(process))?;
        Ok(Self { server: Some(server), watchdog, port, data, _directory: directory })
    }

    /// The address over TCP, as `postgres://drivetrain@127.0.0.1:15432/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        super::url(self.port)
    }

    /// The address over a socket in the cluster's directory. The socket's path stands, encoded, where the host
    /// does: sqlx, tokio-postgres and Postgres' own programs understand that.
    #[must_use]
    pub fn socket_url(&self) -> String {
        super::socket_url(&self.data.directory, self.port)
    }

    /// The folder of this Postgres' programs, which usually has `psql` and `pg_dump` too.
    #[must_use]
    pub fn programs(&self) -> &Path {
        self.data.programs.folder()
    }

    /// What the server wrote to its log last.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.data.tail()
    }

    /// Stops the server in an orderly way, with connections cut, and returns when it ended. Does nothing when it is
    /// stopped already.
    ///
    /// # Errors
    ///
    /// When it does not stop within a minute.
    pub fn stop(&mut self) -> Result<()> {
        self.end(Signal::Interrupt)
    }

    /// Ends the server as a crash would: at once, nothing written out, so that it recovers from its log when it
    /// starts again. Returns when all of its processes ended. Does nothing when it is stopped already.
    ///
    /// # Errors
    ///
    /// When it does not end within a minute.
    pub fn kill(&mut self) -> Result<()> {
        self.end(Signal::Quit)
    }

    /// Starts the server again on the same data and the same port. Does nothing when it runs.
    ///
    /// # Errors
    ///
    /// When somebody else listens on the port meanwhile, or it does not start, with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server
            && server.serves(self.port)?
        {
            return Ok(());
        }
        self.server = None;
        let watchdog = &mut self.watchdog;
        match self.data.start(self.port, &mut |process| watchdog.guard(process))? {
            Start::Ready(server) => self.server = Some(server),
            Start::PortTaken => bail!(
                "postgres in {} cannot start again: somebody else listens on its port {} now; start a new cluster",
                self.data.directory.display(),
                self.port
            ),
        }
        Ok(())
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        if let Some(server) = &mut self.server {
            server.end(signal).context("cannot stop the cluster")?;
            self.server = None;
            self.watchdog.release()?;
        }
        Ok(())
    }
}
