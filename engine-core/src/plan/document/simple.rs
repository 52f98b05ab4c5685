//! The quick way to read YAML: documents without anchors, tags and unusual scalars, which most plans are.
//!
//! Whatever is not plain to see is left to the full reader, mistakes included; so this one needs no errors and
//! may never read anything differently.

use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use super::DEEPEST_NESTING;

/// A list or an object whose end has not come yet.
enum Open {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

/// The document, if it is a simple one.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let value = match event.ok()?.0 {
            Event::Scalar(text, style, 0, None) => {
                if let Some(Open::Object(_, key @ None)) = open.last_mut() {
                    *key = Some(as_key(&text, style)?);
                    continue;
                }
                scalar(text.into_owned(), style)?
            }
            Event::SequenceStart(_, 0, None) => {
                open.push(Open::List(Vec::new()));
                None
            }
            Event::MappingStart(_, 0, None) => {
                open.push(Open::Object(Map::new(), None));
                None
            }
            Event::SequenceEnd => match open.pop()? {
                Open::List(items) => Some(Value::Array(items)),
                Open::Object(..) => return None,
            },
            Event::MappingEnd => match open.pop()? {
                Open::Object(fields, None) => Some(Value::Object(fields)),
                _ => return None,
            },
            Event::DocumentStart(..) => {
                documents += 1;
                None
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => None,
            _ => return None,
        };
        if documents > 1 || open.len() > DEEPEST_NESTING {
            return None;
        }
        // A list or an object as a key is for the full reader to refuse.
        let Some(value) = value else { continue };
        match open.last_mut() {
            None => root = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object(fields, key)) => {
                if fields.insert(key.take()?, value).is_some() {
                    return None;
                }
            }
        }
    }
    root
}

fn as_key(text: &str, style: ScalarStyle) -> Option<String> {
    let plain = style == ScalarStyle::Plain;
    let unusual = text == "<<" || plain && !text.starts_with(|first: char| first.is_ascii_alphabetic());
    if unusual || plain && is_word(text) { None } else { Some(text.to_owned()) }
}

/// Words that are or may be more than text.
fn is_word(text: &str) -> bool {
    ["true", "false", "null", "nan", "inf", "infinity"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn scalar(text: String, style: ScalarStyle) -> Option<Option<Value>> {
    if style != ScalarStyle::Plain {
        return Some(Some(Value::String(text)));
    }
    let value = match text.as_bytes() {
        b"true" => Value::Bool(true),
        b"false" => Value::Bool(false),
        b"" | b"null" | b"~" => Value::Null,
        [b'a'..=b'z' | b'A'..=b'Z', ..] if !is_word(&text) => Value::String(text),
        [b'1'..=b'9', rest @ ..] if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit) => {
            Value::Number(text.parse::<u64>().ok()?.into())
        }
        b"0" => Value::from(0u64),
        [b'1'..=b'9', rest @ ..] if is_fraction(rest) => Value::Number(Number::from_f64(text.parse().ok()?)?),
        // A date: nothing that counts has these two letters.
        [b'0'..=b'9', ..] if text.contains('T') && text.ends_with('Z') => Value::String(text),
        _ => return None,
    };
    Some(Some(value))
}

/// The rest of a number such as `1.5`.
fn is_fraction(rest: &[u8]) -> bool {
    rest.len() < 15
        && rest.iter().filter(|byte| **byte == b'.').count() == 1
        && rest.last().is_some_and(u8::is_ascii_digit)
        && rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}
