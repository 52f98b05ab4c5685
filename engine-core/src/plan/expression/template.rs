//! Values in which `${ expression }` is replaced.

use serde_json::{Map, Value};

use super::{Expression, Reads};
use crate::error::{Code, Error, Result};
use crate::plan::document::Path;

/// How deep lists and objects of a template may lie within each other.
const DEEPEST: usize = 128;

/// A value with `${ expression }` in its texts, read once.
///
/// A text that is one `${ }` from end to end becomes the expression's value and keeps its type. Within a
/// longer text, text is inserted as it is, null as nothing, and everything else as JSON. `$${` stands for a
/// literal `${`. Keys are left alone.
#[derive(Clone, Debug)]
pub struct Template(Node);

#[derive(Clone, Debug)]
enum Node {
    Fixed(Value),
    Whole(Expression),
    Text(Vec<Part>),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Expression(Expression),
}

/// What is wrong with one text of a template, and where it stands in the value.
#[derive(Debug)]
pub(crate) struct TemplateProblem {
    pub(crate) path: Path,
    pub(crate) error: Error,
}

impl Template {
    /// Reads the texts of `value`.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` for the first text that cannot be read.
    pub fn parse(value: &Value) -> Result<Self> {
        let mut problems = Vec::new();
        let node = build(value, &mut Vec::new(), &mut problems);
        match problems.into_iter().next() {
            None => Ok(Self(node)),
            Some(problem) => Err(problem.error),
        }
    }

    /// Whether there is anything to replace.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self.0, Node::Fixed(_))
    }

    /// Which parts of a step's context the expressions look at.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.each(&mut |_, expression| reads.add(&expression.reads()));
        reads
    }

    /// Calls `visit` with every expression and where its text stands in the value.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&Path, &Expression)) {
        self.0.each(&Path::root(), visit);
    }

    /// The value with every expression replaced by its value over `data`.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` when an expression cannot be evaluated.
    pub fn evaluate(&self, data: &Value) -> Result<Value> {
        self.0.evaluate(data)
    }
}

/// The template as far as it can be read, and every text of `value` that cannot.
pub(crate) fn check_template(value: &Value) -> (Template, Vec<TemplateProblem>) {
    let mut problems = Vec::new();
    let node = build(value, &mut Vec::new(), &mut problems);
    (Template(node), problems)
}

impl Node {
    fn evaluate(&self, data: &Value) -> Result<Value> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Whole(expression) => expression.evaluate(data)?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(part) => text.push_str(part),
                        Part::Expression(expression) => match expression.evaluate(data)? {
                            Value::Null => {}
                            Value::String(part) => text.push_str(&part),
                            other => text.push_str(&other.to_string()),
                        },
                    }
                }
                Value::String(text)
            }
            Self::List(items) => {
                Value::Array(items.iter().map(|item| item.evaluate(data)).collect::<Result<_>>()?)
            }
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(name, field)| Ok((name.clone(), field.evaluate(data)?)))
                    .collect::<Result<Map<_, _>>>()?,
            ),
        })
    }

    fn each(&self, path: &Path, visit: &mut dyn FnMut(&Path, &Expression)) {
        match self {
            Self::Fixed(_) => {}
            Self::Whole(expression) => visit(path, expression),
            Self::Text(parts) => {
                for part in parts {
                    if let Part::Expression(expression) = part {
                        visit(path, expression);
                    }
                }
            }
            Self::List(items) => {
                for (position, item) in items.iter().enumerate().filter(|(_, item)| !item.is_fixed()) {
                    item.each(&path.clone().index(position), visit);
                }
            }
            Self::Object(fields) => {
                for (name, field) in fields.iter().filter(|(_, field)| !field.is_fixed()) {
                    field.each(&path.clone().key(name.as_str()), visit);
                }
            }
        }
    }

    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

enum Down<'a> {
    Key(&'a str),
    Index(usize),
}

fn build<'a>(value: &'a Value, way: &mut Vec<Down<'a>>, problems: &mut Vec<TemplateProblem>) -> Node {
    if way.len() > DEEPEST {
        let error =
            Error::new(Code::ExpressionInvalid, format!("values are nested more than {DEEPEST} deep"))
                .with_hint("keep `with` flatter");
        problems.push(TemplateProblem { path: path_of(way), error });
        return Node::Fixed(Value::Null);
    }
    match value {
        Value::String(text) => scan(text).unwrap_or_else(|error| {
            problems.push(TemplateProblem { path: path_of(way), error });
            Node::Fixed(Value::Null)
        }),
        Value::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for (position, item) in items.iter().enumerate() {
                way.push(Down::Index(position));
                nodes.push(build(item, way, problems));
                way.pop();
            }
            if nodes.iter().all(Node::is_fixed) { fixed_list(nodes) } else { Node::List(nodes) }
        }
        Value::Object(fields) => {
            let mut nodes = Vec::with_capacity(fields.len());
            for (name, field) in fields {
                way.push(Down::Key(name));
                nodes.push((name.clone(), build(field, way, problems)));
                way.pop();
            }
            if nodes.iter().all(|(_, node)| node.is_fixed()) {
                fixed_object(nodes)
            } else {
                Node::Object(nodes)
            }
        }
        scalar => Node::Fixed(scalar.clone()),
    }
}

fn fixed_list(nodes: Vec<Node>) -> Node {
    Node::Fixed(Value::Array(nodes.into_iter().filter_map(into_fixed).collect()))
}

fn fixed_object(nodes: Vec<(String, Node)>) -> Node {
    let fields = nodes.into_iter().filter_map(|(name, node)| Some((name, into_fixed(node)?)));
    Node::Fixed(Value::Object(fields.collect()))
}

fn into_fixed(node: Node) -> Option<Value> {
    match node {
        Node::Fixed(value) => Some(value),
        _ => None,
    }
}

fn path_of(way: &[Down<'_>]) -> Path {
    way.iter().fold(Path::root(), |path, down| match down {
        Down::Key(name) => path.key(*name),
        Down::Index(position) => path.index(*position),
    })
}

fn scan(text: &str) -> Result<Node> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(found) = rest.find("${") {
        if rest[..found].ends_with('$') {
            plain.push_str(&rest[..found - 1]);
            plain.push_str("${");
            rest = &rest[found + 2..];
            continue;
        }
        plain.push_str(&rest[..found]);
        let inside = &rest[found + 2..];
        let Some(length) = expression_length(inside) else {
            return Err(Error::new(
                Code::ExpressionInvalid,
                format!("{text:?} has a `${{` without its `}}`"),
            )
            .with_hint("write `$${` for a literal `${`"));
        };
        let expression = Expression::parse(inside[..length].trim())?;
        rest = &inside[length + 1..];
        if parts.is_empty() && plain.is_empty() && rest.is_empty() {
            return Ok(Node::Whole(expression));
        }
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Expression(expression));
    }
    plain.push_str(rest);
    if parts.is_empty() {
        return Ok(Node::Fixed(Value::String(plain)));
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(Node::Text(parts))
}

/// How long the expression at the start of `text` is: up to the `}` that closes it, not one of its own objects
/// or quoted texts.
fn expression_length(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (offset, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(closing), _) if byte == closing => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'{') => open += 1,
            (None, b'}') if open == 0 => return Some(offset),
            (None, b'}') => open -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evaluated(value: &Value) -> Value {
        let data = json!({"input": {"name": "Ada", "n": 3, "tags": ["x"], "none": null}});
        Template::parse(value).unwrap().evaluate(&data).unwrap()
    }

    #[test]
    fn a_whole_text_keeps_the_type_and_an_embedded_one_becomes_text() {
        assert_eq!(
            evaluated(&json!({
                "whole": "${ input.n }", "text": "${input.name} has ${ input.n }: ${input.tags}",
                "none": "[${input.none}]", "list": [1, "${input.tags[0]}"], "plain": true
            })),
            json!({
                "whole": 3, "text": "Ada has 3: [\"x\"]",
                "none": "[]", "list": [1, "x"], "plain": true
            })
        );
    }

    #[test]
    fn two_dollars_write_a_literal_brace() {
        assert_eq!(evaluated(&json!("$${HOME} ${input.n}")), json!("${HOME} 3"));
        assert_eq!(evaluated(&json!("$${")), json!("${"));
        assert_eq!(evaluated(&json!("costs $5 {x}")), json!("costs $5 {x}"));
    }

    #[test]
    fn braces_of_the_expression_itself_do_not_end_it() {
        assert_eq!(evaluated(&json!("${ {a: input.n, b: {c: '}'}} }")), json!({"a": 3, "b": {"c": "}"}}));
        assert_eq!(evaluated(&json!("${ input.\"name\" || '\\'}' }!")), json!("Ada!"));
    }

    #[test]
    fn every_broken_text_is_found_with_its_way() {
        let (_, problems) =
            check_template(&json!({"a": ["fine", "${ input."], "b": {"c": "${ }", "d": "${x}"}}));
        let ways: Vec<String> = problems.iter().map(|problem| problem.path.to_string()).collect();
        assert_eq!(ways, ["a[1]", "b.c"]);
        assert!(problems[0].error.message().contains("without its `}`"));
    }

    #[test]
    fn a_template_without_expressions_is_fixed() {
        assert!(Template::parse(&json!({"a": [1, "$${x}"]})).unwrap().is_fixed());
        assert!(!Template::parse(&json!({"a": [1, "${x}"]})).unwrap().is_fixed());
    }

    #[test]
    fn a_value_nested_without_end_is_refused() {
        let mut value = json!(1);
        for _ in 0..1000 {
            value = json!([value]);
        }
        assert_eq!(Template::parse(&value).unwrap_err().code(), Code::ExpressionInvalid);
    }
}
