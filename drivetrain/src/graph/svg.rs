//! SVG, laid out here: layers from left to right, each step after everything it waits for.

use std::fmt::Write as _;

use super::{Drawing, EdgeKind, NodeKind};

const WIDTH: usize = 190;
const HEIGHT: usize = 46;
const GAP_X: usize = 60;
const GAP_Y: usize = 18;
const MARGIN: usize = 24;
const TITLE: usize = 34;
/// Longer texts are cut; the whole one is the tooltip.
const LETTERS: usize = 25;

/// The drawing as SVG.
#[must_use]
pub fn render(drawing: &Drawing) -> String {
    let places = layout(drawing);
    let columns = places.iter().map(|place| place.0 + 1).max().unwrap_or(1);
    let rows = places.iter().map(|place| place.1 + 1).max().unwrap_or(1);
    let width = 2 * MARGIN + columns * WIDTH + (columns - 1) * GAP_X;
    let height = 2 * MARGIN + TITLE + rows * HEIGHT + (rows - 1) * GAP_Y;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\">\n\
         <title>{title}</title>\n\
         <style>\n  \
         .box {{ fill: #eef4ff; stroke: #3a62b5; stroke-width: 1.5 }}\n  \
         .manual {{ fill: #fff5df; stroke: #b57a10 }}\n  \
         .fallback {{ fill: #f6f6f6; stroke: #777; stroke-dasharray: 5 3 }}\n  \
         .edge {{ fill: none; stroke: #555; stroke-width: 1.3; marker-end: url(#arrow) }}\n  \
         .dashed {{ stroke-dasharray: 5 3 }}\n  \
         .id {{ font-size: 13px; font-weight: 600; fill: #111 }}\n  \
         .about {{ font-size: 11px; fill: #555 }}\n\
         </style>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#555\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\" font-size=\"15\" font-weight=\"700\" fill=\"#111\">{title}</text>\n",
        MARGIN + 12,
        title = escaped(&drawing.title),
    );
    let corner = |node: usize| {
        let (column, row) = places[node];
        (MARGIN + column * (WIDTH + GAP_X), MARGIN + TITLE + row * (HEIGHT + GAP_Y))
    };
    for edge in &drawing.edges {
        let (from, to) = (corner(edge.from), corner(edge.to));
        let (x1, y1, x2, y2) = (from.0 + WIDTH, from.1 + HEIGHT / 2, to.0, to.1 + HEIGHT / 2);
        let bend = GAP_X / 2;
        let dashed = if edge.kind == EdgeKind::Required { "" } else { " dashed" };
        let _ = writeln!(
            text,
            "<path class=\"edge{dashed}\" d=\"M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}\"/>",
            x1 + bend,
            x2.saturating_sub(bend)
        );
        if edge.kind == EdgeKind::Fallback {
            let _ = writeln!(
                text,
                "<text class=\"about\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">on failure</text>",
                (x1 + x2) / 2,
                (y1 + y2) / 2 - 4
            );
        }
    }
    for (place, node) in drawing.nodes.iter().enumerate() {
        let (x, y) = corner(place);
        let (class, radius) = match node.kind {
            NodeKind::Ordinary => ("", 8),
            NodeKind::Manual => (" manual", HEIGHT / 2),
            NodeKind::Fallback => (" fallback", 8),
        };
        let about = format!("{}{}", node.label, node.signs());
        let _ = writeln!(
            text,
            "<g><title>{}: {}</title><rect class=\"box{class}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" rx=\"{radius}\"/><text class=\"id\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"about\" x=\"{}\" y=\"{}\">{}</text></g>",
            escaped(&node.id),
            escaped(&about),
            x + 12,
            y + 19,
            escaped(&cut(&node.id)),
            x + 12,
            y + 35,
            escaped(&cut(&about)),
        );
    }
    text.push_str("</svg>\n");
    text
}

/// The column and row of every node: columns by the longest way to it, rows by where its predecessors stand.
fn layout(drawing: &Drawing) -> Vec<(usize, usize)> {
    let count = drawing.nodes.len();
    let mut column = vec![0; count];
    // The graph has no circles, so as many rounds as steps are enough, and most need few.
    for _ in 0..count {
        let mut changed = false;
        for edge in &drawing.edges {
            if column[edge.to] < column[edge.from] + 1 {
                column[edge.to] = column[edge.from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut row = vec![0; count];
    let columns = column.iter().max().map_or(0, |most| most + 1);
    for current in 0..columns {
        let mut members: Vec<usize> = (0..count).filter(|node| column[*node] == current).collect();
        let height = |node: &usize| {
            let before: Vec<usize> =
                drawing.edges.iter().filter(|edge| edge.to == *node).map(|edge| row[edge.from]).collect();
            // In thousandths, so that it can be sorted by.
            if before.is_empty() { 0 } else { before.iter().sum::<usize>() * 1000 / before.len() }
        };
        let heights: Vec<usize> = members.iter().map(height).collect();
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|place| (heights[*place], members[*place]));
        members = order.into_iter().map(|place| members[place]).collect();
        for (place, node) in members.into_iter().enumerate() {
            row[node] = place;
        }
    }
    column.into_iter().zip(row).collect()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LETTERS {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LETTERS - 1).collect();
    short.push('…');
    short
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
