//! Configuration: one table of keys, and four places that a value can come from.
//!
//! - [`keys`]: every key there is, what it takes, its default and what it means;
//! - [`file`](mod@file): `drivetrain.toml`, with the line and column of whatever is wrong;
//! - [`environment`]: `DRIVETRAIN_…` variables;
//! - [`show`]: the effective configuration, with secrets hidden;
//! - this file: putting them together. A flag wins over the environment, that over the file, that over the default.
//!
//! A key that nobody knows is an error that names the nearest one, wherever it stands.

pub mod environment;
pub mod file;
pub mod keys;
pub mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine_core::{Code, Error, Result, TenantId};
use statestore::Durability;

use keys::{KEYS, Key, Value};

/// The file that is read when no other is named.
pub const FILE_NAME: &str = "drivetrain.toml";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The file, at a line.
    File(PathBuf, usize),
    /// A variable.
    Environment(String),
    /// A flag on the command line, or a program.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path, line) => write!(formatter, "{}:{line}", path.display()),
            Self::Environment(name) => formatter.write_str(name),
            Self::Flag(name) => formatter.write_str(name),
        }
    }
}

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where it stands: a file with line and column, a variable or a flag.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl ConfigProblem {
    fn new(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }
}

/// Everything that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{}: {} ({})", problem.place, problem.message, problem.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigProblems {}

impl From<ConfigProblem> for ConfigProblems {
    fn from(problem: ConfigProblem) -> Self {
        Self(vec![problem])
    }
}

/// Where values are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read; it must be there. Without one, `drivetrain.toml` is read if it is there.
    pub file: Option<PathBuf>,
    /// The folder in which `drivetrain.toml` is looked for; `None`: no file unless one is named.
    pub folder: Option<PathBuf>,
    /// The variables.
    pub environment: Vec<(String, String)>,
    /// What was said on the command line: the flag, the key and the value as text.
    pub flags: Vec<(String, String, String)>,
}

/// The effective configuration: a value for every key, and where each comes from.
#[derive(Clone, Debug)]
pub struct Config {
    values: BTreeMap<&'static str, (Value, Source)>,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Whether that file was named on the command line.
    named: bool,
}

impl Config {
    /// Only defaults.
    #[must_use]
    pub fn defaults() -> Self {
        Self { values: BTreeMap::new(), file: None, named: false }
    }

    /// Puts the sources together.
    ///
    /// # Errors
    /// Everything that is wrong in any of them.
    pub fn load(sources: &Sources) -> Result<Self, ConfigProblems> {
        let mut problems = Vec::new();
        let mut config = Self::defaults();
        let (file, must_exist) = match (&sources.file, environment::file(&sources.environment)) {
            (Some(path), _) => (Some(path.clone()), true),
            (None, Some(path)) => (Some(path), true),
            (None, None) => (sources.folder.as_ref().map(|folder| folder.join(FILE_NAME)), false),
        };
        if let Some(path) = file {
            match file::read(&path, must_exist) {
                Ok(Some(values)) => {
                    config.values.extend(values);
                    config.file = Some(path);
                    config.named = sources.file.is_some();
                }
                Ok(None) => {}
                Err(found) => problems.extend(found.0),
            }
        }
        for (name, text) in &sources.environment {
            match environment::read(name, text) {
                Ok(Some((key, value))) => {
                    config.values.insert(key.path, (value, Source::Environment(name.clone())));
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        for (flag, path, text) in &sources.flags {
            let read = keys::find(path).and_then(|key| Ok((key, key.parse(text)?)));
            match read {
                Ok((key, value)) => {
                    config.values.insert(key.path, (value, Source::Flag(flag.clone())));
                }
                Err((message, hint)) => problems.push(ConfigProblem::new(flag, message, hint)),
            }
        }
        if problems.is_empty() { Ok(config) } else { Err(ConfigProblems(problems)) }
    }

    /// Sets a value from a program, as if by a flag.
    ///
    /// # Errors
    /// When there is no such key or it does not take that value.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), ConfigProblems> {
        let (key, value) = keys::find(path)
            .and_then(|key| Ok((key, key.parse(text)?)))
            .map_err(|(message, hint)| ConfigProblem::new(path, message, hint))?;
        self.values.insert(key.path, (value, Source::Flag("program".to_owned())));
        Ok(())
    }

    /// The value of a key and where it comes from; `None` when it has neither a value nor a default.
    #[must_use]
    pub fn get(&self, key: &Key) -> (Option<Value>, Source) {
        match self.values.get(key.path) {
            Some((value, source)) => (Some(value.clone()), source.clone()),
            None => (self.default_of(key), Source::Default),
        }
    }

    /// Defaults that depend on other keys stand here, the others in the table.
    fn default_of(&self, key: &Key) -> Option<Value> {
        match key.path {
            "store.url" => Some(Value::Text(format!("sqlite://{}/drivetrain.db", self.data_dir().display()))),
            "artifacts.url" => Some(Value::Text(self.data_dir().join("artifacts").display().to_string())),
            "actor" => Some(Value::Text(login_name())),
            _ => key.default.value(),
        }
    }

    fn value(&self, path: &str) -> Option<Value> {
        KEYS.iter().find(|key| key.path == path).and_then(|key| self.get(key).0)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        match self.value(path) {
            Some(Value::Text(text)) => text,
            _ => String::new(),
        }
    }

    pub(crate) fn millis(&self, path: &str) -> Duration {
        Duration::from_millis(self.number(path))
    }

    /// A number; 0 when the key takes none.
    #[must_use]
    pub fn number(&self, path: &str) -> u64 {
        match self.value(path) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        match self.value(path) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(crate) fn optional(&self, path: &str) -> Option<String> {
        Some(self.text(path)).filter(|text| !text.is_empty())
    }

    /// The engine's name or alias.
    #[must_use]
    pub fn engine(&self) -> String {
        self.text("engine")
    }

    /// The folder that holds the default store and artifacts.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        PathBuf::from(self.text("data_dir"))
    }

    /// The store's URL, with its password if it has one.
    #[must_use]
    pub fn store_url(&self) -> String {
        self.text("store.url")
    }

    /// Options for opening the store. Nobody empties an outbox here, so there is none.
    #[must_use]
    pub fn store_options(&self) -> statestore::Options {
        statestore::Options {
            write_budget: self.millis("store.write_budget_ms"),
            durability: match self.text("store.durability").as_str() {
                "normal" => Durability::Normal,
                _ => Durability::Full,
            },
            outbox: false,
            ..statestore::Options::default()
        }
    }

    /// Whose runs these are.
    ///
    /// # Errors
    /// `INVALID_ID` when the tenant breaks its rule.
    pub fn tenant(&self) -> Result<TenantId> {
        TenantId::new(self.text("tenant")).map_err(|error| {
            let rule = error.hint().unwrap_or_default().to_owned();
            Error::new(Code::InvalidId, format!("configuration key tenant: {}", error.message()))
                .with_hint(rule)
        })
    }

    /// The project that runs belong to.
    #[must_use]
    pub fn project(&self) -> String {
        self.text("project")
    }

    /// The environment that secrets come from.
    #[must_use]
    pub fn environment(&self) -> String {
        self.text("environment")
    }

    /// Who acts.
    #[must_use]
    pub fn actor(&self) -> String {
        self.text("actor")
    }

    /// How long a signal's sender waits for the decision.
    #[must_use]
    pub fn signal_timeout(&self) -> Duration {
        self.millis("signal_timeout_ms")
    }

    /// The worker's name, when one was chosen.
    #[must_use]
    pub fn worker_name(&self) -> Option<String> {
        self.optional("worker.name")
    }

    /// The largest output that stands in the log itself.
    #[must_use]
    pub fn inline_limit(&self) -> usize {
        usize::try_from(self.number("worker.inline_limit_bytes")).unwrap_or(usize::MAX)
    }

    /// How long a worker's claim on an attempt holds unless it is renewed.
    #[must_use]
    pub fn claim(&self) -> Duration {
        self.millis("worker.claim_ms")
    }

    /// Where large outputs go: a folder or a URL.
    #[must_use]
    pub fn artifacts_url(&self) -> String {
        self.text("artifacts.url")
    }

    /// How an S3 store for large outputs is reached.
    #[must_use]
    pub fn artifacts_s3(&self) -> worker::S3Settings {
        worker::S3Settings {
            endpoint: self.optional("artifacts.endpoint"),
            region: self.optional("artifacts.region"),
            access_key_id: self.optional("artifacts.access_key_id"),
            secret_access_key: self.optional("artifacts.secret_access_key"),
        }
    }

    /// Programs that the `exec` handler may start.
    #[must_use]
    pub fn exec_allow(&self) -> Vec<String> {
        self.list("exec.allow")
    }

    /// Addresses that the `http` handler may call.
    #[must_use]
    pub fn http_allow(&self) -> Vec<String> {
        self.list("http.allow")
    }

    /// The folder that `file:` secrets are read from.
    #[must_use]
    pub fn secrets_folder(&self) -> Option<PathBuf> {
        self.optional("secrets.folder").map(PathBuf::from)
    }

    /// What stands before the name of an `env:` secret's variable.
    #[must_use]
    pub fn secrets_prefix(&self) -> String {
        self.text("secrets.env_prefix")
    }

    /// How long the embedded engine's lease on a run holds unless it is renewed.
    #[must_use]
    pub fn embedded_lease(&self) -> Duration {
        self.millis("embedded.lease_ms")
    }

    /// How long the embedded engine waits for handlers that run, when it is stopped.
    #[must_use]
    pub fn embedded_shutdown_grace(&self) -> Duration {
        self.millis("embedded.shutdown_grace_ms")
    }
}

impl Config {
    /// The words that say the same on another command line; secrets are not in them.
    #[must_use]
    pub fn flag_words(&self) -> Vec<(String, String)> {
        let file = self.file.as_ref().filter(|_| self.named);
        let mut words: Vec<(String, String)> =
            file.map(|file| ("--config".to_owned(), shown(file))).into_iter().collect();
        for key in KEYS {
            let Some((value, Source::Flag(flag))) = self.values.get(key.path) else { continue };
            let text = match value {
                _ if key.secret => continue,
                Value::Text(text) => show::without_password(text),
                Value::Number(number) => number.to_string(),
                Value::List(items) => items.join(","),
            };
            if flag.starts_with("--set ") {
                words.push(("--set".to_owned(), format!("{}={text}", key.path)));
            } else if flag.starts_with("--") {
                words.push((flag.clone(), text));
            }
        }
        words
    }
}

/// The name that this person is logged in under.
fn login_name() -> String {
    ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// A path as it is shown in messages.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
