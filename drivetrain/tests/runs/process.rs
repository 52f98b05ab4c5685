//! Starting the program and waiting for what it says.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A folder of its own with a store in it, or with a schema of its own on a Postgres server.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    store: Option<String>,
}

/// Makes tests of functions that take a place: each on SQLite and on Postgres.
macro_rules! on_each_store {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::process::Place::new());
            })+
        }

        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::process::Place::on_postgres());
            })+
        }
    };
}
pub(crate) use on_each_store;

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: None }
    }

    pub(crate) fn on_postgres() -> Self {
        let server = dev_servers::postgres::shared_url().expect("a Postgres server");
        let separator = if server.contains('?') { '&' } else { '?' };
        let store = format!("{server}{separator}schema=runs_{}", uuid::Uuid::new_v4().simple());
        Self { store: Some(store), ..Self::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// The program, in the repository's folder as people use the examples, with the store in this place.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drivetrain"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DRIVETRAIN_") {
                command.env_remove(name);
            }
        }
        command
            .env("DRIVETRAIN_DATA_DIR", self.path("data"))
            // Short, so that whoever died is replaced soon.
            .env("DRIVETRAIN_EMBEDDED_LEASE_MS", "2000")
            .env("USER", "jane")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .envs(self.store.iter().map(|store| ("DRIVETRAIN_STORE_URL", store)))
            .args(arguments);
        command
    }

    /// The same through another program, which is given its own words and then the command.
    pub(crate) fn command_through(&self, program: &str, words: &[&str], arguments: &[&str]) -> Command {
        let inner = self.command(arguments);
        let mut command = Command::new(program);
        command.args(words).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(inner.get_current_dir().unwrap());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts the program and goes on; what it says is waited for.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines, seen: String::new() }
    }
}

impl Said {
    /// The run that the first line names.
    pub(crate) fn run_id(&self) -> String {
        run_id(&self.out)
    }

    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(
            self.out.contains(text) || self.err.contains(text),
            "no {text:?} in {}{}",
            self.out,
            self.err
        );
        self
    }
}

fn run_id(out: &str) -> String {
    let first = out.lines().next().unwrap_or_default();
    first.trim_start_matches("run ").split(':').next().unwrap_or_default().to_owned()
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    seen: String,
}

impl Running {
    /// Waits for a line with these words.
    pub(crate) fn wait_for(&mut self, words: &str) {
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "it ended before it said {words:?}: {}", self.seen);
            self.seen.push_str(&line);
            if line.contains(words) {
                return;
            }
        }
    }

    pub(crate) fn run_id(&self) -> String {
        run_id(&self.seen)
    }

    /// Sends a signal of the system, as `INT`.
    pub(crate) fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Said {
        self.lines.read_to_string(&mut self.seen).unwrap();
        let status = self.child.wait().unwrap();
        Said { code: status.code().unwrap_or(-1), out: self.seen.clone(), err: String::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
