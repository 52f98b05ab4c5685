//! The copy of the workspace, the patches, and the one build of them all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};

use super::list::{Mutant, workspace};

/// Names the mutant that is on.
pub(crate) const VARIABLE: &str = "DRIVETRAIN_MUTANT";

/// What is copied besides the crates.
const BESIDES: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "README.md", "rust-toolchain.toml", "docs", "examples"];

/// The switch that all patches ask.
const SWITCH: &str = r#"//! Which mutant is on.

use std::sync::OnceLock;

/// Whether this mutant is on.
#[must_use]
pub fn on(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("DRIVETRAIN_MUTANT").ok()).as_deref() == Some(name)
}
"#;

/// A program with all mutants in it, none of them on.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// Where everything is.
    pub(crate) folder: PathBuf,
    /// The suite, built from the copy.
    pub(crate) program: PathBuf,
}

/// Where a mutant's text stands in the patched file.
struct Place {
    mutant: String,
    file: PathBuf,
    first_line: usize,
    last_line: usize,
}

impl Workshop {
    /// Copies the workspace, applies every patch, and builds the suite once.
    pub(crate) fn open(mutants: &[Mutant]) -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
        let copy = folder.join("workspace");
        let mut files = product()?;
        let places = patch(&mut files, mutants)?;
        files.insert("engine-core/src/mutation.rs".into(), SWITCH.as_bytes().to_vec());
        let root = files.get_mut(Path::new("engine-core/src/lib.rs")).context("engine-core has no lib.rs")?;
        root.extend_from_slice(b"\npub mod mutation;\n");
        write(&copy, &files)?;
        let built = build(&copy, &places)?;
        // The place where cargo puts it is also that of the suite that is not broken.
        let program = folder.join("conformance-of-mutants");
        std::fs::copy(&built, &program).with_context(|| format!("cannot keep {}", built.display()))?;
        Ok(Self { folder, program })
    }
}

/// Every file of the workspace, by its place.
fn product() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let root = workspace();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let members = manifest["workspace"]["members"].as_array().context("a workspace has members")?;
    let mut todo: Vec<PathBuf> =
        members.iter().filter_map(|member| member.as_str()).map(PathBuf::from).collect();
    todo.extend(BESIDES.iter().map(PathBuf::from));
    let mut files = BTreeMap::new();
    while let Some(place) = todo.pop() {
        let full = root.join(&place);
        if full.is_dir() {
            for entry in std::fs::read_dir(&full).with_context(|| full.display().to_string())? {
                let name = entry?.file_name();
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    todo.push(place.join(name));
                }
            }
        } else {
            let content = std::fs::read(&full).with_context(|| full.display().to_string())?;
            files.insert(place, content);
        }
    }
    Ok(files)
}

/// Applies every patch, and says where each stands then.
fn patch(files: &mut BTreeMap<PathBuf, Vec<u8>>, mutants: &[Mutant]) -> Result<Vec<Place>> {
    let mut by_file: BTreeMap<&Path, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for mutant in mutants {
        let name = &mutant.name;
        let content =
            files.get(&mutant.file).with_context(|| format!("{name}: no file {}", mutant.file.display()))?;
        let text = std::str::from_utf8(content).with_context(|| name.clone())?;
        let found: Vec<usize> = text.match_indices(&mutant.find).map(|(at, _)| at).collect();
        let [at] = found.as_slice() else {
            bail!("{name}: its text occurs {} times in {}", found.len(), mutant.file.display());
        };
        by_file.entry(&mutant.file).or_default().push((*at, mutant));
    }
    let mut places = Vec::new();
    for (file, mut patches) in by_file {
        patches.sort_by_key(|(at, _)| *at);
        let content = files.get_mut(file).context("it was there")?;
        let text = String::from_utf8(std::mem::take(content)).context("it was text")?;
        let switch = if file.starts_with("engine-core") { "crate" } else { "engine_core" };
        let (mut patched, mut taken, mut before) = (String::new(), 0, "");
        for (at, mutant) in patches {
            if at < taken {
                bail!("{} and {before} change the same text in {}", mutant.name, file.display());
            }
            patched.push_str(&text[taken..at]);
            let first_line = lines(&patched);
            let call = format!("{switch}::mutation::on({:?})", mutant.name);
            patched.push_str(&mutant.replace.replace("MUTANT", &call));
            let last_line = lines(&patched);
            places.push(Place { mutant: mutant.name.clone(), file: file.to_owned(), first_line, last_line });
            taken = at + mutant.find.len();
            before = &mutant.name;
        }
        patched.push_str(&text[taken..]);
        *content = patched.into_bytes();
    }
    Ok(places)
}

fn lines(text: &str) -> usize {
    text.matches('\n').count() + 1
}

/// Writes the copy. A file that is the same is left alone, so that cargo builds only what changed.
fn write(copy: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for (place, content) in files {
        let file = copy.join(place);
        if std::fs::read(&file).is_ok_and(|before| before == *content) {
            continue;
        }
        let folder = file.parent().context("a file is in a folder")?;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        std::fs::write(&file, content).with_context(|| file.display().to_string())?;
    }
    // What is gone from the workspace must go here too: cargo finds tests and benchmarks by itself.
    let mut todo = vec![copy.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else if !files.contains_key(path.strip_prefix(copy)?) {
                std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(())
}

/// Builds the suite from the copy, in the folder that cargo uses anyway: dependencies are there already.
fn build(copy: &Path, places: &[Place]) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("a target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo told this test about its own package would make it build again whatever looks at such variables.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let output = command
        .current_dir(copy)
        .args(["build", "--locked", "--package", "conformance-tests", "--bin", "conformance"])
        .args(["--message-format", "json-render-diagnostics", "--target-dir"])
        .arg(target)
        // Built once and run for a moment: what the compiler saves is more than what the program loses.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove(VARIABLE)
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let broken = broken(&said, places);
        return Err(anyhow!("{} not compile:\n{said}", described(&broken)));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let program = told.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    program.context("cargo built no program")
}

/// The mutants that the compiler's complaints point at.
fn broken(said: &str, places: &[Place]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in said.lines() {
        let Some((_, place)) = line.split_once("--> ") else { continue };
        let mut parts = place.split(':');
        let (Some(file), Some(Ok(at))) = (parts.next(), parts.next().map(str::parse::<usize>)) else {
            continue;
        };
        let here = |place: &&Place| {
            Path::new(file).ends_with(&place.file) && (place.first_line..=place.last_line).contains(&at)
        };
        found.extend(places.iter().filter(here).map(|place| place.mutant.clone()));
    }
    found
}

fn described(broken: &BTreeSet<String>) -> String {
    match broken.len() {
        0 => "the copy with all mutants does".to_owned(),
        1 => format!("the mutant {} does", broken.iter().cloned().collect::<String>()),
        _ => format!("the mutants {} do", broken.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
}
