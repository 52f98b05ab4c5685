//! Graphviz.

use std::fmt::Write as _;

use super::{Drawing, EdgeKind, NodeKind};

/// The drawing for `dot`.
#[must_use]
pub fn render(drawing: &Drawing) -> String {
    let mut text = format!(
        "digraph plan {{\n    label={};\n    rankdir=LR;\n    node [shape=box, style=rounded, fontname=\"Helvetica\"];\n",
        quoted(&drawing.title)
    );
    for node in &drawing.nodes {
        let label = quoted(&format!("{}\n{}{}", node.id, node.label, node.signs()));
        let style = match node.kind {
            NodeKind::Ordinary => "",
            NodeKind::Manual => ", shape=oval",
            NodeKind::Fallback => ", style=\"rounded,dashed\"",
        };
        let _ = writeln!(text, "    {} [label={label}{style}];", quoted(&node.id));
    }
    for edge in &drawing.edges {
        let style = match edge.kind {
            EdgeKind::Required => "",
            EdgeKind::Optional => " [style=dashed]",
            EdgeKind::Fallback => " [style=dashed, label=\"on failure\"]",
        };
        let id = |place: usize| quoted(&drawing.nodes[place].id);
        let _ = writeln!(text, "    {} -> {}{style};", id(edge.from), id(edge.to));
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
