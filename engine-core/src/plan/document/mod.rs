//! Plan documents as text: YAML or JSON to a value, and the line and column of anything in it.
//!
//! - [`PlanSource`]: the text; reads it within fixed limits, so hostile text is refused, not run into;
//! - [`LocatedDocument`]: where every value and key stands, made only when there is a problem to place;
//! - [`path`]: the way from the root to a value.

mod located;
pub mod path;
mod plain;
mod simple;

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, MessageFormatter, Options, UserMessageFormatter};

pub use located::LocatedDocument;
pub use path::{Path, Segment};

use super::problem::{Problem, ProblemCode};
use plain::{Allowance, PlainValue};

/// The longest plan text that is read, in bytes.
pub const LARGEST_PLAN_BYTES: usize = 10 * 1024 * 1024;

/// How deep lists and objects may lie within each other.
pub const DEEPEST_NESTING: usize = 60;

/// What aliases may add: a plan of many steps may share one block, but it may not explode.
const MOST_ALIAS_EVENTS: usize = 500_000;

/// How many values a document may hold, and how much text, once its aliases are written out.
const MOST_NODES: usize = 4_000_000;
const MOST_VALUE_BYTES: usize = 32 * 1024 * 1024;

/// A line and a column, both from 1, counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// The text of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanSource<'text> {
    text: &'text str,
}

impl<'text> PlanSource<'text> {
    /// Takes the text as it is; nothing is read yet.
    #[must_use]
    pub fn new(text: &'text str) -> Self {
        Self { text }
    }

    /// Reads the text. Repeated keys do not stop it: the value then comes with the first of these problems, and
    /// the last one written stands. [`LocatedDocument::repeated_keys`] finds all.
    ///
    /// # Errors
    /// One problem when the text is no YAML or JSON, or is over a limit.
    pub fn value(&self) -> Result<(Value, Option<Problem>), Problem> {
        if self.text.len() > LARGEST_PLAN_BYTES {
            return Err(Problem::new(
                ProblemCode::DocumentTooLarge,
                format!("the text has {} bytes; the limit is {LARGEST_PLAN_BYTES}", self.text.len()),
                "move large values into artifacts, or split the plan",
            ));
        }
        if self.looks_like_json()
            && let Ok(value) = self.read_json()
        {
            return Ok((value, None));
        }
        if let Some(value) = simple::read(self.text) {
            return Ok((value, None));
        }
        match self.read_yaml(DuplicateKeyPolicy::Error) {
            Ok(value) => Ok((value, None)),
            Err(error) => {
                let problem = problem_of(&error);
                if problem.code == ProblemCode::DuplicateKey
                    && let Ok(value) = self.read_yaml(DuplicateKeyPolicy::LastWins)
                {
                    return Ok((value, Some(problem)));
                }
                Err(problem)
            }
        }
    }

    /// Reads the text again, this time for the places. `None` when it cannot be read.
    #[must_use]
    pub fn locate(&self) -> Option<LocatedDocument> {
        let options = options(DuplicateKeyPolicy::LastWins);
        if self.looks_like_json() {
            let text = located::as_yaml(self.text);
            if let Ok(document) = serde_saphyr::from_str_with_options(&text, options.clone()) {
                return Some(document);
            }
        }
        serde_saphyr::from_str_with_options(self.text, options).ok()
    }

    fn looks_like_json(&self) -> bool {
        self.text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
    }

    fn read_json(&self) -> serde_json::Result<Value> {
        let allowance = Allowance::default();
        let text = self.text.trim_start_matches('\u{feff}');
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = PlainValue::root(&allowance).refusing_repeated_keys().deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }

    fn read_yaml(&self, duplicates: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
        let allowance = Allowance::default();
        serde_saphyr::with_deserializer_from_str_with_options(
            self.text,
            options(duplicates),
            |deserializer| PlainValue::root(&allowance).deserialize(deserializer),
        )
    }
}

fn options(duplicates: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        duplicate_keys: duplicates,
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MOST_ALIAS_EVENTS,
        },
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST_NESTING,
            flow_nesting_limit: DEEPEST_NESTING,
            // The second one is refused by name.
            max_documents: 2,
            // The size of the text bounds both; the defaults refuse a plan of ten thousand steps.
            max_events: 8_000_000,
            max_nodes: MOST_NODES,
            // One shared retry policy used by every step is what anchors are for.
            enforce_alias_anchor_ratio: false,
        },
    }
}

fn problem_of(error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::Error as Yaml;
    let mut bare = error.without_snippet();
    while let Yaml::AliasError { error, .. } = bare {
        bare = error.without_snippet();
    }
    let text = UserMessageFormatter.format_message(bare);
    let problem = match bare {
        Yaml::DuplicateMappingKey { key, .. } => located::repeated_key(key.as_deref().unwrap_or("?")),
        Yaml::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => too_large(),
        _ if text.contains(TOO_DEEP) || text.contains("recursion limit") => too_deep(),
        _ if text.contains(TOO_LARGE) => too_large(),
        Yaml::MultipleDocuments { .. } => Problem::new(
            ProblemCode::Syntax,
            "the text holds more than one document",
            "put each plan into its own file",
        ),
        _ => Problem::new(
            ProblemCode::Syntax,
            format!("the text is neither YAML nor JSON: {}", text.replace(char::is_control, " ")),
            "look at indentation, brackets and quotes at this place and just before it",
        ),
    };
    match error.location() {
        Some(location) => problem.at(place_of(location)),
        None => problem,
    }
}

/// Marks of our own limits in the readers' errors, which carry text only.
const TOO_DEEP: &str = "values are nested too deep";
const TOO_LARGE: &str = "the text becomes too large when its aliases are written out";

fn too_deep() -> Problem {
    Problem::new(
        ProblemCode::DocumentTooLarge,
        format!("lists and objects lie more than {DEEPEST_NESTING} deep within each other"),
        format!("keep nesting within {DEEPEST_NESTING} levels"),
    )
}

fn too_large() -> Problem {
    Problem::new(
        ProblemCode::DocumentTooLarge,
        format!(
            "with its aliases written out the text is over a limit: {MOST_NODES} values, {MOST_VALUE_BYTES} bytes of text, {MOST_ALIAS_EVENTS} values repeated by aliases"
        ),
        "use fewer aliases, or split the plan",
    )
}

fn place_of(location: serde_saphyr::Location) -> Place {
    Place {
        line: u32::try_from(location.line()).unwrap_or(u32::MAX),
        column: u32::try_from(location.column()).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_reader_reads_what_the_full_reader_reads_or_nothing() {
        let documents = [
            "a: 1\nb: [x, \"y\", 'z', 1.5, 0, true, false, null, ~, ]\nc:\n  d: |\n    text\n  e: >-\n    a\n    b\n",
            "a: 2026-01-01T00:00:00Z\nb: step-1\nc: http://x/y?z\n# comment\nd: {}\ne: []\nf:\n",
            "a: 012\n",
            "a: 0x1F\n",
            "a: 1_000\n",
            "a: 1e5\n",
            "a: -3\n",
            "a: +3\n",
            "a: .5\n",
            "a: 1.\n",
            "a: True\n",
            "a: NULL\n",
            "a: yes\n",
            "a: .inf\n",
            "a: 18446744073709551616\n",
            "a: 123456789012345678\n",
            "a: &x 1\nb: *x\n",
            "a: !!str 1\n",
            "1: x\n",
            "true: x\n",
            "\"1\": x\n",
            "? [a]\n: b\n",
            "<<: {a: 1}\n",
            "a: 1\na: 2\n",
            "- a\n- b: c\n",
            "text\n",
            "",
            "---\na: 1\n...\n",
            "a: 1\n---\nb: 2\n",
            "a: [1\n",
            "a: 1.10\nb: 10.25\nc: 1.2.3\nd: 10:30\ne: 1T2Z\nf: inf\ng: Nan\n",
        ];
        let mut quick = 0;
        for text in documents {
            if let Some(value) = simple::read(text) {
                quick += 1;
                let full = PlanSource::new(text).read_yaml(DuplicateKeyPolicy::Error);
                assert_eq!(Some(value), full.ok(), "{text:?}");
            }
        }
        assert!(quick >= 6, "the quick reader read only {quick}");
    }
}
