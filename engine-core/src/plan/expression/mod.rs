//! JMESPath in plans: conditions and transforms, and values with `${ }` in them.
//!
//! - [`Expression`]: one expression, read once and evaluated often;
//! - [`Template`]: the values of `with`, in which `${ expression }` is replaced;
//! - [`Reads`]: which parts of a step's context an expression can see.

mod reads;
mod template;

use std::fmt;

use jpx_core::ast::Ast;
use jpx_core::{ErrorReason, JmespathError};
use serde_json::Value;

pub use reads::Reads;
pub use template::Template;
pub(crate) use template::check_template;

use crate::error::{Code, Error, Result};

/// The longest expression that is read, in bytes.
pub const LONGEST_EXPRESSION_BYTES: usize = 16 * 1024;

/// A JMESPath expression with the standard functions.
#[derive(Clone)]
pub struct Expression(jpx_core::Expression<'static>);

impl Expression {
    /// Reads an expression. Functions that do not exist are found here already, not when it is evaluated.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` with the position in the text.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > LONGEST_EXPRESSION_BYTES {
            return Err(Error::new(
                Code::ExpressionInvalid,
                format!(
                    "an expression of {} bytes is over the limit of {LONGEST_EXPRESSION_BYTES}",
                    text.len()
                ),
            ));
        }
        let expression = jpx_core::compile(text).map_err(|cause| unreadable(text, &cause))?;
        match unknown_function(expression.as_ast()) {
            None => Ok(Self(expression)),
            // The parser places a call at its parenthesis.
            Some((offset, name)) => Err(Error::new(
                Code::ExpressionInvalid,
                format!(
                    "{text:?} calls {name}() at character {}, which JMESPath does not have",
                    character(text, offset.saturating_sub(name.len()))
                ),
            )),
        }
    }

    /// The value of the expression over `data`. What is not there is null.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` when a function gets a value that it does not take.
    pub fn evaluate(&self, data: &Value) -> Result<Value> {
        self.0.search(data).map_err(|cause| {
            Error::new(
                Code::ExpressionInvalid,
                format!("{:?} cannot be evaluated: {}", self.as_str(), reason(&cause)),
            )
        })
    }

    /// Whether the expression is true over `data`, in the sense of [`is_truthy`].
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn is_true(&self, data: &Value) -> Result<bool> {
        self.evaluate(data).map(|value| is_truthy(&value))
    }

    /// Which parts of a step's context the expression looks at.
    #[must_use]
    pub fn reads(&self) -> Reads {
        reads::of(self.0.as_ast())
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Expression({:?})", self.as_str())
    }
}

/// Truth as JMESPath has it: null, false, and the empty text, list and object are false; every number is true.
#[must_use]
pub fn is_truthy(value: &Value) -> bool {
    jpx_core::ValueExt::is_truthy(value)
}

fn unreadable(text: &str, cause: &JmespathError) -> Error {
    Error::new(
        Code::ExpressionInvalid,
        format!("{text:?} is no JMESPath at character {}: {}", character(text, cause.offset), reason(cause)),
    )
}

fn reason(cause: &JmespathError) -> String {
    match &cause.reason {
        ErrorReason::Parse(reason) => lower_first(reason.trim()),
        ErrorReason::Runtime(reason) => lower_first(&reason.to_string()),
        other => other.to_string(),
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The character, from 1, at a byte offset that may lie within a character or beyond the end.
fn character(text: &str, offset: usize) -> usize {
    text.char_indices().take_while(|(start, _)| *start < offset).count() + 1
}

fn unknown_function(root: &Ast) -> Option<(usize, &str)> {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match node {
            Ast::Function { offset, name, args } => {
                if jpx_core::DEFAULT_RUNTIME.get_function(name).is_none() {
                    return Some((*offset, name));
                }
                open.extend(args);
            }
            Ast::Comparison { lhs, rhs, .. }
            | Ast::Projection { lhs, rhs, .. }
            | Ast::And { lhs, rhs, .. }
            | Ast::Or { lhs, rhs, .. }
            | Ast::Subexpr { lhs, rhs, .. } => open.extend([&**lhs, &**rhs]),
            Ast::Condition { predicate, then, .. } => open.extend([&**predicate, &**then]),
            Ast::Expref { ast: node, .. }
            | Ast::Flatten { node, .. }
            | Ast::Not { node, .. }
            | Ast::ObjectValues { node, .. } => open.push(node),
            Ast::MultiList { elements, .. } => open.extend(elements),
            Ast::MultiHash { elements, .. } => open.extend(elements.iter().map(|pair| &pair.value)),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_there_is_null_and_false() {
        let expression = Expression::parse("steps.load.output.rows").unwrap();
        assert_eq!(expression.evaluate(&json!({})).unwrap(), Value::Null);
        assert!(!expression.is_true(&json!({})).unwrap());
        assert!(expression.is_true(&json!({"steps": {"load": {"output": {"rows": 0}}}})).unwrap());
    }

    #[test]
    fn a_syntax_error_names_its_character() {
        let error = Expression::parse("input.\"ä\"..b").unwrap_err();
        assert_eq!(error.code(), Code::ExpressionInvalid);
        assert!(error.message().contains("at character 11"), "{}", error.message());
    }

    #[test]
    fn an_unknown_function_is_found_before_any_evaluation() {
        let error = Expression::parse("length(sume(items))").unwrap_err();
        assert!(error.message().contains("sume() at character 8"), "{}", error.message());
    }

    #[test]
    fn a_function_that_gets_the_wrong_value_is_an_error() {
        let error = Expression::parse("sum(items)").unwrap().evaluate(&json!({"items": "x"})).unwrap_err();
        assert_eq!(error.code(), Code::ExpressionInvalid);
    }

    #[test]
    fn hostile_expressions_are_refused_not_run_into() {
        let deep = format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000));
        let long = "a".repeat(LONGEST_EXPRESSION_BYTES + 1);
        let chain = vec!["!"; 8_000].concat();
        let literal = format!("`{}`", "[".repeat(8_000));
        for text in [deep, long, chain, literal, "\u{1f600}`".into(), "é[".into(), "\"é".into()] {
            assert!(Expression::parse(&text).is_err(), "{}", &text.chars().take(20).collect::<String>());
        }
    }
}
