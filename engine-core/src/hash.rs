//! SHA-256 over text and over canonical JSON.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of `bytes`, as lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// `value` as JSON with sorted keys and no white space: equal values give equal text.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut bytes = Vec::new();
    write_canonical(value, &mut bytes);
    // JSON is written from text, so it is text.
    String::from_utf8(bytes).unwrap_or_default()
}

fn write_canonical(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            if !fields.is_sorted_by_key(|(name, _)| *name) {
                fields.sort_unstable_by_key(|(name, _)| *name);
            }
            bytes.push(b'{');
            for (position, (name, field)) in fields.into_iter().enumerate() {
                if position > 0 {
                    bytes.push(b',');
                }
                write_scalar(name, bytes);
                bytes.push(b':');
                write_canonical(field, bytes);
            }
            bytes.push(b'}');
        }
        Value::Array(items) => {
            bytes.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    bytes.push(b',');
                }
                write_canonical(item, bytes);
            }
            bytes.push(b']');
        }
        scalar => write_scalar(scalar, bytes),
    }
}

fn write_scalar(scalar: &impl serde::Serialize, bytes: &mut Vec<u8>) {
    // Writing text or a number into memory cannot fail.
    let _ = serde_json::to_writer(bytes, scalar);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hashing_gives_the_well_known_digest() {
        assert_eq!(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn canonical_text_does_not_depend_on_key_order() {
        let left: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "é"}], "a": true}"#).unwrap();
        assert_eq!(canonical_json(&left), r#"{"a":true,"b":[1,{"x":"é","y":null}]}"#);
        assert_ne!(canonical_json(&json!({"a": 1})), canonical_json(&json!({"a": "1"})));
    }
}
