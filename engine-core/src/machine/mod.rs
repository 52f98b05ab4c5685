//! The state machines of the contract, each a table: [`run`] and [`step`].
//!
//! `next`, the tables and drawings in `docs/contract.md`, and the test of every legal and illegal edge all
//! come from these tables; there is no other place that knows an edge.

pub mod run;
pub mod step;

pub use run::{RunStatus, RunSubstatus};
pub use step::{StepStatus, StepSubstatus};

use crate::error::{Code, Error, Result};
use crate::event::EventType;

/// One edge: in `from`, the event `on` leads to `to`. `None` is the state before there is anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<S> {
    /// The state before.
    pub from: Option<S>,
    /// The event.
    pub on: EventType,
    /// The state after.
    pub to: S,
}

const fn edge<S: Copy>(from: Option<S>, on: EventType, to: S) -> Edge<S> {
    Edge { from, on, to }
}

/// The state after `on`, or an error that names both states. `nothing` says what there is before the first state.
fn next<S>(edges: &[Edge<S>], from: Option<S>, on: EventType, nothing: &str) -> Result<S>
where
    S: Copy + PartialEq + std::fmt::Display,
{
    if let Some(edge) = edges.iter().find(|edge| edge.from == from && edge.on == on) {
        return Ok(edge.to);
    }
    let from = from.map_or_else(|| nothing.to_owned(), |state| state.to_string());
    let target = edges.iter().find(|edge| edge.on == on).map(|edge| edge.to.to_string());
    let target = target.as_deref().unwrap_or("any status");
    let message = format!("{on} leads to {target}, and there is no way there from {from}");
    Err(Error::new(Code::IllegalTransition, message))
}

/// Writes a machine as a Markdown table and a Mermaid drawing, for `docs/contract.md`.
fn markdown<S: Copy + std::fmt::Display>(edges: &[Edge<S>]) -> String {
    use std::fmt::Write as _;
    let name = |state: Option<S>| state.map_or_else(|| "–".to_owned(), |state| state.to_string());
    let mut text = String::from("| from | event | to |\n|---|---|---|\n");
    for edge in edges {
        let _ = writeln!(text, "| {} | {} | {} |", name(edge.from), edge.on, edge.to);
    }
    text.push_str("\n```mermaid\nstateDiagram-v2\n");
    for edge in edges {
        let from = edge.from.map_or_else(|| "[*]".to_owned(), |state| state.to_string());
        let _ = writeln!(text, "    {from} --> {}: {}", edge.to, edge.on);
    }
    text.push_str("```\n");
    text
}

/// Defines a status: its written form, serde and JSON Schema.
macro_rules! status {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value as it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The value with this text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use status;
