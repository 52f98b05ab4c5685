//! `doctor`: what is reachable, which versions there are, what is missing and how to fix it. It changes nothing.

use std::path::{Path, PathBuf};

use engine_core::decider::DECIDER_VERSION;
use engine_core::event::SCHEMA_VERSION;
use serde::Serialize;

use super::Equip;
use super::arguments::Global;
use super::complaint::Result;
use super::exit::Exit;
use super::output::{Output, Tone, count};
use super::session::{Session, sources};
use crate::config::show::without_password;
use crate::config::{Config, FILE_NAME};
use crate::engines::{self, ENGINES};
use crate::equipment::{BUILT_IN, check_artifacts, find_program};

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warning,
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    health: Health,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, health: Health::Ok, found: found.into(), fix: None }
    }

    fn bad(what: &'static str, health: Health, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what, health, found: found.into(), fix: Some(fix.into()) }
    }
}

pub(super) async fn doctor(global: &Global, json: bool, output: Output, equip: Equip) -> Result<Exit> {
    let mut findings = vec![Finding::ok(
        "program",
        format!(
            "drivetrain {}, decider {DECIDER_VERSION}, events {SCHEMA_VERSION}",
            env!("CARGO_PKG_VERSION")
        ),
    )];
    match Config::load(&sources(global)?) {
        Ok(config) => {
            findings.push(match &config.file {
                Some(file) => Finding::ok("configuration", file.display().to_string()),
                None => {
                    Finding::ok("configuration", format!("defaults; there is no {FILE_NAME} in this folder"))
                }
            });
            findings.push(engine(&config));
            let session = Session { config, output, equip };
            findings.extend(store(&session).await);
            findings.extend(equipment(&session.config));
        }
        Err(problems) => findings.extend(problems.0.into_iter().map(|problem| {
            Finding::bad(
                "configuration",
                Health::Problem,
                format!("{}: {}", problem.place, problem.message),
                problem.hint,
            )
        })),
    }
    let worst = findings.iter().any(|finding| finding.health == Health::Problem);
    if json {
        output.json_document(&findings);
    } else {
        print(output, &findings);
    }
    Ok(if worst { Exit::Failure } else { Exit::Success })
}

fn print(output: Output, findings: &[Finding]) {
    for finding in findings {
        let (tone, word) = match finding.health {
            Health::Ok => (Tone::Good, "ok     "),
            Health::Warning => (Tone::Careful, "warning"),
            Health::Problem => (Tone::Bad, "problem"),
        };
        output.line(format!("{}  {:<13}  {}", output.paint(tone, word), finding.what, finding.found));
        if let Some(fix) = &finding.fix {
            output.line(format!("{:>9}{:<13}  {}", "", "", output.paint(Tone::Quiet, &format!("-> {fix}"))));
        }
    }
    let problems = findings.iter().filter(|finding| finding.health == Health::Problem).count();
    let warnings = findings.iter().filter(|finding| finding.health == Health::Warning).count();
    output.line(format!("{}, {}", count(problems, "problem"), count(warnings, "warning")));
}

fn engine(config: &Config) -> Finding {
    let name = config.engine();
    let built: Vec<String> =
        ENGINES.iter().filter(|entry| entry.is_built()).map(|entry| entry.names()).collect();
    match engines::find(&name) {
        Ok(entry) if entry.is_built() => {
            Finding::ok("engine", format!("{name}: {}; in this program: {}", entry.about, built.join(", ")))
        }
        Ok(_) => Finding::bad(
            "engine",
            Health::Problem,
            format!("{name} is not in this program"),
            format!(
                "choose another with --engine, or build one that has it; this one has: {}",
                built.join(", ")
            ),
        ),
        Err(error) => {
            Finding::bad("engine", Health::Problem, error.message(), error.hint().unwrap_or_default())
        }
    }
}

async fn store(session: &Session) -> Vec<Finding> {
    let url = session.config.store_url();
    let shown = without_password(&url);
    if session.nothing_yet() {
        let file = url.trim_start_matches("sqlite://").split('?').next().unwrap_or_default();
        let folder = nearest_folder(Path::new(file));
        return vec![match writable(&folder) {
            Ok(()) => Finding::ok("store", format!("{shown} is not there yet; the first run makes it")),
            Err(cause) => Finding::bad(
                "store",
                Health::Problem,
                format!("{shown} cannot be made: {} cannot be written to: {cause}", folder.display()),
                "choose another place with --store sqlite://PATH, or change who may write there",
            ),
        }];
    }
    let store = match session.store().await {
        Ok(store) => store,
        Err(complaint) => {
            let text = complaint.to_string();
            let (found, hint) = text.split_once("\nhint: ").unwrap_or((&text, "see docs/statestore.md"));
            return vec![Finding::bad("store", Health::Problem, found, hint)];
        }
    };
    let mut findings = vec![Finding::ok("store", format!("{shown} opens and is up to date"))];
    match store.unattended(100).await {
        Ok(runs) if runs.is_empty() => findings.push(Finding::ok("runs", "none is left behind")),
        Ok(runs) if session.drives_itself() => findings.push(Finding::bad(
            "runs",
            Health::Warning,
            format!("{} that nobody drives, as {}", count(runs.len(), "live run"), runs[0].run_id),
            format!("drivetrain{} worker drives them; cancel RUN ends one", session.flags()),
        )),
        Ok(_) => {}
        Err(error) => {
            findings.push(Finding::bad("store", Health::Problem, error.message(), "see docs/statestore.md"));
        }
    }
    findings
}

fn equipment(config: &Config) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("handlers", format!("built in: {}", BUILT_IN.join(", ")))];
    let programs = config.exec_allow();
    if programs.is_empty() {
        findings
            .push(Finding::ok("exec", "may start nothing; allow programs with exec.allow or --allow-exec"));
    }
    for program in programs {
        let place = program.split_once('=').map_or(program.as_str(), |(_, place)| place);
        findings.push(match find_program(place, Path::new("")) {
            Some(path) => Finding::ok("exec", format!("{program} is {}", path.display())),
            None => Finding::bad(
                "exec",
                Health::Warning,
                format!("{program} is allowed and not found"),
                "install it, or write its whole path in exec.allow",
            ),
        });
    }
    let hosts = config.http_allow();
    findings.push(Finding::ok(
        "http",
        if hosts.is_empty() {
            "may call nothing; allow hosts with http.allow or --allow-http".to_owned()
        } else {
            format!("may call {}", hosts.join(", "))
        },
    ));
    if let Err(error) = check_artifacts(config) {
        findings.push(Finding::bad(
            "artifacts",
            Health::Problem,
            error.message(),
            error.hint().unwrap_or_default(),
        ));
    } else {
        findings.push(Finding::ok("artifacts", format!("large outputs go to {}", config.artifacts_url())));
    }
    if let Some(folder) = config.secrets_folder() {
        findings.push(if folder.is_dir() {
            Finding::ok("secrets", format!("file: secrets are in {}", folder.display()))
        } else {
            Finding::bad(
                "secrets",
                Health::Warning,
                format!("there is no folder {}", folder.display()),
                "make it, or change secrets.folder",
            )
        });
    }
    findings
}

/// The folder of a file, or the nearest above it that is there.
fn nearest_folder(file: &Path) -> PathBuf {
    let mut folder = file.parent().unwrap_or(Path::new("")).to_owned();
    while !folder.as_os_str().is_empty() && !folder.exists() {
        folder = folder.parent().unwrap_or(Path::new("")).to_owned();
    }
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }
}

/// Whether files can be made in a folder; leaves nothing behind.
fn writable(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".drivetrain-doctor-{}", std::process::id()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(&probe)
}
