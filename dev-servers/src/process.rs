//! Processes: starting one that somebody already answers for, sending it a signal, recognising it again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::account::Account;

/// How often something is looked at that cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for a word on standard input before it becomes the program, so that the program never runs before its
/// process id is written down. When the starter dies first, the word never comes and neither does the program.
const GATE: &str = r#"read -r word && exec "$@" </dev/null"#;

/// Told the id of a process before it may begin; the process does not begin when this fails.
pub(crate) type Announce<'a> = &'a mut dyn FnMut(u32) -> Result<()>;

/// A program to start.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// The file to run.
    pub(crate) path: &'a Path,
    /// Its arguments.
    pub(crate) arguments: Vec<&'a OsStr>,
    /// Who it runs as.
    pub(crate) account: &'a Account,
    /// Everything it writes is added to this file.
    pub(crate) log: &'a Path,
}

impl Program<'_> {
    /// Starts the program in a process group of its own, so that an interrupt typed at the terminal reaches the
    /// starter first.
    pub(crate) fn start(&self, announce: Announce<'_>) -> Result<Child> {
        let open = || File::options().create(true).append(true).open(self.log);
        let log = || open().with_context(|| format!("cannot write the log {}", self.log.display()));
        let mut command = Command::new("sh");
        command.args(["-c", GATE, "sh"]).arg(self.path).args(&self.arguments);
        command.current_dir("/").process_group(0).stdin(Stdio::piped()).stdout(log()?).stderr(log()?);
        self.account.apply(&mut command);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.path.display()))?;
        let gate = child.stdin.take();
        let opened = announce(child.id()).and_then(|()| {
            let mut gate = gate.context("a process has no standard input")?;
            gate.write_all(b"go\n").with_context(|| format!("cannot start {}", self.path.display()))
        });
        if let Err(error) = opened {
            // The gate is closed by now, and with it the process ends.
            let _ = child.wait();
            return Err(error);
        }
        Ok(child)
    }
}

/// What a process can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: end in an orderly way.
    Interrupt,
    /// SIGQUIT: end at once.
    Quit,
}

/// Sends a signal to one process.
pub(crate) fn send(signal: Signal, process: u32) -> Result<()> {
    let name = match signal {
        Signal::Interrupt => "INT",
        Signal::Quit => "QUIT",
    };
    // The shell's own `kill` is always there; the program of that name is not.
    let output = Command::new("sh")
        .args(["-c", r#"kill -s "$1" "$2""#, "sh", name, &process.to_string()])
        .output()
        .context("cannot run sh to send a signal")?;
    ensure!(
        output.status.success(),
        "cannot send SIG{name} to process {process}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Whether a process runs and has this path in its command line. One that ended and was not collected yet does not
/// count.
pub(crate) fn runs_with(process: u32, path: &Path) -> Result<bool> {
    let folder = Path::new("/proc");
    if !folder.join("self/cmdline").exists() {
        bail!("cannot tell whether process {process} is a server: this system has no /proc; use Linux");
    }
    // Without the file there is no process; another user's is none of ours.
    let line = std::fs::read(folder.join(process.to_string()).join("cmdline")).unwrap_or_default();
    let path = path.as_os_str().as_encoded_bytes();
    Ok(line.windows(path.len()).any(|window| window == path))
}

/// Asks again and again until there is an answer; nothing when there is none within the limit.
pub(crate) fn poll<T>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits for a process of ours to end.
pub(crate) fn ended(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    poll(limit, || child.try_wait().context("cannot wait for a process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn start(log: &Path, script: &str, announce: Announce<'_>) -> Result<Child> {
        let arguments = vec![OsStr::new("-c"), OsStr::new(script), log.as_os_str()];
        Program { path: Path::new("/bin/sh"), arguments, account: &Account::Caller, log }.start(announce)
    }

    #[test]
    fn a_program_runs_only_after_its_process_was_announced() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut announced = None;
        let mut child = start(&log, "echo $$", &mut |process| {
            announced = Some(process);
            Ok(())
        })
        .unwrap();
        assert!(ended(&mut child, LIMIT).unwrap().unwrap().success());
        let written = std::fs::read_to_string(&log).unwrap();
        assert_eq!(written.trim(), announced.unwrap().to_string());
    }

    #[test]
    fn a_program_never_runs_when_nobody_answers_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let error = start(&log, "echo ran", &mut |_| bail!("no")).unwrap_err();
        assert_eq!(error.to_string(), "no");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
    }

    #[test]
    fn a_process_is_recognised_by_its_command_line_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (log, mark) = (folder.path().join("log"), Path::new("600.25"));
        let sleep = Path::new("sleep");
        let program =
            Program { path: sleep, arguments: vec![mark.as_os_str()], account: &Account::Caller, log: &log };
        let mut child = program.start(&mut |_| Ok(())).unwrap();
        // While one program takes the place of the other, the process has no command line.
        poll(LIMIT, || Ok(runs_with(child.id(), mark)?.then_some(()))).unwrap().unwrap();
        assert!(!runs_with(child.id(), folder.path()).unwrap());
        send(Signal::Quit, child.id()).unwrap();
        // Not collected yet, and still it does not count.
        poll(LIMIT, || Ok((!runs_with(child.id(), mark)?).then_some(()))).unwrap().unwrap();
        assert!(!ended(&mut child, LIMIT).unwrap().unwrap().success());
    }

    #[test]
    fn a_signal_to_a_process_that_is_gone_is_an_error_that_names_it() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let error = send(Signal::Interrupt, child.id()).unwrap_err().to_string();
        assert!(error.contains(&format!("SIGINT to process {}", child.id())), "{error}");
    }
}
