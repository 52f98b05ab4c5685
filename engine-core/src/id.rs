//! Newtype identifiers. Each is a cheap-to-clone string whose rule is checked when it is made.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Code, Error};

/// The step id that stands for the run itself in idempotency keys; no step may use it.
pub const RUN_SUBJECT: &str = "RUN";

const LONGEST: usize = 128;

fn made_of(text: &str, extra: &[u8]) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $pattern:literal, $allowed:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The regular expression that every value matches.
            pub const PATTERN: &'static str = $pattern;

            /// The same rule in words.
            pub const RULE: &'static str = $allowed;

            /// Checks `text` and makes the identifier.
            ///
            /// # Errors
            /// `INVALID_ID` when the text is empty, too long or has other characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
                let text = text.as_ref();
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(Error::new(
                        Code::InvalidId,
                        format!("{text:?} is not a valid {}", stringify!($name)),
                    )
                    .with_hint($allowed))
                }
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

identifier!(
    /// One execution of a plan. The store makes it, as a UUIDv7.
    RunId, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -",
    |text| made_of(text, b"_.+-")
);
identifier!(
    /// A step of a plan, unique within it.
    StepId, "^(?!RUN$)[A-Za-z0-9_.-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . - and not the word RUN",
    |text| text != RUN_SUBJECT && made_of(text, b"_.-")
);
identifier!(
    /// A plan, over all of its versions.
    PlanId, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -",
    |text| made_of(text, b"_.+-")
);
identifier!(
    /// One version of a plan.
    PlanVersion, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -; in YAML quote it: \"1.0\"",
    |text| made_of(text, b"_.+-")
);
identifier!(
    /// One signal to one run; sending it again changes nothing.
    SignalId, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -",
    |text| made_of(text, b"_.+-")
);
identifier!(
    /// A stored snapshot of a run that a new run can be restored from.
    CheckpointId, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -",
    |text| made_of(text, b"_.+-")
);
identifier!(
    /// Code that does a step: a registered name, or `engine:native-name` for work the engine hosts.
    HandlerName, "^[A-Za-z0-9_.:@/+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . : @ / + -",
    |text| made_of(text, b"_.:@/+-")
);
identifier!(
    /// A named executor of a handler.
    AgentName, "^[A-Za-z0-9_.-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . -",
    |text| made_of(text, b"_.-")
);
identifier!(
    /// Who owns a run; another tenant's run is not found.
    TenantId, "^[A-Za-z0-9_.+-]{1,128}$",
    "use 1 to 128 characters of A-Z a-z 0-9 _ . + -",
    |text| made_of(text, b"_.+-")
);

impl HandlerName {
    /// The engine that hosts this handler itself, as `temporal` in `temporal:Charge@billing`.
    #[must_use]
    pub fn native_engine(&self) -> Option<&str> {
        self.0.split_once(':').map(|(engine, _)| engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ids_follow_the_contract() {
        assert!(StepId::new("model.orders").is_ok());
        assert!(StepId::new("a".repeat(128)).is_ok());
        for bad in ["", "RUN", "has space", "a|b", "plus+", &"a".repeat(129)] {
            let error = StepId::new(bad).unwrap_err();
            assert_eq!(error.code(), Code::InvalidId, "{bad:?}");
        }
    }

    #[test]
    fn a_version_may_carry_build_metadata() {
        assert!(PlanVersion::new("1.2.0+build-7").is_ok());
        assert!(PlanVersion::new("1 2").is_err());
    }

    #[test]
    fn a_native_handler_names_its_engine() {
        let native = HandlerName::new("temporal:Charge@billing").unwrap();
        assert_eq!(native.native_engine(), Some("temporal"));
        assert_eq!(HandlerName::new("exec").unwrap().native_engine(), None);
    }

    #[test]
    fn reading_an_invalid_id_is_refused() {
        assert!(serde_json::from_str::<StepId>("\"RUN\"").is_err());
    }
}
