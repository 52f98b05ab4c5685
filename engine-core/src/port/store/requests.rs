//! Answers that are given again when the same request comes again.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Code, Error, Result};
use crate::id::TenantId;

/// How long a successful answer is kept, in milliseconds (IDEM-3).
pub const ANSWER_KEPT_MS: u64 = 10 * 60 * 1000;

/// Answers to requests with an `Idempotency-Key`.
#[async_trait]
pub trait RequestLedger: Debug + Send + Sync + 'static {
    /// Keeps a successful answer for `keep_ms`. Returns the answer that counts: an earlier one to the same key, or
    /// this one.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` when the answer is over the limit.
    async fn remember(
        &self,
        tenant_id: &TenantId,
        key: &RequestKey,
        answer: &str,
        keep_ms: u64,
    ) -> Result<Arc<str>>;

    /// The answer that was given to this key, while it is kept.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn recall(&self, tenant_id: &TenantId, key: &RequestKey) -> Result<Option<Arc<str>>>;

    /// Deletes what has expired, answers and claims; how many answers.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the store is away.
    async fn sweep(&self) -> Result<u64>;
}

/// The value of an `Idempotency-Key`: 1 to 255 letters, digits and hyphens (IDEM-1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(Arc<str>);

impl RequestKey {
    /// Checks `text` and makes the key.
    ///
    /// # Errors
    /// `INVALID_ID` when the text is empty, too long or has other characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        let valid = (1..=255).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !valid {
            let message = format!("{text:?} is not a valid Idempotency-Key");
            return Err(
                Error::new(Code::InvalidId, message).with_hint("use 1 to 255 characters of A-Z a-z 0-9 -")
            );
        }
        Ok(Self(text.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_letters_digits_and_hyphens() {
        assert_eq!(RequestKey::new("order-2026-7").unwrap().as_str(), "order-2026-7");
        assert!(RequestKey::new("a".repeat(255)).is_ok());
        for bad in ["", "a b", "a_b", "ä", &"a".repeat(256)] {
            assert_eq!(RequestKey::new(bad).unwrap_err().code(), Code::InvalidId, "{bad:?}");
        }
    }
}
