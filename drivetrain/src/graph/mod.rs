//! Drawings of a plan: its steps and what each waits for. Pure: a plan in, text out.
//!
//! - [`mermaid`], [`dot`]: for other programs to lay out; [`svg`]: laid out here, no program needed;
//! - this file: what is drawn.

pub mod dot;
pub mod mermaid;
pub mod svg;

use engine_core::plan::compiled::StepIndex;
use engine_core::plan::{CompiledPlan, Completion};

/// What a drawing shows of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// The title.
    pub title: String,
    /// The steps, in the order of the plan.
    pub nodes: Vec<Node>,
    /// What waits for what.
    pub edges: Vec<Edge>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// What it does: its name, else its handler.
    pub label: String,
    /// How it is special.
    pub kind: NodeKind,
    /// Whether it is undone when the run fails.
    pub compensated: bool,
    /// Whether it is skipped unless a condition holds.
    pub conditional: bool,
}

/// How a step is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Not at all.
    Ordinary,
    /// A person ends it.
    Manual,
    /// It stands in for another step.
    Fallback,
}

/// Something that leads to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier step, by its place among the nodes.
    pub from: usize,
    /// The later step.
    pub to: usize,
    /// What it means.
    pub kind: EdgeKind,
}

/// What an edge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// The earlier step must succeed.
    Required,
    /// The earlier step must end.
    Optional,
    /// The earlier step's failure starts the later one.
    Fallback,
}

impl Drawing {
    /// The drawing of a plan.
    #[must_use]
    pub fn of(plan: &CompiledPlan) -> Self {
        let document = plan.document();
        let node = |index: StepIndex| {
            let step = plan.step(index);
            Node {
                id: step.id.to_string(),
                label: step.name.clone().unwrap_or_else(|| step.handler.to_string()),
                kind: if plan.serves(index).is_some() {
                    NodeKind::Fallback
                } else if step.completion == Completion::Manual {
                    NodeKind::Manual
                } else {
                    NodeKind::Ordinary
                },
                compensated: step.compensation.is_some(),
                conditional: step.when.is_some(),
            }
        };
        let edges = plan.indices().flat_map(|index| {
            let waits = plan.dependencies(index).iter().map(move |link| Edge {
                from: link.step.position(),
                to: index.position(),
                kind: if link.required { EdgeKind::Required } else { EdgeKind::Optional },
            });
            let fallback = plan.fallback(index).map(|fallback| Edge {
                from: index.position(),
                to: fallback.position(),
                kind: EdgeKind::Fallback,
            });
            waits.chain(fallback)
        });
        Self {
            title: format!(
                "{} {}",
                document.name.as_deref().unwrap_or(document.id.as_str()),
                document.version
            ),
            nodes: plan.indices().map(node).collect(),
            edges: edges.collect(),
        }
    }
}

impl Node {
    /// Small signs after the label: a person, a condition, an undo.
    fn signs(&self) -> String {
        let signs = [
            (self.kind == NodeKind::Manual, "manual"),
            (self.conditional, "when"),
            (self.compensated, "undo"),
        ];
        let shown: Vec<&str> = signs.iter().filter(|(holds, _)| *holds).map(|(_, sign)| *sign).collect();
        if shown.is_empty() { String::new() } else { format!(" [{}]", shown.join(", ")) }
    }
}
