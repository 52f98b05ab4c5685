//! Mermaid, as Markdown pages show it.

use std::fmt::Write as _;

use super::{Drawing, EdgeKind, NodeKind};

/// The drawing as Mermaid.
#[must_use]
pub fn render(drawing: &Drawing) -> String {
    let mut text = format!("---\ntitle: {}\n---\nflowchart LR\n", quoted(&drawing.title));
    for (place, node) in drawing.nodes.iter().enumerate() {
        let label =
            quoted(&format!("{}<br/>{}{}", escaped(&node.id), escaped(&node.label), escaped(&node.signs())));
        let shape = match node.kind {
            NodeKind::Ordinary => format!("[{label}]"),
            NodeKind::Manual => format!("([{label}])"),
            NodeKind::Fallback => format!("[/{label}/]"),
        };
        // Step ids may hold what Mermaid reads as its own: nodes go by number.
        let _ = writeln!(text, "    n{place}{shape}");
    }
    for edge in &drawing.edges {
        let arrow = match edge.kind {
            EdgeKind::Required => "-->",
            EdgeKind::Optional => "-.->",
            EdgeKind::Fallback => "-.->|on failure|",
        };
        let _ = writeln!(text, "    n{} {arrow} n{}", edge.from, edge.to);
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "#quot;").replace('\n', " "))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
