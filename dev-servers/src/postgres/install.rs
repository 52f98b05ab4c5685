//! Getting Postgres on Debian, for a caller who may.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::programs::{Programs, Search};
use crate::account::caller_is_root;
use crate::place;

/// Debian's settings for the cluster that it would make with the package; a folder for additions.
const DEBIAN_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// Installs Debian's package, one process at a time, and finds the programs again.
///
/// Only root on a system with `apt-get` can; for everybody else the error says what to install.
pub(crate) fn install(search: &Search) -> Result<Programs> {
    if !caller_is_root()? {
        return search.fail("only root could install it");
    }
    if !apt_get(&["--version"]).is_ok_and(|status| status.success()) {
        return search.fail("this system has no apt-get to install it with");
    }
    let _lock = place::lock(&place::cache_folder(), "install.lock")?;
    // Another process may have installed it while this one waited.
    if let Some(programs) = search.find() {
        return Ok(programs);
    }
    eprintln!("installing PostgreSQL with apt-get, once");
    let _no_cluster = NoMainCluster::ask(Path::new(DEBIAN_SETTINGS))?;
    apt_get_must(&["update"])?;
    apt_get_must(&["install", "--yes", "--no-install-recommends", "postgresql"])?;
    search.find().map_or_else(|| search.fail("apt-get installed it somewhere else"), Ok)
}

fn apt_get_must(arguments: &[&str]) -> Result<()> {
    let line = arguments.join(" ");
    let status = apt_get(arguments).with_context(|| format!("cannot start `apt-get {line}`"))?;
    if !status.success() {
        bail!(
            "`apt-get {line}` failed ({status}), its output is above; install PostgreSQL by hand and try again"
        );
    }
    Ok(())
}

fn apt_get(arguments: &[&str]) -> std::io::Result<std::process::ExitStatus> {
    Command::new("apt-get")
        // Another installation may be under way.
        .args(["-qq", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        // What it reports is no result of the caller's, whose standard output may be read by a program.
        .stdout(Stdio::null())
        .status()
}

/// Asks Debian not to make and start a cluster of its own with the package; taken back on drop, since whoever
/// installs another version later did not ask for that.
#[derive(Debug)]
struct NoMainCluster {
    file: std::path::PathBuf,
}

impl NoMainCluster {
    fn ask(folder: &Path) -> Result<Self> {
        let file = folder.join("drivetrain.conf");
        place::create(folder)?;
        std::fs::write(&file, "create_main_cluster = false\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }
}

impl Drop for NoMainCluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_is_asked_for_no_cluster_only_while_installing() {
        let folder = tempfile::tempdir().unwrap();
        let asked = NoMainCluster::ask(&folder.path().join("createcluster.d")).unwrap();
        let file = asked.file.clone();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "create_main_cluster = false\n");
        drop(asked);
        assert!(!file.exists());
    }
}
