//! Keeping secrets out of everything that is written (SECRET-3).

use engine_core::event::step::{ArtifactRef, StepError, StepOutput};
use engine_core::port::Secret;
use serde_json::Value;

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Secrets shorter than this are replaced only where they are a whole text: as a part of other texts they would be found
/// everywhere, and what is left would tell more than it hides.
const SHORTEST_PART: usize = 4;

/// A line of a secret with several lines, as of a key file, is a secret by itself from this length on.
const SHORTEST_LINE: usize = 8;

/// Replaces secrets by `***`, in texts and in the texts of JSON values. It also knows how a secret looks inside JSON text
/// and inside a URL.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret within another does not leave the rest of that one behind.
    parts: Vec<String>,
    wholes: Vec<String>,
}

impl Redactor {
    /// One for these secrets.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut redactor = Self::default();
        for secret in secrets {
            redactor.learn(secret.expose());
        }
        redactor.parts.sort_unstable_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        redactor.parts.dedup();
        redactor
    }

    fn learn(&mut self, secret: &str) {
        let trimmed = secret.trim();
        if trimmed.is_empty() {
            return;
        }
        if trimmed.chars().count() < SHORTEST_PART {
            self.wholes.push(secret.to_owned());
            self.wholes.push(trimmed.to_owned());
            return;
        }
        self.learn_part(trimmed);
        if trimmed.contains('\n') {
            let lines = trimmed.lines().map(str::trim);
            lines.filter(|line| line.chars().count() >= SHORTEST_LINE).for_each(|line| self.learn_part(line));
        }
    }

    /// The text itself, as JSON writes it, as Rust's debug output writes it, and as a URL writes it.
    fn learn_part(&mut self, text: &str) {
        self.parts.push(text.to_owned());
        let json = Value::from(text).to_string();
        let debug = format!("{text:?}");
        let url: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let with_percent = url.replace('+', "%20");
        for other in [inner(&json), inner(&debug), &url, &with_percent] {
            if other != text {
                self.parts.push(other.to_owned());
            }
        }
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.wholes.is_empty()
    }

    /// Whether a text has a secret in it.
    fn finds(&self, text: &str) -> bool {
        self.parts.iter().any(|part| text.contains(part.as_str()))
            || self.wholes.iter().any(|whole| text.trim() == whole.trim())
    }

    /// A text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.in_text(&mut text);
        text
    }

    pub(crate) fn in_text(&self, text: &mut String) {
        if self.is_empty() || !self.finds(text) {
            return;
        }
        if self.wholes.iter().any(|whole| text.trim() == whole.trim()) {
            MASK.clone_into(text);
            return;
        }
        for part in &self.parts {
            if text.contains(part.as_str()) {
                *text = text.replace(part.as_str(), MASK);
            }
        }
    }

    /// A value without secrets, however deep they lie. Keys are looked at too, and numbers that are a secret.
    pub fn value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.in_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                if fields.keys().any(|name| self.finds(name)) {
                    *fields = std::mem::take(fields)
                        .into_iter()
                        .map(|(name, field)| (self.text(&name), field))
                        .collect();
                }
                fields.values_mut().for_each(|field| self.value(field));
            }
            Value::Number(number) => {
                if self.finds(&number.to_string()) {
                    *value = Value::from(MASK);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub(crate) fn error(&self, error: &mut StepError) {
        self.in_text(&mut error.message);
        self.in_text(&mut error.code);
    }

    pub(crate) fn output(&self, output: &mut StepOutput) {
        if self.is_empty() {
            return;
        }
        if let Some(value) = &mut output.value {
            self.value(value);
        }
        if let Some(artifact) = &mut output.artifact {
            self.artifact(artifact);
        }
        if let Some(content_type) = &mut output.content_type {
            self.in_text(content_type);
        }
        let metadata = std::mem::take(&mut output.metadata);
        output.metadata = metadata
            .into_iter()
            .map(|(name, mut field)| {
                self.value(&mut field);
                (self.text(&name), field)
            })
            .collect();
    }

    pub(crate) fn artifact(&self, artifact: &mut ArtifactRef) {
        self.in_text(&mut artifact.uri);
        self.in_text(&mut artifact.kind);
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} texts)", self.parts.len() + self.wholes.len())
    }
}

/// A quoted text without its quotes.
fn inner(quoted: &str) -> &str {
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redactor(secrets: &[&str]) -> Redactor {
        let secrets: Vec<Secret> = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        Redactor::new(&secrets)
    }

    #[test]
    fn secrets_are_replaced_wherever_they_stand() {
        let cases: &[(&[&str], &str, &str)] = &[
            (&["hunter2"], "the password is hunter2, hunter2!", "the password is ***, ***!"),
            (&["hunter2"], "nothing here", "nothing here"),
            (&["abcd", "abcdefgh"], "x abcdefgh y abcd", "x *** y ***"),
            (&["abcd", "cdef"], "abcdef", "***ef"),
            (&["a\"b\nc"], r#"{"key":"a\"b\nc"}"#, r#"{"key":"***"}"#),
            (&["p@ss w/rd"], "https://x/?k=p%40ss+w%2Frd&l=p%40ss%20w%2Frd", "https://x/?k=***&l=***"),
            (&["hunter2\n"], "hunter2", "***"),
            (&["geheim-ä"], "so geheim-ä", "so ***"),
            (&["-----BEGIN-----\nMIIEvQIBADAN\n-----END-----"], "line MIIEvQIBADAN", "line ***"),
            (&["abc"], "abc", "***"),
            (&["abc"], " abc\n", "***"),
            (&["abc"], "the alphabet is abcdefg", "the alphabet is abcdefg"),
            (&[""], "x", "x"),
            (&["  "], "a  b", "a  b"),
        ];
        for (secrets, text, expected) in cases {
            assert_eq!(redactor(secrets).text(text), *expected, "{secrets:?} in {text:?}");
        }
    }

    #[test]
    fn values_are_searched_to_the_bottom_keys_and_numbers_too() {
        let redactor = redactor(&["hunter2", "123456", "7"]);
        let mut value = json!({"a": [{"b": "hunter2"}, 123_456, 7, 1.5, null], "hunter2": true, "short": "7", "n": "1712"});
        redactor.value(&mut value);
        assert_eq!(
            value,
            json!({"a": [{"b": "***"}, "***", "***", 1.5, null], "***": true, "short": "***", "n": "1712"})
        );
    }

    #[test]
    fn a_redactor_shows_no_secret() {
        assert_eq!(format!("{:?}", redactor(&["hunter2"])), "Redactor(1 texts)");
    }

    proptest! {
        #[test]
        fn no_secret_is_left_in_any_text(
            secrets in prop::collection::vec("[a-c\"\\\\ é\n]{1,9}", 1..4),
            pieces in prop::collection::vec("[a-c\"\\\\ é\n]{0,6}", 0..6),
            chosen in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut text = String::new();
            for (piece, index) in pieces.iter().zip(chosen.iter().map(|index| index.get(&secrets)).chain([&String::new()])) {
                text.push_str(piece);
                text.push_str(index);
            }
            let all: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let redactor = redactor(&all);
            let mut value = json!({"deep": [{"text": text.clone()}], "json": json!({"x": text.clone()}).to_string()});
            redactor.value(&mut value);
            let clean = redactor.text(&text);
            for secret in &secrets {
                let secret = secret.trim();
                if secret.chars().count() >= SHORTEST_PART {
                    prop_assert!(!clean.contains(secret), "{clean:?} has {secret:?}");
                    prop_assert!(!value["deep"][0]["text"].as_str().unwrap().contains(secret));
                    let inside = Value::from(secret).to_string();
                    prop_assert!(!value["json"].as_str().unwrap().contains(inner(&inside)));
                } else if !secret.is_empty() {
                    prop_assert_ne!(clean.trim(), secret);
                }
            }
        }
    }
}
