//! Traces side by side, with the first divergence marked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::canonical::Trace;
use super::order::{Order, Place, places};

/// A Markdown table with a column a trace, as mock | temporal | conductor; the first is what the others are measured by.
/// Rows are in the order of the first; where another parts from it, the row says how, and the first of these is marked.
#[must_use]
pub fn side_by_side(columns: &[(&str, &Trace)]) -> String {
    let Some(((_, reference), others)) = columns.split_first() else { return String::new() };
    let order = Order::of(reference);
    let parted: Vec<_> = others.iter().map(|(_, trace)| order.divergence(trace)).collect();
    let cells: Vec<BTreeMap<Place, String>> = columns
        .iter()
        .map(|(_, trace)| {
            places(trace).into_iter().map(|(place, moment)| (place, moment.to_string())).collect()
        })
        .collect();
    let rows = rows(columns);
    let first = rows.iter().position(|row| parted.iter().flatten().any(|parted| parted.place == *row));
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| {} | |\n|{}\n", names.join(" | "), "---|".repeat(names.len() + 1));
    for (number, row) in rows.iter().enumerate() {
        let shown: Vec<&str> =
            cells.iter().map(|column| column.get(row).map_or("–", String::as_str)).collect();
        let told: Vec<String> = parted
            .iter()
            .zip(&names[1..])
            .filter_map(|(parted, name)| {
                let parted = parted.as_ref().filter(|parted| parted.place == *row)?;
                Some(format!("{name}: {}", parted.what))
            })
            .collect();
        let mark = if Some(number) == first { "**◀ first divergence** " } else { "" };
        let _ = writeln!(text, "| {} | {mark}{} |", shown.join(" | "), told.join("; "));
    }
    text
}

/// Every place that a trace has: those of the first in its order, and what only others have after what it follows there.
fn rows(columns: &[(&str, &Trace)]) -> Vec<Place> {
    let mut rows: Vec<Place> = Vec::new();
    for (_, trace) in columns {
        let mut at = 0;
        for (place, _) in places(trace) {
            match rows.iter().position(|row| *row == place) {
                Some(known) => at = known + 1,
                None => {
                    rows.insert(at, place);
                    at += 1;
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::order::tests::{STRAIGHT, trace};
    use super::*;

    #[test]
    fn three_columns_and_the_first_divergence_marked() {
        let mock = trace(&STRAIGHT[..5]);
        let mut interleaved = STRAIGHT[..5].to_vec();
        interleaved.swap(2, 3);
        let mut failed = STRAIGHT[..5].to_vec();
        failed[2] = "StepRetried a";
        failed.insert(3, "StepCompleted a");
        let (temporal, conductor) = (trace(&interleaved), trace(&failed));
        let text = side_by_side(&[("mock", &mock), ("temporal", &temporal), ("conductor", &conductor)]);
        assert_eq!(
            text,
            "\
| mock | temporal | conductor | |
|---|---|---|---|
| RunStarted | RunStarted | RunStarted |  |
| StepStarted a#1 | StepStarted a#1 | StepStarted a#1 |  |
| StepCompleted a#1 | StepCompleted a#1 | StepRetried a#1 | **◀ first divergence** conductor: StepRetried a#1 stands where StepCompleted a#1 is expected |
| – | – | StepCompleted a#1 |  |
| StepStarted b#1 | StepStarted b#1 | StepStarted b#1 |  |
| StepCompleted b#1 | StepCompleted b#1 | StepCompleted b#1 |  |
"
        );
    }
}
