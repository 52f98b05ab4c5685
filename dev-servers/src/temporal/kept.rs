//! A Temporal that outlives the command which started it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::data::{Data, is_ready};
use super::programs;
use crate::account::Account;
use crate::keep::Record;
use crate::place;
use crate::process::poll;

/// How long a server that another command started may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A directory for its files, in the cache folder.
pub(crate) fn directory(cache: &Path) -> Result<PathBuf> {
    programs::locate()?;
    let directory =
        place::fresh_directory(&Account::Caller, "drivetrain-temporal-", &place::for_long(cache))?;
    Ok(directory.keep())
}

/// Starts a server on the recorded directory and leaves it running, with its web page.
pub(crate) fn start(record: &mut Record, save: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
    let data = Data { program: programs::locate()?, directory: record.directory.clone(), web: true };
    let (server, _) = data.start_anywhere(record.port, &mut |process, port| {
        record.process = Some(process);
        record.port = Some(port);
        save(record)
    })?;
    server.leave();
    Ok(())
}

/// Waits for a server that another command started; says whether it came to be ready, or ended instead.
pub(crate) fn until_ready(record: &Record) -> Result<bool> {
    let Some(port) = record.port else { return Ok(false) };
    let program = programs::locate()?;
    let ready = poll(READY_LIMIT, || {
        if !record.runs()? {
            return Ok(Some(false));
        }
        Ok(is_ready(&program, port).then_some(true))
    })?;
    match ready {
        Some(ready) => Ok(ready),
        None => {
            let tail = place::tail(&Data::log_in(&record.directory));
            bail!("temporal in {} was not ready after {READY_LIMIT:?}; {tail}", record.directory.display())
        }
    }
}

/// Where it takes connections.
pub(crate) fn address(port: u16) -> String {
    super::address(port)
}
