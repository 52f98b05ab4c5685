//! Points in time, in milliseconds. The core never asks for the time: it comes in as data.

use std::fmt;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Code, Error};

/// A point in time, UTC, with millisecond precision; on the wire `2026-02-11T10:30:00.000Z`.
///
/// Arithmetic saturates: a deadline too far away to write down is simply very far away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that can be written down: the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_999);
    const MIN: Self = Self(-377_705_023_201_000);

    /// The time `millis` after 1970-01-01T00:00:00Z, clamped to what can be written down.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This time and `millis` more.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` until this time; 0 when a skewed clock put them the other way round.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant =
            jiff::Timestamp::from_duration(SignedDuration::from_millis(self.0)).map_err(|_| fmt::Error)?;
        write!(formatter, "{instant:.3}")
    }
}

impl std::str::FromStr for Timestamp {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let instant: jiff::Timestamp = text.parse().map_err(|cause| {
            Error::new(Code::InvalidTime, format!("{text:?} is not a time: {cause}"))
                .with_hint("write it as 2026-02-11T10:30:00Z")
        })?;
        Ok(Self::from_millis(instant.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_has_milliseconds_and_round_trips() {
        let time: Timestamp = "2026-02-11T10:30:00Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-02-11T10:30:00.000Z");
        assert_eq!(time.plus_millis(1).to_string(), "2026-02-11T10:30:00.001Z");
        assert_eq!("2026-02-11T12:30:00+02:00".parse::<Timestamp>().unwrap(), time);
    }

    #[test]
    fn arithmetic_saturates_and_never_runs_backwards() {
        assert_eq!(Timestamp::MAX.plus_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.to_string().parse::<Timestamp>().unwrap(), Timestamp::MAX);
        assert_eq!(
            Timestamp::from_millis(i64::MIN).to_string().parse::<Timestamp>().unwrap(),
            Timestamp::MIN
        );
        assert_eq!(Timestamp::from_millis(5).millis_since(Timestamp::from_millis(9)), 0);
    }
}
