//! What ends a throwaway server when the process that started it is gone, whatever ended that process.
//!
//! A shell of its own process group reads a pipe that only the starter holds. The system closes the pipe when the
//! starter ends, also when it is killed and cannot clean up; then the shell ends the server and removes its files.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result};

/// Reads which process group to answer for (the last line counts; an empty one means none) until the pipe closes.
///
/// SIGQUIT rather than SIGKILL first: it lets a server take its own children with it. A process that ended but that
/// nobody collects is as good as gone.
const SCRIPT: &str = r#"
group= directory=$1 patience=$2
while read -r line; do group=$line; done
runs() {
    kill -s 0 -- "-$group" 2>/dev/null || return 1
    case "$(cat "/proc/$group/stat" 2>/dev/null)" in *") Z "*) return 1 ;; esac
}
patiently() {
    turns=0
    until "$@"; do
        [ "$turns" -lt "$patience" ] || return 1
        turns=$((turns + 1))
        sleep 0.1
    done
}
is_gone() { ! runs; }
if [ -n "$group" ] && runs; then
    kill -s QUIT -- "-$group" 2>/dev/null
    patiently is_gone || kill -s KILL -- "-$group" 2>/dev/null
fi
# What is still ending may add a file while the others are removed.
patiently rm -rf -- "$directory" 2>/dev/null
"#;

/// How many tenths of a second a process may take to end before it is killed.
const PATIENCE: u32 = 100;

/// Answers for one directory and for at most one process group at a time.
///
/// Dropping it ends that group, removes the directory and waits for both.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
    directory: PathBuf,
}

impl Watchdog {
    /// Answers for a directory from now on.
    pub(crate) fn over(directory: &Path) -> Result<Self> {
        Self::with_patience(directory, PATIENCE)
    }

    fn with_patience(directory: &Path, tenths: u32) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "drivetrain-watchdog"]).arg(directory).arg(tenths.to_string());
        command.current_dir("/").process_group(0);
        // No output is inherited: whoever reads that of the starter must see it end with the starter.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().context("cannot start sh as watchdog of a server")?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe, directory: directory.to_owned() })
    }

    /// Answers for this process group from now on, and no longer for another.
    pub(crate) fn guard(&mut self, group: u32) -> Result<()> {
        self.tell(&format!("{group}\n"))
    }

    /// Answers for no process any more, because it ended: its number may go to another.
    pub(crate) fn release(&mut self) -> Result<()> {
        self.tell("\n")
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the watchdog was dismissed")?;
        pipe.write_all(line.as_bytes()).with_context(|| {
            format!(
                "the watchdog of the server in {} is gone (process {}): do not kill it, start the server anew",
                self.directory.display(),
                self.shell.id()
            )
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    }

    #[test]
    fn the_last_guarded_process_and_the_directory_go_when_the_pipe_closes() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        let (mut first, mut second) = (sleeper(), sleeper());
        let mut watchdog = Watchdog::over(directory.path()).unwrap();
        watchdog.guard(first.id()).unwrap();
        watchdog.guard(second.id()).unwrap();
        drop(watchdog);
        assert!(!second.wait().unwrap().success());
        assert!(first.try_wait().unwrap().is_none(), "only the last one is guarded");
        assert!(!directory.path().exists());
        first.kill().unwrap();
        first.wait().unwrap();
    }

    #[test]
    fn a_released_process_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = sleeper();
        let mut watchdog = Watchdog::over(directory.path()).unwrap();
        watchdog.guard(process.id()).unwrap();
        watchdog.release().unwrap();
        drop(watchdog);
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// A process that answers the signal its own way.
    fn answering(signal: &str, directory: &Path) -> Child {
        let ready = directory.join("ready");
        let process = Command::new("sh")
            .args(["-c", r#"trap "$1" QUIT; : >"$2"; while :; do sleep 0.1; done"#, "sh", signal])
            .arg(&ready)
            .process_group(0)
            .spawn()
            .unwrap();
        let limit = std::time::Duration::from_secs(10);
        crate::process::poll(limit, || Ok(ready.exists().then_some(()))).unwrap().unwrap();
        process
    }

    #[test]
    fn a_process_that_ignores_the_first_signal_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let mut stubborn = answering("", directory.path());
        let mut watchdog = Watchdog::with_patience(directory.path(), 1).unwrap();
        watchdog.guard(stubborn.id()).unwrap();
        drop(watchdog);
        assert!(!stubborn.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_is_about_to_end_is_given_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut orderly = answering("sleep 0.5; exit 0", directory.path());
        let mut watchdog = Watchdog::over(directory.path()).unwrap();
        watchdog.guard(orderly.id()).unwrap();
        drop(watchdog);
        assert!(orderly.wait().unwrap().success());
    }
}
