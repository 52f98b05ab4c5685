//! Vocabulary on the wire: enums that readers can meet with values they do not know yet.

/// Defines an open enum: known values, and `Other` for a value that a newer version wrote.
macro_rules! open_enum {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A value this version does not know, kept as it was read.
            Other(Box<str>),
        }

        impl $name {
            /// Every value this version knows.
            pub const KNOWN: &'static [&'static str] = &[$($text,)*];

            /// The value as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(String::deserialize(deserializer)?.as_str()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "minLength": 1,
                    "examples": [$($text,)*],
                })
            }
        }
    };
}

pub(crate) use open_enum;

/// Reads a value, or the default when a newer version wrote one that this version does not know. Decisions never
/// rest on such a default: a new value comes with a new decider version, and such a run is left alone.
pub(crate) fn known_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned + Default,
{
    let value = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads a field that may hold any value, null included: present, it is `Some`, whatever it holds. With
/// `default` an absent field is `None`.
pub(crate) fn present<'de, D>(deserializer: D) -> Result<Option<serde_json::Value>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    <serde_json::Value as serde::Deserialize>::deserialize(deserializer).map(Some)
}

/// Turns number formats that only some tools know into the plain bounds that `bound` gives. A bound that the schema
/// has already stays.
pub(crate) fn portable(schema: &mut serde_json::Value, bound: fn(&str) -> Option<u64>) {
    use serde_json::Value;
    match schema {
        Value::Object(fields) => {
            let format = fields.get("format").and_then(Value::as_str).map(str::to_owned);
            if let Some(format) = format
                && ["uint8", "uint16", "uint32", "uint64", "double"].contains(&format.as_str())
            {
                fields.remove("format");
                if let Some(maximum) = bound(&format) {
                    fields.entry("maximum").or_insert_with(|| maximum.into());
                }
            }
            fields.values_mut().for_each(|value| portable(value, bound));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| portable(item, bound)),
        _ => {}
    }
}
