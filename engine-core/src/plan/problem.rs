//! What is wrong with a plan: every problem at once, each with its place and what to do about it.

use std::fmt;

use serde::{Serialize, Serializer};

use super::document::Place;
use crate::error::{Code, Error};

macro_rules! problem_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kind of a problem. The text of a code never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ProblemCode { $($(#[$doc])* $variant,)* }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable text of the code.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

problem_codes! {
    // The text.
    /// The text is neither YAML nor JSON.
    Syntax = "SYNTAX",
    /// A key stands twice in one object.
    DuplicateKey = "DUPLICATE_KEY",
    /// The text is too long, too deep, or explodes when its aliases are written out.
    DocumentTooLarge = "DOCUMENT_TOO_LARGE",

    // The shape.
    /// A field that plans do not have.
    UnknownField = "UNKNOWN_FIELD",
    /// A field that must be there is not.
    MissingField = "MISSING_FIELD",
    /// A value of another type than the field takes.
    WrongType = "WRONG_TYPE",
    /// A number or length outside of what is allowed.
    OutOfRange = "OUT_OF_RANGE",
    /// A word that is not among those the field takes.
    UnknownValue = "UNKNOWN_VALUE",
    /// A text that is not written the way the field asks for.
    InvalidText = "INVALID_TEXT",

    // The graph.
    /// Two steps have the same id.
    DuplicateStep = "DUPLICATE_STEP",
    /// A reference to a step that is not there.
    UnknownStep = "UNKNOWN_STEP",
    /// A step depends on itself, or is its own fallback.
    SelfDependency = "SELF_DEPENDENCY",
    /// A step names the same dependency twice.
    DuplicateDependency = "DUPLICATE_DEPENDENCY",
    /// Steps depend on each other in a circle.
    Cycle = "CYCLE",
    /// `mode: sequential` in a plan that has `dependsOn`.
    ModeConflict = "MODE_CONFLICT",
    /// Explicit orders that are not 1, 2, 3, … over all steps.
    OrderInvalid = "ORDER_INVALID",
    /// A fallback that breaks the rules for fallbacks.
    FallbackInvalid = "FALLBACK_INVALID",

    // Fields against each other.
    /// Two fields that cannot stand together, or one that needs another.
    FieldConflict = "FIELD_CONFLICT",
    /// `onFailure` and what it needs do not fit.
    FailureActionInvalid = "FAILURE_ACTION_INVALID",
    /// `dispatch: local` where it is not possible.
    LocalDispatchRefused = "LOCAL_DISPATCH_REFUSED",
    /// A schedule that cannot be followed.
    ScheduleInvalid = "SCHEDULE_INVALID",
    /// A time zone that nobody knows.
    UnknownTimeZone = "UNKNOWN_TIME_ZONE",
    /// A handler that is not registered.
    UnknownHandler = "UNKNOWN_HANDLER",

    // Data flow.
    /// A JMESPath expression, or a text with `${ }`, that cannot be read.
    ExpressionInvalid = "EXPRESSION_INVALID",
    /// A JSON Schema that is not valid, or refers to another document.
    SchemaInvalid = "SCHEMA_INVALID",
    /// A path of names that cannot be read.
    PathInvalid = "PATH_INVALID",
    /// A write to what is read-only.
    ReadOnlyWrite = "READ_ONLY_WRITE",
    /// A secret that is no reference.
    SecretInvalid = "SECRET_INVALID",

    /// There are more problems than are listed.
    MoreProblems = "MORE_PROBLEMS",
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What kind of problem it is.
    pub code: ProblemCode,
    /// Where in the plan, as `steps[3].dependsOn[0]`; empty for the plan as a whole.
    pub path: String,
    /// The line in the text, from 1. Absent when the plan did not come from text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What is wrong, for a person.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Problem {
    /// A problem of the plan as a whole. There is none without a hint (PLAN-4).
    #[must_use]
    pub fn new(code: ProblemCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { code, path: String::new(), line: None, column: None, message, hint }
    }

    /// Adds where it stands in the text.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.line = Some(place.line);
        self.column = Some(place.column);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.path.is_empty() { "plan" } else { &self.path })?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(formatter, " (line {line}, column {column})")?;
        }
        write!(formatter, ": {}: {} ({})", self.code, self.message, self.hint)
    }
}

/// Everything that is wrong with a plan, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// The problems, in the order of the text.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        let count = match problems.0.len() {
            1 => "1 problem".to_owned(),
            several => format!("{several} problems"),
        };
        Self::new(Code::PlanInvalid, format!("the plan has {count}:\n{problems}")).with_source(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_place_code_reason_and_next_step() {
        let mut problem =
            Problem::new(ProblemCode::UnknownStep, "there is no step \"lod\"", "did you mean \"load\"?")
                .at(Place { line: 12, column: 9 });
        problem.path = "steps[3].dependsOn[0]".to_owned();
        assert_eq!(
            problem.to_string(),
            "steps[3].dependsOn[0] (line 12, column 9): UNKNOWN_STEP: there is no step \"lod\" (did you mean \"load\"?)"
        );
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["code"], "UNKNOWN_STEP");
        assert_eq!(json["line"], 12);
    }

    #[test]
    fn codes_have_distinct_texts() {
        let texts: std::collections::BTreeSet<_> =
            ProblemCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), ProblemCode::ALL.len());
    }

    #[test]
    fn the_error_of_an_invalid_plan_carries_all_problems() {
        let problems = Problems(vec![
            Problem::new(ProblemCode::Cycle, "first", "one"),
            Problem::new(ProblemCode::Cycle, "second", "two"),
        ]);
        let error = Error::from(problems);
        assert_eq!(error.code(), Code::PlanInvalid);
        assert_eq!(
            error.message(),
            "the plan has 2 problems:\nplan: CYCLE: first (one)\nplan: CYCLE: second (two)"
        );
    }
}
