//! Running other programs: each is shown before it runs, and one that fails is named.

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A program that a task runs.
#[derive(Debug)]
pub(crate) struct External {
    command: Command,
    next_step: &'static str,
}

impl External {
    /// The cargo that runs this task, so that the toolchain stays the same.
    pub(crate) fn cargo(subcommand: &str) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut external = Self::program(cargo).arg(subcommand);
        // What cargo told this task about its own package: some build scripts look at such variables, and what was built
        // by hand would be built again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                external.command.env_remove(&name);
            }
        }
        external
    }

    /// Any program.
    pub(crate) fn program(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), next_step: "see its output above" }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Says what a person can do when the program fails.
    pub(crate) fn on_failure(mut self, next_step: &'static str) -> Self {
        self.next_step = next_step;
        self
    }

    /// Runs the program with its output shown, and fails when it does.
    pub(crate) fn run(mut self) -> Result<()> {
        let line = self.to_string();
        eprintln!("$ {line}");
        // Nothing here asks a person, and CI has no input to give.
        let status =
            self.command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
        if !status.success() {
            bail!("`{line}` failed ({status}): {}", self.next_step);
        }
        Ok(())
    }

    /// Runs the program with its output shown, fails when it does, and returns the last line of standard output that
    /// is not blank.
    pub(crate) fn run_for_last_line(mut self) -> Result<String> {
        let line = self.to_string();
        eprintln!("$ {line}");
        let mut program = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{line}`"))?;
        let output = program.stdout.take().with_context(|| format!("`{line}` has no output"))?;
        let last = show(BufReader::new(output), &mut std::io::stdout())
            .with_context(|| format!("cannot show the output of `{line}`"))?;
        let status = program.wait().with_context(|| format!("cannot wait for `{line}`"))?;
        if !status.success() {
            bail!("`{line}` failed ({status}): {}", self.next_step);
        }
        Ok(last)
    }

    /// Whether the program runs and succeeds; shows nothing.
    pub(crate) fn succeeds(mut self) -> bool {
        let quiet = self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    /// Runs the program and returns what it writes.
    pub(crate) fn output(mut self) -> Result<Vec<u8>> {
        let line = self.to_string();
        let output = self
            .command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start `{line}`"))?;
        if !output.status.success() {
            bail!("`{line}` failed ({}): {}", output.status, self.next_step);
        }
        Ok(output.stdout)
    }
}

/// The line that a person could type.
impl fmt::Display for External {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.command.get_envs() {
            if let Some(value) = value {
                write!(formatter, "{}={} ", name.display(), quoted(value))?;
            }
        }
        let program = std::path::Path::new(self.command.get_program());
        let name = program.file_name().unwrap_or(program.as_os_str());
        write!(formatter, "{}", name.display())?;
        for argument in self.command.get_args() {
            write!(formatter, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

/// Passes lines on as they come, and returns the last that is not blank.
fn show(mut from: impl BufRead, to: &mut impl Write) -> std::io::Result<String> {
    let (mut last, mut line) = (Vec::new(), Vec::new());
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        if !line.trim_ascii().is_empty() {
            std::mem::swap(&mut last, &mut line);
        }
        line.clear();
    }
    Ok(String::from_utf8_lossy(last.trim_ascii()).into_owned())
}

fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./:,@+".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_could_be_typed() {
        let command =
            External::program("/somewhere/bin/tool").args(["-D", "two words"]).variable("MODE", "1");
        assert_eq!(command.to_string(), "MODE=1 tool -D 'two words'");
    }

    #[test]
    fn a_failure_names_the_command_and_the_next_step() {
        let error = External::program("false").arg("x").on_failure("try true").run().unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`false x` failed") && message.ends_with("try true"), "{message}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = External::program("no-such-program-here").run().unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }

    #[test]
    fn output_is_passed_on_and_its_last_line_kept() {
        let mut shown = Vec::new();
        let text = b"first\n {\"bench\":1}\n\n  \n";
        assert_eq!(show(text.as_slice(), &mut shown).unwrap(), "{\"bench\":1}");
        assert_eq!(shown, text);
        assert_eq!(show(b"without an end".as_slice(), &mut shown).unwrap(), "without an end");
        assert_eq!(show(b"".as_slice(), &mut shown).unwrap(), "");
    }

    #[test]
    fn the_last_line_of_a_program_that_fails_is_no_result() {
        let error = External::program("sh").args(["-c", "echo done; false"]).run_for_last_line().unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
    }
}
