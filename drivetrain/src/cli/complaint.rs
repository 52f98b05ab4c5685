//! What a command says when it cannot do its work: what, why, what next, and the exit code.

use std::fmt;

use engine_core::Error;
use engine_core::plan::Problems;

use super::exit::Exit;
use crate::config::ConfigProblems;

/// Why a command did not do its work.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) exit: Exit,
    message: String,
    hint: Option<String>,
    code: Option<&'static str>,
}

pub(super) type Result<T, E = Complaint> = std::result::Result<T, E>;

impl Complaint {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, code: None }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Every problem of a plan, one a line, as editors find them: file:line:column.
    pub(super) fn plan(file: &str, problems: &Problems) -> Self {
        let count = match problems.0.len() {
            1 => "1 problem".to_owned(),
            several => format!("{several} problems"),
        };
        let mut message = format!("the plan {file} has {count}; nothing was stored");
        for problem in problems {
            let place = match (problem.line, problem.column) {
                (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
                _ => file.to_owned(),
            };
            let path = if problem.path.is_empty() { "plan" } else { &problem.path };
            message.push_str(&format!(
                "\n  {place}: {path}: {} ({}) [{}]",
                problem.message, problem.hint, problem.code
            ));
        }
        Self::new(Exit::Invalid, message)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        if let Some(code) = self.code {
            write!(formatter, " [{code}]")?;
        }
        if let Some(hint) = &self.hint {
            write!(formatter, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl From<Error> for Complaint {
    fn from(error: Error) -> Self {
        let code = error.code();
        Self {
            exit: Exit::of_error(code),
            message: error.message().to_owned(),
            hint: error.hint().map(str::to_owned),
            code: Some(code.as_str()),
        }
    }
}

impl From<ConfigProblems> for Complaint {
    fn from(problems: ConfigProblems) -> Self {
        let count = match problems.0.len() {
            1 => "1 problem".to_owned(),
            several => format!("{several} problems"),
        };
        Self::usage(format!(
            "the configuration has {count}\n  {}",
            problems.to_string().replace('\n', "\n  ")
        ))
        .hint("`drivetrain config show` prints what holds; docs/configuration.md lists every key")
    }
}

impl From<std::io::Error> for Complaint {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failure, error.to_string())
    }
}
