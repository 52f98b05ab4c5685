//! `drivetrain.toml`: every unknown key and wrong value at once, each with line and column.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Kind, Value, find, nearest};
use super::{ConfigProblem, ConfigProblems, Source, shown};

/// The values in a file, by key.
pub(super) type Values = BTreeMap<&'static str, (Value, Source)>;

/// Reads a file; `None` when it is not there and need not be.
pub(super) fn read(path: &Path, must_exist: bool) -> Result<Option<Values>, ConfigProblems> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text).map(Some),
        Err(cause) if cause.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(cause) => {
            let hint = "name a file that is there with --config or DRIVETRAIN_CONFIG";
            Err(ConfigProblem::new(shown(path), format!("the file cannot be read: {cause}"), hint).into())
        }
    }
}

/// Reads the text of a file.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn parse(path: &Path, text: &str) -> Result<Values, ConfigProblems> {
    let mut reader = Reader { path, text, values: Values::new(), problems: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => reader.table("", table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let place = reader.place(at);
            let message = error.message().replace('\n', ", ");
            reader.problems.push(ConfigProblem::new(place, message, "write it as TOML: key = value"));
        }
    }
    if reader.problems.is_empty() { Ok(reader.values) } else { Err(ConfigProblems(reader.problems)) }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    values: Values,
    problems: Vec<ConfigProblem>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            let path = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let is_section =
                KEYS.iter().any(|key| key.path.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.')));
            match value.get_ref() {
                DeValue::Table(inner) if is_section => self.table(&path, inner),
                _ => self.entry(&path, name.span().start, value),
            }
        }
    }

    fn entry(&mut self, path: &str, name_at: usize, value: &Spanned<DeValue<'_>>) {
        let key = match find(path) {
            Ok(key) => key,
            Err((message, hint)) => {
                // A misspelt section is one problem, not one for each of its keys.
                let sections = KEYS
                    .iter()
                    .filter_map(|key| key.path.split_once('.'))
                    .map(|(section, _)| section.to_owned());
                let (message, hint) = match (value.get_ref(), nearest(path, sections)) {
                    (DeValue::Table(_), Some(near)) => {
                        (format!("there is no section [{path}]"), format!("did you mean [{near}]?"))
                    }
                    (DeValue::Table(_), None) => (
                        format!("there is no section [{path}]"),
                        "`drivetrain config show` lists all keys".to_owned(),
                    ),
                    _ => (message, hint),
                };
                self.problems.push(ConfigProblem::new(self.place(name_at), message, hint));
                return;
            }
        };
        let at = value.span().start;
        let read = match (value.get_ref(), key.kind) {
            (DeValue::String(text), Kind::Text | Kind::Choice(_)) => Some(Value::Text(text.to_string())),
            (DeValue::Integer(number), Kind::Number(..)) => {
                number.to_string().replace('_', "").parse().ok().map(Value::Number)
            }
            (DeValue::Array(items), Kind::List) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect::<Option<Vec<String>>>()
                .map(Value::List),
            _ => None,
        };
        let line = self.line_and_column(name_at).0;
        match read.map(|value| key.check(value)) {
            Some(Ok(value)) => {
                self.values.insert(key.path, (value, Source::File(self.path.to_owned(), line)));
            }
            Some(Err((message, hint))) => {
                self.problems.push(ConfigProblem::new(self.place(at), message, hint));
            }
            None => {
                let message = format!("{} is not {}", key.path, key.takes());
                self.problems.push(ConfigProblem::new(
                    self.place(at),
                    message,
                    format!("write {}", key.takes()),
                ));
            }
        }
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }

    fn place(&self, at: usize) -> String {
        let (line, column) = self.line_and_column(at);
        format!("{}:{line}:{column}", shown(self.path))
    }
}
