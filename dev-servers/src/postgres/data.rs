//! A data directory: making one, and starting a server on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::USER;
use super::programs::Programs;
use super::server::{Readiness, Server};
use crate::account::Account;
use crate::place;
use crate::port;
use crate::process::{Announce, Program, ended, poll};

/// Making a data directory takes a second; a busy machine gets much longer.
const CREATE_LIMIT: Duration = Duration::from_secs(120);

/// How long the processes of a server that was killed may stand in the way of the next.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(10);

/// How many ports to try when somebody else takes the chosen one first.
const PORTS: u32 = 10;

/// Settings that differ from a fresh Postgres' or that the tests rely on.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "max_connections=100",
    // Durability is what is tested.
    "fsync=on",
    "synchronous_commit=on",
    "logging_collector=off",
];

/// A directory with a cluster's files, its log and its socket, and what it takes to run a server on it.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The server's programs.
    pub(crate) programs: Programs,
    /// Who the server runs as; owns the directory.
    pub(crate) account: Account,
    /// The directory.
    pub(crate) directory: PathBuf,
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
    /// The cluster's own files in a directory.
    pub(crate) fn files_in(directory: &Path) -> PathBuf {
        directory.join("data")
    }

    /// What the programs write.
    pub(crate) fn log_in(directory: &Path) -> PathBuf {
        directory.join("log")
    }

    /// The cluster's own files.
    pub(crate) fn files(&self) -> PathBuf {
        Self::files_in(&self.directory)
    }

    /// Makes an empty cluster.
    pub(crate) fn create(&self, announce: Announce<'_>) -> Result<()> {
        let (files, user) = (self.files(), format!("--username={USER}"));
        let arguments = [
            OsStr::new("--pgdata"),
            files.as_os_str(),
            OsStr::new(&user),
            OsStr::new("--auth=trust"),
            OsStr::new("--encoding=UTF8"),
            OsStr::new("--locale=C"),
            // An empty cluster is quickly made again; what is written to it later is synced.
            OsStr::new("--no-sync"),
        ];
        let mut initdb = self.start_program("initdb", arguments.to_vec(), announce)?;
        let Some(status) = ended(&mut initdb, CREATE_LIMIT)? else {
            let _ = initdb.kill();
            let _ = initdb.wait();
            bail!("initdb in {} was not done after {CREATE_LIMIT:?}; {}", files.display(), self.tail());
        };
        if !status.success() {
            bail!("initdb in {} failed ({status}); {}", files.display(), self.tail());
        }
        Ok(())
    }

    /// Starts a server on this port and waits until it takes connections.
    pub(crate) fn start(&self, port: u16, announce: Announce<'_>) -> Result<Start> {
        let (files, port_text) = (self.files(), port.to_string());
        // A list of directories; in quotes a path may have any characters but these.
        let socket = format!("unix_socket_directories=\"{}\"", self.directory.display());
        let mut arguments =
            vec![OsStr::new("-D"), files.as_os_str(), OsStr::new("-p"), OsStr::new(&port_text)];
        for setting in SETTINGS.iter().copied().chain([socket.as_str()]) {
            arguments.extend([OsStr::new("-c"), OsStr::new(setting)]);
        }
        let started = poll(LEFTOVER_LIMIT, || {
            let process = self.start_program("postgres", arguments.clone(), announce)?;
            let mut server = Server::new(process, self.clone());
            match server.until_ready()? {
                Readiness::Ready => Ok(Some(Start::Ready(server))),
                // Its log says so too, in the words of some version; the port itself is the better witness.
                Readiness::Ended(_) if port::is_taken(port) => Ok(Some(Start::PortTaken)),
                // A server that was killed left this file, and perhaps processes that have yet to notice.
                Readiness::Ended(_) if process_file(&files).exists() => Ok(None),
                Readiness::Ended(status) => {
                    bail!("postgres in {} ended at once ({status}); {}", files.display(), self.tail())
                }
            }
        })?;
        match started {
            Some(start) => Ok(start),
            None => bail!(
                "postgres in {} did not start for {LEFTOVER_LIMIT:?} after an earlier one was killed; {}",
                files.display(),
                self.tail()
            ),
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
            "postgres in {} found {PORTS} free ports taken again before it could listen: see what opens so many ports",
            self.directory.display()
        )
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> String {
        place::tail(&Self::log_in(&self.directory))
    }

    fn start_program(
        &self,
        name: &str,
        arguments: Vec<&OsStr>,
        announce: Announce<'_>,
    ) -> Result<std::process::Child> {
        let path = self.programs.program(name);
        let log = Self::log_in(&self.directory);
        let program = Program { path: &path, arguments, account: &self.account, log: &log };
        program.start(announce).with_context(|| format!("cannot run {name} in {}", self.directory.display()))
    }
}

/// The file in which a running server says who it is and how far it is.
pub(crate) fn process_file(files: &Path) -> PathBuf {
    files.join("postmaster.pid")
}
