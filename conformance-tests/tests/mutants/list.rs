//! The mutants, and the requirements that have none yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use conformance::requirement::{self, Level};
use conformance::{Variant, cases};
use libtest_mimic::Failed;
use serde::Deserialize;

/// Product code that is broken on purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Mutant {
    /// Its name, unique.
    pub(crate) name: String,
    /// The file that is broken, from the workspace's folder.
    pub(crate) file: PathBuf,
    /// Text that occurs exactly once in it.
    pub(crate) find: String,
    /// What stands in its place; `MUTANT` is true when this mutant is on.
    pub(crate) replace: String,
    /// The requirements that it breaks.
    pub(crate) breaks: Vec<String>,
    /// The cases that fail on it.
    pub(crate) caught_by: Vec<String>,
    /// The store on which it is caught.
    #[serde(default = "memory")]
    pub(crate) store: String,
    /// Whether it is caught on an engine that declares no optional ability.
    #[serde(default)]
    pub(crate) modest: bool,
    /// The variant under which it is caught.
    #[serde(default)]
    pub(crate) variant: Option<String>,
    /// Whether random testing catches it, beside the cases or in their place.
    #[serde(default)]
    pub(crate) differential: bool,
}

fn memory() -> String {
    "memory:".to_owned()
}

/// The folder of this crate.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(HERE).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Every mutant, file by file.
pub(crate) fn mutants() -> Result<Vec<Mutant>> {
    #[derive(Deserialize)]
    struct Page {
        mutant: Vec<Mutant>,
    }
    let folder = Path::new(HERE).join("mutants");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let page: Page = toml::from_str(&text).with_context(|| file.display().to_string())?;
        mutants.extend(page.mutant);
    }
    Ok(mutants)
}

/// Each mutant's text occurs once, its cases exist, its requirements are cited by them.
pub(crate) fn check() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for mutant in mutants()? {
        let mut add = |what: String| wrong.push(format!("{}: {what}", mutant.name));
        if !names.insert(mutant.name.clone()) {
            add("stands twice".to_owned());
        }
        match std::fs::read_to_string(workspace().join(&mutant.file)) {
            Err(error) => add(format!("{}: {error}", mutant.file.display())),
            Ok(text) => match text.matches(&mutant.find).count() {
                1 => {}
                count => add(format!("its text occurs {count} times in {}", mutant.file.display())),
            },
        }
        if !mutant.replace.contains("MUTANT") {
            add("its replacement has no MUTANT in it, so it is always on".to_owned());
        }
        if mutant.breaks.is_empty() || (mutant.caught_by.is_empty() && !mutant.differential) {
            add("it breaks nothing, or nothing catches it".to_owned());
        }
        if let Some(variant) = mutant.variant.as_deref().filter(|name| Variant::find(name).is_none()) {
            add(format!("there is no variant {variant}"));
        }
        let mut cited = BTreeSet::new();
        for name in &mutant.caught_by {
            match cases::find(name) {
                Some(case) => cited.extend(case.requirements.iter().copied()),
                None => add(format!("there is no case {name}")),
            }
        }
        for id in &mutant.breaks {
            if requirement::find(id).is_none() {
                add(format!("there is no requirement {id}"));
            } else if !cited.contains(id.as_str()) && !mutant.caught_by.is_empty() {
                add(format!("it breaks {id}, which none of its cases cites"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// What has no case, and what has no mutant, each with the reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pending {
    case: BTreeMap<String, String>,
    mutant: BTreeMap<String, String>,
}

/// `pending.toml` lists exactly the MUSTs that have no case, and those that have no mutant.
pub(crate) fn check_pending() -> Result<(), Failed> {
    let file = Path::new(HERE).join("pending.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let pending: Pending = toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let cited: BTreeSet<String> =
        cases::all().iter().flat_map(|case| case.requirements).map(ToString::to_string).collect();
    // What only random testing catches is caught by chance, and no proof that a case can fail.
    let proofs = mutants()?.into_iter().filter(|mutant| !mutant.caught_by.is_empty());
    let broken: BTreeSet<String> = proofs.flat_map(|mutant| mutant.breaks).collect();
    let mut wrong = compare("case", &pending.case, &cited)?;
    wrong.extend(compare("mutant", &pending.mutant, &broken)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn compare(what: &str, pending: &BTreeMap<String, String>, has: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (id, why) in pending {
        if requirement::find(id).is_none_or(|requirement| requirement.level != Level::Must) {
            wrong.push(format!("pending.toml [{what}]: {id} is no MUST"));
        }
        if has.contains(id) {
            wrong.push(format!("pending.toml [{what}]: {id} has a {what}; take it out"));
        }
        if why.trim().is_empty() {
            bail!("pending.toml [{what}]: {id} has no reason");
        }
    }
    for requirement in requirement::all().iter().filter(|requirement| requirement.level == Level::Must) {
        if !has.contains(requirement.id) && !pending.contains_key(requirement.id) {
            wrong.push(format!("{} has no {what}: {}", requirement.id, requirement.text));
        }
    }
    Ok(wrong)
}
