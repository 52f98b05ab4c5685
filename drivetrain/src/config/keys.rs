//! Every key there is: what it takes, its default, and what it means. Files, variables, flags, `config show` and the
//! table in `docs/configuration.md` all come from this one.

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// Texts.
    List(Vec<String>),
}

impl Value {
    /// The value as it is written in a file.
    #[must_use]
    pub fn written(&self) -> String {
        let quoted = |text: &String| format!("{text:?}");
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.to_string(),
            Self::List(items) => format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number, at least and at most.
    Number(u64, u64),
    /// A list of texts; in a variable or flag separated by commas.
    List,
}

/// What holds when nobody says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// A text.
    Text(&'static str),
    /// A number.
    Number(u64),
    /// An empty list.
    Empty,
    /// Nothing.
    Absent,
    /// It follows from something else; this says from what.
    Derived(&'static str),
}

impl DefaultValue {
    /// The value, when there is a fixed one.
    #[must_use]
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Text(text) => Some(Value::Text(text.to_owned())),
            Self::Number(number) => Some(Value::Number(number)),
            Self::Empty => Some(Value::List(Vec::new())),
            Self::Absent | Self::Derived(_) => None,
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path, as `store.url`.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when nobody says anything.
    pub default: DefaultValue,
    /// Whether its value is never shown.
    pub secret: bool,
    /// What it means.
    pub about: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: DefaultValue, about: &'static str) -> Key {
    Key { path, kind, default, secret: false, about }
}

const fn secret(path: &'static str, about: &'static str) -> Key {
    Key { path, kind: Kind::Text, default: DefaultValue::Absent, secret: true, about }
}

const DAY_MS: u64 = 86_400_000;

/// Every key there is.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("engine", Kind::Text, DefaultValue::Text("embedded"), "which engine drives runs; `drivetrain doctor` lists those that this program has"),
    key("data_dir", Kind::Text, DefaultValue::Text(".drivetrain"), "folder of the default store and of artifacts"),
    key("tenant", Kind::Text, DefaultValue::Text("default"), "whose runs these are"),
    key("project", Kind::Text, DefaultValue::Text("default"), "the project that runs belong to"),
    key("environment", Kind::Text, DefaultValue::Text("default"), "the environment that secrets come from"),
    key("actor", Kind::Text, DefaultValue::Derived("the login name"), "who starts runs and sends signals"),
    key("signal_timeout_ms", Kind::Number(1, DAY_MS), DefaultValue::Number(20_000), "how long a command waits for the decision on its signal"),
    key("store.url", Kind::Text, DefaultValue::Derived("`sqlite://` and `drivetrain.db` in `data_dir`"), "`sqlite://path`, `postgres://user:password@host/database` or `memory:`"),
    key("store.durability", Kind::Choice(&["full", "normal"]), DefaultValue::Text("full"), "SQLite only: whether an acknowledged write survives a power cut (`full`)"),
    key("store.write_budget_ms", Kind::Number(1, DAY_MS), DefaultValue::Number(3000), "how long a write may take, waiting for a database that is away included"),
    key("worker.name", Kind::Text, DefaultValue::Derived("a fresh one"), "the worker's name in events; must be unique"),
    key("worker.inline_limit_bytes", Kind::Number(0, 10_485_760), DefaultValue::Number(262_144), "larger outputs go to the artifact store"),
    key("worker.claim_ms", Kind::Number(1000, DAY_MS), DefaultValue::Number(30_000), "how long a worker's claim on an attempt holds unless it is renewed"),
    key("artifacts.url", Kind::Text, DefaultValue::Derived("`artifacts` in `data_dir`"), "where large outputs go: a folder, or a URL as `s3://bucket/prefix`"),
    key("artifacts.endpoint", Kind::Text, DefaultValue::Derived("`AWS_ENDPOINT_URL`, else Amazon's"), "with `s3:`, the server, as `https://minio.example.com`; `http://` is not encrypted"),
    key("artifacts.region", Kind::Text, DefaultValue::Derived("`AWS_REGION`, else `us-east-1`"), "with `s3:`, the region"),
    key("artifacts.access_key_id", Kind::Text, DefaultValue::Derived("`AWS_ACCESS_KEY_ID`, else what the machine offers"), "with `s3:`, the access key"),
    secret("artifacts.secret_access_key", "with `s3:`, its secret; otherwise `AWS_SECRET_ACCESS_KEY`"),
    key("exec.allow", Kind::List, DefaultValue::Empty, "programs that the handler `exec` may start: a name on PATH, or `name=path`; empty: none"),
    key("http.allow", Kind::List, DefaultValue::Empty, "hosts that the handler `http` may call, as `api.example.com`, `*.example.com` or `http://localhost:8080`; empty: none"),
    key("secrets.env_prefix", Kind::Text, DefaultValue::Text("DRIVETRAIN_SECRET_"), "the secret `env:NAME` is the variable of this prefix and NAME; no other variable can be read"),
    key("secrets.folder", Kind::Text, DefaultValue::Absent, "folder that `file:name` secrets are read from; without one there are none"),
    key("embedded.lease_ms", Kind::Number(1000, DAY_MS), DefaultValue::Number(15_000), "how long a process that died keeps others from its runs"),
    key("embedded.shutdown_grace_ms", Kind::Number(0, DAY_MS), DefaultValue::Number(30_000), "how long a process that stops waits for handlers that run"),
    key("temporal.address", Kind::Text, DefaultValue::Derived("`TEMPORAL_ADDRESS`, else the profile's, else `localhost:7233`"), "Temporal's frontend, as `host:port` or a URL"),
    key("temporal.namespace", Kind::Text, DefaultValue::Derived("`TEMPORAL_NAMESPACE`, else the profile's, else `default`"), "Temporal's namespace"),
    key("temporal.task_queue", Kind::Text, DefaultValue::Text("drivetrain"), "the task queue of runs, and of steps whose agent has none of its own"),
    key("temporal.agents", Kind::List, DefaultValue::Empty, "agents that have a task queue of their own, as `gpu=gpu-queue`"),
    key("temporal.serves", Kind::List, DefaultValue::Empty, "agents of `temporal.agents` whose task queues this process serves too"),
    key("temporal.dispatch", Kind::Choice(&["queued", "local"]), DefaultValue::Text("queued"), "how steps reach a worker when neither they nor their plan say so"),
    key("temporal.heartbeat_ms", Kind::Number(1000, DAY_MS), DefaultValue::Number(5000), "after how long without a sign of life a step's worker counts as lost"),
    key("temporal.shutdown_grace_ms", Kind::Number(0, DAY_MS), DefaultValue::Number(30_000), "how long a process that stops waits for handlers that run"),
    key("temporal.profile", Kind::Text, DefaultValue::Derived("`TEMPORAL_PROFILE`, else `default`"), "the profile of `temporal.toml`"),
    key("temporal.config_file", Kind::Text, DefaultValue::Derived("`TEMPORAL_CONFIG_FILE`, else where Temporal's own tools look"), "where `temporal.toml` is"),
    secret("temporal.api_key", "API key of Temporal Cloud; it switches TLS on"),
    key("temporal.tls_ca", Kind::Text, DefaultValue::Derived("those that the system trusts"), "file with the authority of the server's certificate; switches TLS on"),
    key("temporal.tls_cert", Kind::Text, DefaultValue::Absent, "file with this client's certificate, for mutual TLS"),
    key("temporal.tls_key", Kind::Text, DefaultValue::Absent, "file with the key of this client's certificate"),
    key("temporal.tls_server_name", Kind::Text, DefaultValue::Derived("that of the address"), "the name that the server's certificate must have"),
    key("conductor.url", Kind::Text, DefaultValue::Text("http://localhost:8080/api"), "Conductor's API"),
    key("conductor.key_id", Kind::Text, DefaultValue::Absent, "access key, where the server wants one"),
    secret("conductor.key_secret", "its secret"),
];

impl Key {
    /// The variable that sets it, as `DRIVETRAIN_STORE_URL`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("DRIVETRAIN_{}", self.path.replace('.', "_").to_uppercase())
    }

    /// What it takes, in words.
    #[must_use]
    pub fn takes(&self) -> String {
        match self.kind {
            Kind::Text => "a text".to_owned(),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Number(least, most) => format!("a whole number from {least} to {most}"),
            Kind::List => "a list of texts".to_owned(),
        }
    }

    /// Reads a value from a variable or a flag.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub fn parse(&self, text: &str) -> Result<Value, (String, String)> {
        let value = match self.kind {
            Kind::Text | Kind::Choice(_) => Value::Text(text.to_owned()),
            Kind::Number(..) => Value::Number(text.trim().parse().map_err(|_| self.refusal(text))?),
            Kind::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::List(items.map(str::to_owned).collect())
            }
        };
        self.check(value)
    }

    /// Refuses a value that the key does not take.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub fn check(&self, value: Value) -> Result<Value, (String, String)> {
        let fits = match (self.kind, &value) {
            (Kind::Text, Value::Text(text)) => !text.trim().is_empty() && !text.contains('\0'),
            (Kind::Choice(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Kind::Number(least, most), Value::Number(number)) => (least..=most).contains(number),
            (Kind::List, Value::List(_)) => true,
            _ => false,
        };
        if fits { Ok(value) } else { Err(self.refusal(&value.written())) }
    }

    fn refusal(&self, given: &str) -> (String, String) {
        let given = if self.secret { "the given value" } else { given };
        (format!("{} cannot be {given}", self.path), format!("write {}", self.takes()))
    }
}

/// The key with this path.
///
/// # Errors
/// That there is none, with the nearest.
pub fn find(path: &str) -> Result<&'static Key, (String, String)> {
    KEYS.iter().find(|key| key.path == path).ok_or_else(|| {
        (format!("there is no key {path:?}"), suggestion(path, KEYS.iter().map(|key| key.path.to_owned())))
    })
}

/// The nearest of `known`, as a hint.
pub(crate) fn suggestion(word: &str, known: impl Iterator<Item = String>) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "`drivetrain config show` lists all".to_owned(),
    }
}

/// The nearest of `known`, if any is near.
pub(crate) fn nearest(word: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .map(|near| {
            // A key in the wrong section is near too.
            let whole = strsim::jaro_winkler(word, &near);
            let moved = if last(word) == last(&near) { 0.95 } else { 0.0 };
            (whole.max(moved), near)
        })
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, near)| near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_and_variables_are_unique() {
        let variables: BTreeSet<String> = KEYS.iter().map(Key::variable).collect();
        assert_eq!(variables.len(), KEYS.len());
    }

    #[test]
    fn every_default_is_a_value_that_the_key_takes() {
        for key in KEYS {
            if let Some(value) = key.default.value() {
                assert!(key.check(value).is_ok(), "{}", key.path);
            }
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        for (wrong, right) in [
            ("store.ulr", "store.url"),
            ("enginge", "engine"),
            ("exec.allowed", "exec.allow"),
            ("worker.lease_ms", "embedded.lease_ms"),
        ] {
            assert_eq!(find(wrong).unwrap_err().1, format!("did you mean {right:?}?"), "{wrong}");
        }
        assert!(find("zzz").unwrap_err().1.contains("config show"));
    }
}
