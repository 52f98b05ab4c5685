//! Where Postgres' own programs are: on the path, else in Debian's folders, else installed first.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::install;

/// Debian keeps server programs off the path, in a folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder with `initdb` and `postgres`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Finds the programs on this machine, or installs them where that is possible.
    pub(crate) fn locate() -> Result<Self> {
        let search = Search { path: std::env::var_os("PATH").unwrap_or_default(), debian: DEBIAN.into() };
        search.find().map_or_else(|| install::install(&search), Ok)
    }

    /// One of the programs.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Their folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// As the variable `PATH`.
    pub(crate) path: OsString,
    /// A folder like Debian's, with a folder for each major version in it.
    pub(crate) debian: PathBuf,
}

impl Search {
    /// The first folder that has both programs; among Debian's, the one of the newest version.
    ///
    /// A folder with mere links to the programs stands for the one they lead to, where their companions are too.
    pub(crate) fn find(&self) -> Option<Programs> {
        let on_path = std::env::split_paths(&self.path);
        // An empty part of the path would mean whatever folder the caller is in.
        let mut folders = on_path.filter(|folder| folder.is_absolute()).chain(self.debian_folders());
        let folder = folders.find(|folder| has_both(folder))?;
        let target = std::fs::canonicalize(folder.join("initdb")).ok();
        let target = target.and_then(|program| Some(program.parent()?.to_owned()));
        Some(Programs { folder: target.filter(|folder| has_both(folder)).unwrap_or(folder) })
    }

    /// What to tell a person when nothing was found and nothing can be installed.
    pub(crate) fn fail<T>(&self, why_not_installed: &str) -> Result<T> {
        bail!(
            "there is no Postgres server: no folder of PATH and no {}/*/bin has both `initdb` and `postgres`, and \
             {why_not_installed}; install PostgreSQL (Debian and Ubuntu: `apt-get install postgresql`, Fedora: `dnf \
             install postgresql-server`, macOS: `brew install postgresql`), or put the folder of its server programs \
             on PATH",
            self.debian.display()
        )
    }

    fn debian_folders(&self) -> impl Iterator<Item = PathBuf> {
        let entries = std::fs::read_dir(&self.debian).into_iter().flatten().flatten();
        let number = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
        let mut versions: Vec<(u32, PathBuf)> =
            entries.filter_map(|entry| Some((number(&entry.file_name())?, entry.path()))).collect();
        versions.sort();
        versions.into_iter().rev().map(|(_, folder)| folder.join("bin"))
    }
}

fn has_both(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, programs: &[&str]) {
        std::fs::create_dir_all(folder).unwrap();
        for program in programs {
            std::fs::write(folder.join(program), "").unwrap();
        }
    }

    #[test]
    fn the_path_comes_first_and_must_have_both_programs() {
        let root = tempfile::tempdir().unwrap();
        let (half, whole) = (root.path().join("half"), root.path().join("whole"));
        let debian = root.path().join("debian");
        put(&half, &["initdb"]);
        put(&whole, &["initdb", "postgres"]);
        put(&debian.join("15/bin"), &["initdb", "postgres"]);
        let path = std::env::join_paths([Path::new(""), &half, &whole]).unwrap();
        let found = Search { path, debian: debian.clone() }.find().unwrap();
        assert_eq!(found.folder(), whole);
        let found = Search { path: half.into(), debian: debian.clone() }.find().unwrap();
        assert_eq!(found.folder(), debian.join("15/bin"));
    }

    #[test]
    fn links_lead_to_the_folder_of_the_programs() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (links, real) = (root.join("links"), root.join("real"));
        put(&real, &["initdb", "postgres", "psql"]);
        put(&links, &[]);
        for program in ["initdb", "postgres"] {
            std::os::unix::fs::symlink(real.join(program), links.join(program)).unwrap();
        }
        let found = Search { path: links.into(), debian: "/no/such/debian".into() }.find().unwrap();
        assert_eq!(found.folder(), real);
    }

    #[test]
    fn the_newest_of_debians_versions_is_taken() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "16", "17/not-bin", "common"] {
            put(&root.path().join(version).join("bin"), &["initdb", "postgres"]);
        }
        let found = Search { path: "".into(), debian: root.path().into() }.find().unwrap();
        // As text 9 would come after 16.
        assert_eq!(found.folder(), root.path().join("16/bin"));
    }

    #[test]
    fn without_programs_the_error_says_where_it_looked_and_what_to_install() {
        let search = Search { path: "/no/such/path".into(), debian: "/no/such/debian".into() };
        assert_eq!(search.find(), None);
        let error = search.fail::<()>("this is a test").unwrap_err().to_string();
        for part in ["`initdb`", "/no/such/debian", "this is a test", "apt-get install postgresql", "PATH"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}
