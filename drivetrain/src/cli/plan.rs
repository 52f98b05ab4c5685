//! `plan`: checks, drawings and the schema. Nothing is stored, and no configuration is needed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use engine_core::plan::{CompiledPlan, ValidationOptions, read_with};
use serde_json::json;

use super::arguments::{GraphFormat, PlanCommand};
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::{Output, Tone, count};
use super::run::{read_plan_text, shown};
use crate::equipment::BUILT_IN;
use crate::graph::{Drawing, dot, mermaid, svg};

pub(super) fn plan(command: &PlanCommand, output: Output) -> Result<Exit> {
    match command {
        PlanCommand::Check { plans, handlers, json } => check(plans, handlers, *json, output),
        PlanCommand::Graph { plan, format, output: file } => {
            let compiled = load(plan, &ValidationOptions::default())?;
            let drawing = Drawing::of(&compiled);
            let text = match format {
                GraphFormat::Mermaid => mermaid::render(&drawing),
                GraphFormat::Dot => dot::render(&drawing),
                GraphFormat::Svg => svg::render(&drawing),
            };
            match file {
                Some(file) => write_whole(file, &text)?,
                None => output.text(&text),
            }
            Ok(Exit::Success)
        }
        PlanCommand::Schema => {
            output.text(engine_core::plan::schema::text());
            Ok(Exit::Success)
        }
    }
}

fn check(plans: &[PathBuf], handlers: &[String], json: bool, output: Output) -> Result<Exit> {
    let known = (!handlers.is_empty()).then(|| {
        let own = handlers.iter().cloned();
        own.chain(BUILT_IN.iter().map(|name| (*name).to_owned())).collect::<BTreeSet<String>>()
    });
    let options = ValidationOptions { known_handlers: known };
    let mut exit = Exit::Success;
    for path in plans {
        let name = shown(path);
        let text = read_plan_text(path)?;
        match read_with(&text, &options) {
            Ok(plan) if json => {
                let steps = plan.steps.len();
                output.json(&json!({"file": name, "ok": true, "id": plan.id, "version": plan.version, "steps": steps}));
            }
            Ok(plan) => output.line(format!(
                "{name}: {}: plan {} {}, {}",
                output.paint(Tone::Good, "ok"),
                plan.id,
                plan.version,
                count(plan.steps.len(), "step")
            )),
            Err(problems) => {
                exit = Exit::Invalid;
                if json {
                    output.json(&json!({"file": name, "ok": false, "problems": problems}));
                } else {
                    output.error(&Complaint::plan(&name, &problems).to_string());
                }
            }
        }
    }
    Ok(exit)
}

fn load(path: &Path, options: &ValidationOptions) -> Result<CompiledPlan> {
    let text = read_plan_text(path)?;
    let plan = read_with(&text, options).map_err(|problems| Complaint::plan(&shown(path), &problems))?;
    Ok(CompiledPlan::new(plan)?)
}

/// Writes a file so that it is there as a whole or as it was.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let refuse = |cause: std::io::Error| {
        Complaint::new(Exit::Failure, format!("{} cannot be written: {cause}", path.display())).hint(
            "see that its folder is there, that this user may write to it, and that the disk is not full",
        )
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = std::fs::File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&part, path)).map_err(|cause| {
        let _ = std::fs::remove_file(&part);
        refuse(cause)
    })
}
