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

use crate::data::{JOURNAL_BYTES, json_size};
use crate::error::{Code, Error, Result};

/// The longest expression that is read, in bytes.
pub const LONGEST_EXPRESSION_BYTES: usize = 4 * 1024;

/// How much an expression may build on the way to its result, in bytes of JSON, by a bound from above. `[@,@]`
/// doubles its input, and a row of them would make more out of little than any machine can hold.
pub const LARGEST_WORK_BYTES: usize = 256 * 1024 * 1024;

/// A JMESPath expression with the standard functions.
#[derive(Clone)]
pub struct Expression {
    compiled: jpx_core::Expression<'static>,
    /// How many times the size of its data it may build at most.
    growth: usize,
}

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
            )
            .with_hint("split it over several steps, or do the work in a handler"));
        }
        if let Some(error) = not_an_expression(text) {
            return Err(error);
        }
        let expression = jpx_core::compile(text).map_err(|cause| unreadable(text, &cause))?;
        let growth = growth(expression.as_ast());
        if growth > LARGEST_WORK_BYTES {
            return Err(too_much(text));
        }
        match unknown_function(expression.as_ast()) {
            None => Ok(Self { compiled: expression, growth }),
            // The parser places a call at its parenthesis.
            Some((offset, name)) => Err(Error::new(
                Code::ExpressionInvalid,
                format!(
                    "{} calls {name}() at character {}, which JMESPath does not have",
                    shown(text),
                    character(text, offset.saturating_sub(name.len()))
                ),
            )
            .with_hint("use a standard function of JMESPath, as length, sum, join or contains")),
        }
    }

    /// The value of the expression over `data`. What is not there is null.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` when a function gets a value that it does not take, when the result is larger than
    /// anything that is stored with a run (10 MiB), or when the way to it may be over [`LARGEST_WORK_BYTES`].
    pub fn evaluate(&self, data: &Value) -> Result<Value> {
        if self.growth > 1 && json_size(data).saturating_mul(self.growth) > LARGEST_WORK_BYTES {
            return Err(too_much(self.as_str()));
        }
        let value = self.compiled.search(data).map_err(|cause| {
            Error::new(
                Code::ExpressionInvalid,
                format!("{} cannot be evaluated: {}", shown(self.as_str()), reason(&cause)),
            )
        })?;
        if json_size(&value) > JOURNAL_BYTES {
            return Err(Error::new(
                Code::ExpressionInvalid,
                format!("the result of {} has more than {JOURNAL_BYTES} bytes", shown(self.as_str())),
            )
            .with_hint("take less of it, or store it as an artifact and pass its reference"));
        }
        Ok(value)
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
        reads::of(self.compiled.as_ast())
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.compiled.as_str()
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

/// Texts that people write for an expression although they are none.
fn not_an_expression(text: &str) -> Option<Error> {
    let refuse =
        |message: &str, hint: String| Some(Error::new(Code::ExpressionInvalid, message).with_hint(hint));
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return refuse(
            "the expression is empty",
            "write one, as input.amount, or leave the field out".to_owned(),
        );
    }
    if let Some(inside) = trimmed.strip_prefix("${") {
        let inside = inside.strip_suffix('}').unwrap_or(inside).trim();
        return refuse(
            "this field is an expression as a whole, so it has no `${ }`",
            format!("write {}", shown(inside)),
        );
    }
    None
}

fn unreadable(text: &str, cause: &JmespathError) -> Error {
    let hint = match unquoted_step(text) {
        Some(step) => format!("quote the step's id: steps.\"{step}\".output"),
        None => "write JMESPath, as steps.load.output.rows; names with other characters than letters, digits and _ stand in double quotes, texts in single quotes".to_owned(),
    };
    Error::new(
        Code::ExpressionInvalid,
        format!(
            "{} is no JMESPath at character {}: {}",
            shown(text),
            character(text, cause.offset),
            reason(cause)
        ),
    )
    .with_hint(hint)
}

/// The step id with a `-` in it that `text` names without quotes. JMESPath has no minus sign.
fn unquoted_step(text: &str) -> Option<&str> {
    text.match_indices("steps.").find_map(|(start, before)| {
        let rest = &text[start + before.len()..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_-".contains(letter));
        let id = &rest[..end.unwrap_or(rest.len())];
        id.contains('-').then_some(id)
    })
}

/// An expression within a message: in quotes that no expression needs, so nothing has to be escaped.
fn shown(text: &str) -> String {
    const LONGEST_SHOWN: usize = 200;
    let text = text.replace(char::is_control, " ");
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("“{}…”", &text[..end]),
        None => format!("“{text}”"),
    }
}

fn too_much(text: &str) -> Error {
    Error::new(
        Code::ExpressionInvalid,
        format!("{} may build more than {LARGEST_WORK_BYTES} bytes out of its data", shown(text)),
    )
    .with_hint("name the fields it needs instead of repeating a whole value")
}

/// How many times the size of its data an expression may build at most.
fn growth(root: &Ast) -> usize {
    let sum = |nodes: &mut dyn Iterator<Item = &Ast>| {
        nodes.fold(0, |sum: usize, node| sum.saturating_add(growth(node)))
    };
    match root {
        // What is on the right works on what the left made.
        Ast::Subexpr { lhs, rhs, .. } | Ast::Projection { lhs, rhs, .. } => {
            growth(lhs).saturating_mul(growth(rhs))
        }
        Ast::Comparison { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => {
            growth(lhs).max(growth(rhs))
        }
        Ast::Condition { predicate, then, .. } => growth(predicate).max(growth(then)),
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => growth(node),
        Ast::Function { name, args, .. } => {
            // `map(&[@,@], list)` applies one argument to another; `to_string` may escape every character.
            let applied = args.iter().map(growth).fold(1, usize::saturating_mul);
            let own = if name == "to_string" { 2 } else { 1 };
            applied.max(sum(&mut args.iter())).saturating_mul(own)
        }
        Ast::MultiList { elements, .. } => sum(&mut elements.iter()).max(1),
        Ast::MultiHash { elements, .. } => sum(&mut elements.iter().map(|pair| &pair.value)).max(1),
        _ => 1,
    }
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
    fn an_expression_cannot_explode() {
        let bomb = vec!["[@,@]"; 40].join(" | ");
        assert_eq!(Expression::parse(&bomb).unwrap_err().code(), Code::ExpressionInvalid);
        assert!(Expression::parse("{a: input.x, b: [input.y, input.z]} | [a, b]").is_ok());
        let large = json!("x".repeat(JOURNAL_BYTES / 2));
        let error = Expression::parse("[@,@]").unwrap().evaluate(&large).unwrap_err();
        assert!(error.message().contains("10485760 bytes"), "{}", error.message());
    }

    #[test]
    fn common_mistakes_get_their_own_hint() {
        let hint = |text: &str| Expression::parse(text).unwrap_err().hint().unwrap_or_default().to_owned();
        assert_eq!(hint("steps.my-step.output"), "quote the step's id: steps.\"my-step\".output");
        assert_eq!(hint("${ input.a }"), "write “input.a”");
        assert!(hint("  ").contains("leave the field out"));
        let message = Expression::parse("a == 'x").unwrap_err();
        assert!(!message.message().contains('\\'), "{}", message.message());
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
