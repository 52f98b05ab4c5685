//! How large payloads may be.

use std::io;

use serde_json::Value;

use crate::error::{Code, Error, Result};

/// The largest output that stands in the log itself; a larger one goes to the artifact store.
pub const INLINE_BYTES: usize = 256 * 1024;

/// The largest payload of a synchronous request.
pub const SYNCHRONOUS_BYTES: usize = 1024 * 1024;

/// The largest payload of an asynchronous request, and of anything that is stored with a run.
pub const JOURNAL_BYTES: usize = 10 * 1024 * 1024;

/// Refuses a payload that is over `limit`. `what` names it, as `the output of step load`.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE` with both sizes.
pub fn check_size(what: &str, bytes: usize, limit: usize) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::new(Code::PayloadTooLarge, format!("{what} has {bytes} bytes; the limit is {limit}"))
        .with_hint("store it as an artifact and pass its reference"))
}

/// How many bytes `value` has as JSON, without writing it.
#[must_use]
pub fn json_size(value: &Value) -> usize {
    let mut counter = Counter(0);
    // Counting cannot fail, and a value has only text as keys.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_is_that_of_the_written_value() {
        let value = json!({"a": [1, "ä\n"], "b": null});
        assert_eq!(json_size(&value), value.to_string().len());
    }

    #[test]
    fn a_payload_at_the_limit_passes_and_one_byte_more_does_not() {
        assert!(check_size("the input", INLINE_BYTES, INLINE_BYTES).is_ok());
        let error = check_size("the input", INLINE_BYTES + 1, INLINE_BYTES).unwrap_err();
        assert_eq!(error.code(), Code::PayloadTooLarge);
        assert_eq!(error.message(), "the input has 262145 bytes; the limit is 262144");
    }
}
