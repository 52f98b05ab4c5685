//! The effective configuration, as people and programs read it. Secrets are never in it.

use serde_json::{Value as Json, json};

use super::keys::{KEYS, Key, Value};
use super::{Config, Source};

/// What stands in a secret's place.
pub const HIDDEN: &str = "(hidden)";

/// One line of the effective configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key.
    pub path: &'static str,
    /// Its value as it is written in a file, with secrets hidden; `None` when it has none.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

impl Config {
    /// Every key with its value and where that comes from.
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        let line = |key: &Key| {
            let (value, source) = self.get(key);
            Shown { path: key.path, value: value.map(|value| safe(key, &value)), source }
        };
        KEYS.iter().map(line).collect()
    }

    /// The same as JSON: path to value and source.
    #[must_use]
    pub fn shown_json(&self) -> Json {
        let entries = KEYS.iter().map(|key| {
            let (value, source) = self.get(key);
            let value = match value {
                None => Json::Null,
                Some(_) if key.secret => json!(HIDDEN),
                Some(Value::Text(text)) => json!(without_password(&text)),
                Some(Value::Number(number)) => json!(number),
                Some(Value::List(items)) => json!(items),
            };
            (key.path.to_owned(), json!({"value": value, "source": source.to_string()}))
        });
        Json::Object(entries.collect())
    }
}

fn safe(key: &Key, value: &Value) -> String {
    match value {
        _ if key.secret => HIDDEN.to_owned(),
        Value::Text(text) => Value::Text(without_password(text)).written(),
        other => other.written(),
    }
}

/// A URL without its password: `postgres://user:***@host/database`. Other texts stay as they are.
#[must_use]
pub fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password may have an @ in it: the host begins after the last one.
    let mut shown = match rest[..end].rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user.to_owned(), |(name, _)| format!("{name}:***"));
            format!("{scheme}://{user}@{host}{}", &rest[end..])
        }
        None => text.to_owned(),
    };
    if let Some((before, after)) = shown.clone().split_once("password=") {
        let end = after.find('&').unwrap_or(after.len());
        shown = format!("{before}password=***{}", &after[end..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_show() {
        for (url, shown) in [
            ("postgres://jane:hunter2@db:5432/runs", "postgres://jane:***@db:5432/runs"),
            (
                "postgres://jane:p@ss:word@db/runs?sslmode=require",
                "postgres://jane:***@db/runs?sslmode=require",
            ),
            (
                "postgres://db/runs?user=jane&password=hunter2&x=1",
                "postgres://db/runs?user=jane&password=***&x=1",
            ),
            ("sqlite://a/b.db", "sqlite://a/b.db"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
