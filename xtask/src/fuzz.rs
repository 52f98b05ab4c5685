//! Fuzzing: searches for inputs that break a target.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::command::External;
use crate::workspace::Workspace;

/// Fuzzes one target, or all of them one after another.
pub(crate) fn run(workspace: &Workspace, chosen: Option<&str>, seconds: u64) -> Result<()> {
    let known = targets(workspace)?;
    let selected: Vec<&str> = match chosen {
        Some(name) if known.iter().any(|target| target == name) => vec![name],
        Some(name) => bail!("there is no fuzz target {name}: use one of {}", known.join(", ")),
        None => known.iter().map(String::as_str).collect(),
    };
    if !External::cargo("fuzz").arg("--version").succeeds() {
        External::cargo("install")
            .args(["cargo-fuzz", "--locked"])
            .on_failure("install cargo-fuzz by hand and try again")
            .run()?;
    }
    for target in selected {
        let corpus = plant_seeds(workspace, target)?;
        External::cargo("fuzz")
            .args(["run", target])
            .arg(corpus.strip_prefix(&workspace.root).unwrap_or(&corpus))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            // One input that takes longer than this is a finding too.
            .arg("-timeout=10")
            // The sanitizers need switches that a stable compiler keeps locked; this unlocks them, so that
            // fuzzing uses the pinned toolchain and no other has to be installed.
            .variable("RUSTC_BOOTSTRAP", "1")
            .on_failure(
                "the input that broke it is in fuzz/artifacts; fix the defect, then keep the input as a seed in \
                 fuzz/seeds",
            )
            .run()?;
    }
    Ok(())
}

/// The sources of the targets.
pub(crate) fn target_files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let files = target_files(workspace)?;
    Ok(files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect())
}

/// Copies the seeds that are kept in the repository into the working corpus, which is not.
fn plant_seeds(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let seeds = workspace.root.join("fuzz/seeds").join(target);
    let corpus = workspace.root.join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    for entry in std::fs::read_dir(&seeds).with_context(|| format!("cannot read {}", seeds.display()))? {
        let seed = entry?;
        std::fs::copy(seed.path(), corpus.join(seed.file_name()))
            .with_context(|| format!("cannot copy the seed {}", seed.path().display()))?;
    }
    Ok(corpus)
}
