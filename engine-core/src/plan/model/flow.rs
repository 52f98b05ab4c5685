//! Where a step's input comes from, where its output goes, and which secrets it gets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::is_default;

/// Input taken from one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputMapping {
    /// Where the input comes from.
    pub from: InputSource,
    /// The value itself, with `from: literal`; null is one too.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::wire::present")]
    pub value: Option<Value>,
    /// JMESPath applied to what was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// JSON Schema (2020-12, no remote references) that the input must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Where a step's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputSource {
    /// The whole context: `input`, `steps` and `vars`.
    Context,
    /// The output of the one step it depends on.
    PreviousStep,
    /// The value written in the plan.
    Literal,
}

/// Where a step's output goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputMapping {
    /// Path below `vars` that is written, as `report.totals`. Absent: nothing is written to `vars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// JMESPath applied to the handler's output; its result is the step's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// How the value joins what stands at `to` already.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "replace"))]
    pub merge: Merge,
    /// JSON Schema (2020-12, no remote references) that the output must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// How a value joins an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Merge {
    /// The later value stands.
    #[default]
    Replace,
    /// Objects are merged field by field, the later value wins.
    Merge,
    /// The value is added at the end of a list.
    Append,
}

/// A reference to a secret: `provider:key`, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SecretRef {
    /// `provider:key`, as `env:STRIPE_KEY` or `file:stripe/key`.
    Short(String),
    /// The same, with a version.
    Full(FullSecretRef),
}

/// A reference to one version of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FullSecretRef {
    /// Which provider resolves it, as `env` or `file`.
    pub provider: String,
    /// The secret's name there.
    pub key: String,
    /// Which version; absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl SecretRef {
    /// The reference with its parts named; `None` when a short one lacks its `provider:`.
    #[must_use]
    pub fn parts(&self) -> Option<FullSecretRef> {
        match self {
            Self::Full(full) => Some(full.clone()),
            Self::Short(text) => {
                let (provider, key) = text.split_once(':')?;
                (!provider.is_empty() && !key.is_empty()).then(|| FullSecretRef {
                    provider: provider.to_owned(),
                    key: key.to_owned(),
                    version: None,
                })
            }
        }
    }
}
