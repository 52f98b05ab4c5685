//! A Postgres that outlives the command which started it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::data::Data;
use super::programs::Programs;
use super::server::is_ready;
use crate::account::Account;
use crate::keep::Record;
use crate::place;
use crate::process::poll;

/// How long a server that another command started may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A directory for its files, in the cache folder when its user can enter that.
pub(crate) fn directory(cache: &Path) -> Result<PathBuf> {
    // Debian's package brings the user that will own the directory.
    Programs::locate()?;
    let account = Account::for_servers()?;
    Ok(place::fresh_directory(&account, "drivetrain-postgres-", &place::for_long(cache))?.keep())
}

/// Starts a server on the recorded directory, makes its files first when there are none, and leaves it running.
pub(crate) fn start(record: &mut Record, save: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
    let data = Data {
        programs: Programs::locate()?,
        account: Account::for_servers()?,
        directory: record.directory.clone(),
    };
    if record.port.is_none() {
        data.create(&mut |process| {
            record.process = Some(process);
            save(record)
        })?;
    }
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
    let files = Data::files_in(&record.directory);
    let ready = poll(READY_LIMIT, || match record.process {
        Some(process) if record.runs()? => Ok(is_ready(&files, process).then_some(true)),
        _ => Ok(Some(false)),
    })?;
    match ready {
        Some(ready) => Ok(ready),
        None => {
            let tail = place::tail(&Data::log_in(&record.directory));
            bail!("postgres in {} was not ready after {READY_LIMIT:?}; {tail}", record.directory.display())
        }
    }
}

/// Where it takes connections.
pub(crate) fn address(port: u16) -> String {
    super::url(port)
}
