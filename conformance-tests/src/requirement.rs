//! The table of requirements: what `docs/contract.md` demands, by id.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// How binding a requirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Without it an implementation does not conform.
    Must,
    /// A good reason may stand against it.
    Should,
    /// Allowed, and nobody relies on it.
    May,
}

/// One sentence of the contract that can be cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its id, as `PAUSE-3`; never used for another.
    pub id: &'static str,
    /// How binding it is.
    pub level: Level,
    /// The section it stands in, as `9.2 PAUSE`.
    pub section: &'static str,
    /// The sentence.
    pub text: &'static str,
}

const CONTRACT: &str = include_str!("../../docs/contract.md");

/// The version of the contract that the cases were written for.
#[must_use]
pub fn contract_version() -> &'static str {
    CONTRACT.lines().find_map(|line| line.strip_prefix("Version ")).unwrap_or("unknown")
}

/// Every requirement, in the order of the contract.
#[must_use]
pub fn all() -> &'static [Requirement] {
    static ALL: LazyLock<Vec<Requirement>> = LazyLock::new(|| read(CONTRACT));
    &ALL
}

/// The requirement with an id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Requirement> {
    static BY_ID: LazyLock<HashMap<&'static str, &'static Requirement>> =
        LazyLock::new(|| all().iter().map(|requirement| (requirement.id, requirement)).collect());
    BY_ID.get(id).copied()
}

/// The rows of the first table below a heading, cell by cell, without its head.
pub(crate) fn rows(heading: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let below = CONTRACT.split_once(heading).map_or("", |(_, below)| below);
    let table =
        below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

/// A list item that begins with an id is a requirement; everything else explains.
fn read(text: &'static str) -> Vec<Requirement> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ").or_else(|| line.strip_prefix("## ")) {
            section = heading;
        }
        let Some((id, rest)) = line.strip_prefix("- **").and_then(|item| item.split_once("** (")) else {
            continue;
        };
        let Some((level, text)) = rest.split_once(") ") else { continue };
        let level = match level {
            "MUST" => Level::Must,
            "SHOULD" => Level::Should,
            "MAY" => Level::May,
            _ => continue,
        };
        found.push(Requirement { id, level, section, text });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_is_read_with_sections_and_levels() {
        let pause = find("PAUSE-3").unwrap();
        assert_eq!((pause.level, pause.section), (Level::Must, "9.2 PAUSE"));
        assert!(pause.text.starts_with("No StepStarted follows RunPaused"), "{}", pause.text);
        assert_eq!(find("CORE-36").unwrap().level, Level::May);
        assert!(find("PAUSE-99").is_none());
    }

    #[test]
    fn no_list_item_with_an_id_is_passed_over() {
        let items = CONTRACT.lines().filter(|line| line.starts_with("- **")).count();
        assert_eq!(all().len(), items);
        assert!(items > 400, "only {items} requirements");
    }
}
