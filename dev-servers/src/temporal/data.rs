//! A directory with a server's database and log: starting a server on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::server::{Readiness, Server};
use crate::account::Account;
use crate::place;
use crate::port;
use crate::process::{Announce, Program};

/// How many ports to try when somebody else takes the chosen one first.
const PORTS: u32 = 10;

/// Settings that tests and people rely on.
const SETTINGS: [&str; 4] = [
    // A run's signals are taken by whoever has its task; a refresh of search attributes must be seen at once.
    "system.forceSearchAttributesCacheRefreshOnRead=true",
    // Hundreds of runs on one machine are ordinary here.
    "frontend.namespaceRPS=100000",
    "frontend.rps=100000",
    "limit.maxIDLength=1000",
];

/// A directory and what it takes to run a server on it.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// Temporal's command line.
    pub(crate) program: PathBuf,
    /// The directory.
    pub(crate) directory: PathBuf,
    /// Whether people look at it.
    pub(crate) web: bool,
}

/// What became of an attempt to start.
#[derive(Debug)]
pub(crate) enum Start {
    /// The server takes connections.
    Ready(Server),
    /// Somebody else listens on the port.
    PortTaken,
}

impl Data {
    /// What the server writes.
    pub(crate) fn log_in(directory: &Path) -> PathBuf {
        directory.join("log")
    }

    /// Starts a server on this port and waits until it takes connections.
    pub(crate) fn start(&self, port: u16, announce: Announce<'_>) -> Result<Start> {
        let (database, port_text) = (self.directory.join("temporal.db"), port.to_string());
        let mut arguments: Vec<&OsStr> =
            ["server", "start-dev", "--ip", "127.0.0.1", "--log-level", "error"].map(OsStr::new).to_vec();
        arguments.extend([OsStr::new("--port"), OsStr::new(&port_text)]);
        arguments.extend([OsStr::new("--db-filename"), database.as_os_str()]);
        for setting in SETTINGS {
            arguments.extend([OsStr::new("--dynamic-config-value"), OsStr::new(setting)]);
        }
        if !self.web {
            arguments.push(OsStr::new("--headless"));
        }
        let log = Self::log_in(&self.directory);
        // Unlike Postgres it has nothing against root, and the cache folder is closed to others.
        let program = Program { path: &self.program, arguments, account: &Account::Caller, log: &log };
        let process = program
            .start(announce)
            .with_context(|| format!("cannot run temporal in {}", self.directory.display()))?;
        let mut server = Server::new(process, self.clone());
        match server.until_ready(port)? {
            Readiness::Ready => Ok(Start::Ready(server)),
            Readiness::Ended(_) if port::is_taken(port) => Ok(Start::PortTaken),
            Readiness::Ended(status) => {
                bail!("temporal in {} ended at once ({status}); {}", self.directory.display(), self.tail())
            }
        }
    }

    /// Starts a server on a port that nobody uses: the wanted one, if there is one, as long as it is free.
    ///
    /// The port is announced with the process.
    pub(crate) fn start_anywhere(
        &self,
        mut wanted: Option<u16>,
        announce: &mut dyn FnMut(u32, u16) -> Result<()>,
    ) -> Result<(Server, u16)> {
        for _ in 0..PORTS {
            let port = match wanted.take() {
                Some(port) => port,
                None => port::free()?,
            };
            if let Start::Ready(server) = self.start(port, &mut |process| announce(process, port))? {
                return Ok((server, port));
            }
        }
        bail!(
            "temporal in {} found {PORTS} free ports taken again before it could listen: see what opens so many ports",
            self.directory.display()
        )
    }

    /// Whether the server on this port is healthy and has its namespace, as its own command line says.
    pub(crate) fn is_ready(&self, port: u16) -> bool {
        is_ready(&self.program, port)
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> String {
        place::tail(&Self::log_in(&self.directory))
    }
}

/// Whether the server on this port is healthy and has its namespace.
pub(crate) fn is_ready(program: &Path, port: u16) -> bool {
    // The command line takes its time; the port alone says early that there is nobody.
    if !port::is_heard(port) {
        return false;
    }
    let mut ask = std::process::Command::new(program);
    ask.args(["operator", "namespace", "describe", "--namespace", "default", "--address"]);
    ask.arg(super::address(port)).stdin(std::process::Stdio::null());
    ask.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    ask.status().is_ok_and(|status| status.success())
}
