//! Pages: how large one may be, and where the next one begins.

use engine_core::port::store::PageKey;
use engine_core::{Code, Error, Result, RunId, Timestamp};

/// The most events that one read gives.
pub(crate) const EVENTS: usize = 10_000;

/// The most of anything else that one call gives or takes.
pub(crate) const ROWS: usize = 1_000;

/// A limit as databases count, at most `most`.
pub(crate) fn limit(asked: usize, most: usize) -> i64 {
    i64::try_from(asked.min(most)).unwrap_or(i64::MAX)
}

/// A place in a log as databases count.
pub(crate) fn place(run_seq: u64) -> i64 {
    i64::try_from(run_seq).unwrap_or(i64::MAX)
}

/// A count or place as it came from a database, which never holds a negative one.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The place of a run in a list: when it was made, then its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPlace {
    pub(crate) created_at: Timestamp,
    pub(crate) run_id: RunId,
}

impl ListPlace {
    pub(crate) fn to_key(&self) -> PageKey {
        PageKey(format!("{}~{}", self.created_at.as_millis(), self.run_id))
    }

    pub(crate) fn from_key(key: &PageKey) -> Result<Self> {
        let parsed = key.0.split_once('~').and_then(|(created_at, run_id)| {
            Some(Self {
                created_at: Timestamp::from_millis(created_at.parse().ok()?),
                run_id: RunId::new(run_id).ok()?,
            })
        });
        parsed.ok_or_else(|| {
            Error::new(Code::InvalidId, format!("{:?} is not a page key", key.0))
                .with_hint("use the `next` of the page before, as it is; leave it out for the first page")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_key_comes_back_as_the_place_it_was_made_from() {
        let place =
            ListPlace { created_at: Timestamp::from_millis(-5), run_id: RunId::new("a.b-1").unwrap() };
        assert_eq!(ListPlace::from_key(&place.to_key()).unwrap(), place);
    }

    #[test]
    fn a_text_that_is_no_page_key_is_refused() {
        for bad in ["", "~", "1~", "x~a", "1~a b", "99999999999999999999~a", "'; DROP TABLE runs; --"] {
            let error = ListPlace::from_key(&PageKey(bad.to_owned())).unwrap_err();
            assert_eq!(error.code(), Code::InvalidId, "{bad:?}");
        }
    }

    #[test]
    fn limits_and_places_fit_into_what_databases_count_with() {
        assert_eq!(limit(usize::MAX, EVENTS), 10_000);
        assert_eq!(limit(0, EVENTS), 0);
        assert_eq!(place(u64::MAX), i64::MAX);
        assert_eq!(count(-1), 0);
    }
}
