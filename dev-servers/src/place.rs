//! Where servers keep their files: the cache folder, and directories that the servers' user can reach.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::account::Account;

/// A socket in the file system has a path of at most this many bytes on the strictest system that matters.
const LONGEST_SOCKET_PATH: usize = 103;

/// What tells one fresh directory from another.
const RANDOM_PART: usize = 8;

/// Room for a socket's file name, as `.s.PGSQL.54321`.
const SOCKET_NAME: usize = 16;

/// The folder that outlives processes: `$XDG_CACHE_HOME/drivetrain/servers`, `~/.cache/drivetrain/servers`, or
/// one beside temporary files for a caller without a home.
pub(crate) fn cache_folder() -> PathBuf {
    cache_folder_from(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

fn cache_folder_from(cache: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let absolute = |text: OsString| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    let base = cache
        .and_then(absolute)
        .or_else(|| Some(home.and_then(absolute)?.join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("drivetrain/servers")
}

/// Creates a folder and everything above it.
pub(crate) fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}: make its parent writable", folder.display()))
}

/// Waits until no other process holds this lock, then holds it until the file is dropped.
pub(crate) fn lock(folder: &Path, name: &str) -> Result<File> {
    create(folder)?;
    let path = folder.join(name);
    let file = File::create(&path).with_context(|| format!("cannot create the lock {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// A fresh directory that belongs to the account, in the first of the parents that the account can enter and where
/// the path of a socket in it is not too long. It is removed on drop.
pub(crate) fn fresh_directory(account: &Account, prefix: &str, parents: &[PathBuf]) -> Result<TempDir> {
    let mut refused = Vec::new();
    for parent in parents {
        let path = parent.join(prefix);
        if path.as_os_str().len() + RANDOM_PART + SOCKET_NAME > LONGEST_SOCKET_PATH {
            refused.push(format!("{} (too long for the path of a socket)", parent.display()));
            continue;
        }
        if !account.can_enter(parent) {
            refused.push(format!("{} (the user that servers run as cannot enter it)", parent.display()));
            continue;
        }
        match tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM_PART).tempdir_in(parent) {
            Ok(directory) => {
                account.own(directory.path())?;
                return Ok(directory);
            }
            Err(error) => refused.push(format!("{} ({error})", parent.display())),
        }
    }
    bail!(
        "there is no place for the files of a server; tried {}: set TMPDIR to a short path that every user can \
         enter",
        refused.join(", ")
    )
}

/// Where throwaway servers live.
pub(crate) fn for_a_while() -> Vec<PathBuf> {
    vec![std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()]
}

/// Where kept servers live when the cache folder is closed to their user, as root's home usually is. These files
/// should outlive a restart of the machine, so temporary directories come last.
pub(crate) fn for_long(cache: &Path) -> Vec<PathBuf> {
    vec![cache.to_owned(), "/var/tmp".into(), std::env::temp_dir(), "/tmp".into()]
}

/// The end of a log, for the message of an error.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 20;
    match std::fs::read(log) {
        Ok(bytes) if bytes.is_empty() => format!("its log {} is empty", log.display()),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            let end = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
            format!("its log ends with\n  {end}")
        }
        Err(error) => format!("its log {} cannot be read ({error})", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_follows_the_environment() {
        let from = |cache: Option<&str>, home: Option<&str>| {
            cache_folder_from(cache.map(OsString::from), home.map(OsString::from))
        };
        let expected = Path::new("/cache/drivetrain/servers");
        assert_eq!(from(Some("/cache"), Some("/home/one")), expected);
        let expected = Path::new("/home/one/.cache/drivetrain/servers");
        assert_eq!(from(None, Some("/home/one")), expected);
        assert_eq!(from(Some("relative"), Some("/home/one")), expected);
        assert!(from(None, None).is_absolute());
    }

    #[test]
    fn a_parent_that_does_not_do_is_passed_over() {
        let long = tempfile::tempdir_in("/tmp").unwrap();
        let long = long.path().join("a".repeat(90));
        std::fs::create_dir_all(&long).unwrap();
        let parents = ["/no/such/parent".into(), long, "/tmp".into()];
        let directory = fresh_directory(&Account::Caller, "place-", &parents).unwrap();
        assert_eq!(directory.path().parent(), Some(Path::new("/tmp")));
        let error = fresh_directory(&Account::Caller, "place-", &parents[..2]).unwrap_err().to_string();
        assert!(error.contains("/no/such/parent") && error.contains("too long"), "{error}");
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let tail = tail(&log);
        assert!(
            tail.contains("line 81\n") && tail.ends_with("line 100") && !tail.contains("line 80"),
            "{tail}"
        );
    }
}
