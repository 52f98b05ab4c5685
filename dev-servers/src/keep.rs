//! Servers that are kept running until they are taken down, for development: `cargo xtask servers`.
//!
//! For each kind of server the cache folder has a record of where its files are and which process it is, written
//! before the process begins, so that one which was started is always found again. The files lie beside the record,
//! or elsewhere when the user that servers run as cannot enter the cache folder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process::{Signal, poll, runs_with, send};
use crate::{place, postgres, temporal};

/// How long a server may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A kind of server that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// Postgres.
    Postgres,
    /// Temporal's development server, with its web page.
    Temporal,
}

impl ServerKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Temporal];

    /// The name that people use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Temporal => "temporal",
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ServerKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.with_context(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no server {text}: use one of {}", known.join(", "))
        })
    }
}

/// A kept server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub kind: ServerKind,
    /// Where it takes connections.
    pub address: String,
    /// Its process id.
    pub process: u32,
    /// Where its files are.
    pub directory: PathBuf,
}

/// Keeps one server of each kind, as a folder records.
#[derive(Clone, Debug)]
pub struct Keeper {
    folder: PathBuf,
}

impl Keeper {
    /// The user's own: in `$XDG_CACHE_HOME/drivetrain/servers` or `~/.cache/drivetrain/servers`.
    #[must_use]
    pub fn of_user() -> Self {
        Self::in_folder(place::cache_folder())
    }

    /// One with its records in another folder.
    #[must_use]
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Starts a server unless it runs, and returns when it takes connections.
    ///
    /// One that was ended by something else than [`Keeper::down`] is started again on the same data, and on the same
    /// port when that is free.
    ///
    /// # Errors
    ///
    /// When the server cannot be had or does not start.
    pub fn up(&self, kind: ServerKind) -> Result<Kept> {
        let _lock = self.lock(kind)?;
        let mut record = match self.read(kind)? {
            Some(record) if record.port.is_some() => record,
            unfinished => {
                if let Some(record) = unfinished {
                    self.remove(kind, &record)?;
                }
                let directory = match kind {
                    ServerKind::Postgres => postgres::kept::directory(&self.folder)?,
                    ServerKind::Temporal => temporal::kept::directory(&self.folder)?,
                };
                let record = Record { directory, process: None, port: None };
                self.write(kind, &record)?;
                record
            }
        };
        let ready = match kind {
            ServerKind::Postgres => postgres::kept::until_ready(&record),
            ServerKind::Temporal => temporal::kept::until_ready(&record),
        };
        let save: &mut dyn FnMut(&Record) -> Result<()> = &mut |record| self.write(kind, record);
        let started = ready.and_then(|ready| match kind {
            _ if ready => Ok(()),
            ServerKind::Postgres => postgres::kept::start(&mut record, save),
            ServerKind::Temporal => temporal::kept::start(&mut record, save),
        });
        started.with_context(|| {
            format!("cannot keep {kind}: to begin anew without its data, take it down and up again")
        })?;
        record.kept(kind).with_context(|| format!("{kind} was started and has no port"))
    }

    /// The server, if it runs.
    ///
    /// # Errors
    ///
    /// When the record cannot be read.
    pub fn status(&self, kind: ServerKind) -> Result<Option<Kept>> {
        let _lock = self.lock(kind)?;
        match self.read(kind)? {
            Some(record) if record.runs()? => Ok(record.kept(kind)),
            _ => Ok(None),
        }
    }

    /// Stops a server and removes its files; says whether there were any.
    ///
    /// Ends a process only when its command line names the server's directory: the number in the record may belong
    /// to another by now.
    ///
    /// # Errors
    ///
    /// When the server does not end within a minute, or its files cannot be removed.
    pub fn down(&self, kind: ServerKind) -> Result<bool> {
        let _lock = self.lock(kind)?;
        let Some(record) = self.read(kind)? else {
            return Ok(false);
        };
        self.remove(kind, &record)?;
        Ok(true)
    }

    fn lock(&self, kind: ServerKind) -> Result<std::fs::File> {
        place::lock(&self.folder, &format!("{kind}.lock"))
    }

    fn record_file(&self, kind: ServerKind) -> PathBuf {
        self.folder.join(format!("{kind}.json"))
    }

    fn read(&self, kind: ServerKind) -> Result<Option<Record>> {
        let file = self.record_file(kind);
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let record = serde_json::from_slice(&text).with_context(|| {
            format!("{} is no record of a server: end the server by hand and remove the file", file.display())
        })?;
        Ok(Some(record))
    }

    fn write(&self, kind: ServerKind, record: &Record) -> Result<()> {
        let file = self.record_file(kind);
        let fresh = file.with_extension("json.new");
        let text = serde_json::to_vec(record).context("cannot write the record of a server")?;
        // A half-written record would lose the server.
        std::fs::write(&fresh, text)
            .and_then(|()| std::fs::rename(&fresh, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn remove(&self, kind: ServerKind, record: &Record) -> Result<()> {
        if let Some(process) = record.process
            && record.runs()?
        {
            send(Signal::Interrupt, process)?;
            let ended = poll(END_LIMIT, || Ok((!record.runs()?).then_some(())))?;
            if ended.is_none() {
                bail!(
                    "{kind} (process {process}) still runs {END_LIMIT:?} after it was told to end: end it by hand"
                );
            }
        }
        match std::fs::remove_dir_all(&record.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", record.directory.display()));
            }
            _ => {}
        }
        let file = self.record_file(kind);
        std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
    }
}

/// What is known of a server between two commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its files.
    pub(crate) directory: PathBuf,
    /// The process that was started last.
    pub(crate) process: Option<u32>,
    /// Its port. There is none until its files are complete.
    pub(crate) port: Option<u16>,
}

impl Record {
    /// Whether the process runs and is this server.
    pub(crate) fn runs(&self) -> Result<bool> {
        self.process.map_or(Ok(false), |process| runs_with(process, Path::new(&self.directory)))
    }

    fn kept(&self, kind: ServerKind) -> Option<Kept> {
        let address = match kind {
            ServerKind::Postgres => postgres::kept::address(self.port?),
            ServerKind::Temporal => temporal::kept::address(self.port?),
        };
        Some(Kept { kind, address, process: self.process?, directory: self.directory.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_from_its_name() {
        for kind in ServerKind::ALL {
            assert_eq!(kind.to_string().parse::<ServerKind>().unwrap(), kind);
        }
        let error = "oracle".parse::<ServerKind>().unwrap_err().to_string();
        assert_eq!(error, "there is no server oracle: use one of postgres, temporal");
    }

    #[test]
    fn down_leaves_a_process_alone_that_only_has_the_number_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::in_folder(folder.path().to_owned());
        let directory = folder.path().join("files");
        std::fs::create_dir(&directory).unwrap();
        let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let record =
            Record { directory: directory.clone(), process: Some(stranger.id()), port: Some(15_000) };
        keeper.write(ServerKind::Postgres, &record).unwrap();
        assert_eq!(keeper.status(ServerKind::Postgres).unwrap(), None);
        assert!(keeper.down(ServerKind::Postgres).unwrap());
        assert!(!directory.exists());
        assert!(stranger.try_wait().unwrap().is_none(), "the stranger still runs");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert!(!keeper.down(ServerKind::Postgres).unwrap(), "there is nothing left to take down");
    }

    #[test]
    fn a_broken_record_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("postgres.json"), "{").unwrap();
        let error = Keeper::in_folder(folder.path().to_owned()).up(ServerKind::Postgres).unwrap_err();
        assert!(error.to_string().contains("postgres.json"), "{error}");
    }
}
