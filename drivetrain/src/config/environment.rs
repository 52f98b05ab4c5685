//! `DRIVETRAIN_…` variables.

use std::path::PathBuf;

use super::ConfigProblem;
use super::keys::{KEYS, Key, Value, nearest};

const PREFIX: &str = "DRIVETRAIN_";
/// Names the file.
pub const FILE_VARIABLE: &str = "DRIVETRAIN_CONFIG";
/// Variables that hold secrets, and those of the product's own tests.
const OTHERS: [&str; 2] = ["DRIVETRAIN_SECRET_", "DRIVETRAIN_TEST_"];

/// The file that the environment names.
pub(super) fn file(variables: &[(String, String)]) -> Option<PathBuf> {
    let named = variables.iter().find(|(name, value)| name == FILE_VARIABLE && !value.is_empty());
    named.map(|(_, value)| PathBuf::from(value))
}

/// What a variable sets; nothing when it is none of ours.
pub(super) fn read(name: &str, text: &str) -> Result<Option<(&'static Key, Value)>, ConfigProblem> {
    let other = OTHERS.iter().any(|prefix| name.starts_with(prefix));
    if !name.starts_with(PREFIX) || name == FILE_VARIABLE || other {
        return Ok(None);
    }
    let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
        let hint = match nearest(name, KEYS.iter().map(Key::variable)) {
            Some(near) => format!("did you mean {near}? otherwise unset it"),
            None => "unset it; `drivetrain config show` lists all keys".to_owned(),
        };
        return Err(ConfigProblem::new(name, "no configuration key has this variable", hint));
    };
    match key.parse(text) {
        Ok(value) => Ok(Some((key, value))),
        Err((message, hint)) => Err(ConfigProblem::new(name, message, hint)),
    }
}
