//! Benchmarks: runs one and ends with its figures as one line of JSON.
//!
//! A benchmark either uses criterion, whose files [`criterion`] reads, or is a program that measures in its own way
//! and ends with that line itself.

mod criterion;

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::command::External;
use crate::servers::TestServers;
use crate::workspace::Workspace;

/// Runs a benchmark. The last line of standard output is
/// `{"bench", "settings", "figures": {…}, "ratios": {…}}`.
pub(crate) fn run(workspace: &Workspace, name: &str, quick: bool) -> Result<()> {
    let Some(benchmark) = workspace.benchmarks.iter().find(|benchmark| benchmark.name == name) else {
        let known: Vec<&str> = workspace.benchmarks.iter().map(|benchmark| benchmark.name.as_str()).collect();
        if known.is_empty() {
            bail!("there is no benchmark {name}, nor any other yet");
        }
        bail!("there is no benchmark {name}: use one of {}", known.join(", "));
    };
    // A folder of its own, emptied first: figures of an earlier run must not pass for those of this one.
    let folder = workspace.target_directory.join("xtask-bench").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let servers = if benchmark.uses_servers { TestServers::start()? } else { TestServers::none() };
    let command = External::cargo("bench")
        .args(["--package", &benchmark.package, "--bench", name, "--"])
        .args(quick.then_some("--quick"))
        .variable("CRITERION_HOME", &folder);
    let last_line = servers.offer(command).run_for_last_line()?;
    if own_report(&last_line).with_context(|| format!("the benchmark {name} ends with a broken report"))? {
        // It was shown as it came, and nothing may follow it.
        return Ok(());
    }
    let Some(results) = criterion::read(&folder)? else {
        bail!(
            "the benchmark {name} neither ended with a line of JSON that has `bench` in it nor left figures of \
             criterion in {}: let it do one of both",
            folder.display()
        );
    };
    let report = json!({
        "bench": name,
        "settings": {
            "quick": quick,
            "profile": "bench",
            "system": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        },
        "figures": results.figures,
        "ratios": results.ratios,
    });
    writeln!(std::io::stdout(), "{report}").context("cannot write the figures")
}

/// Whether a benchmark's last line is its report; one that lacks a part is an error.
fn own_report(line: &str) -> Result<bool> {
    let Ok(report) = serde_json::from_str::<Value>(line) else {
        return Ok(false);
    };
    if report.get("bench").is_none() {
        return Ok(false);
    }
    for part in ["settings", "figures", "ratios"] {
        if !report[part].is_object() {
            bail!("`{part}` must be an object in {line}");
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_report_its_own_figures() {
        let line = r#"{"bench":"store","settings":{"rows":100},"figures":{"append":1.5},"ratios":{}}"#;
        assert!(own_report(line).unwrap());
    }

    #[test]
    fn other_last_lines_leave_the_report_to_criterion() {
        for line in ["", "decider/fold  time: [1.0 ns]", "12", r#"{"figures":{}}"#] {
            assert!(!own_report(line).unwrap(), "{line}");
        }
    }

    #[test]
    fn a_report_that_lacks_a_part_is_an_error_that_names_it() {
        let error = own_report(r#"{"bench":"store","settings":{},"figures":{}}"#).unwrap_err().to_string();
        assert!(error.contains("`ratios`"), "{error}");
    }
}
