//! Every scenario on memory, SQLite and Postgres gives the trace that lies in `golden/`: one test per store and scenario.
//! After a change that is meant, `cargo xtask golden` writes them again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use conformance::in_process::InProcessHarness;
use conformance::scenario::Scenario;
use conformance::trace::{Order, Trace};
use conformance::{Stop, Timeouts, World, check};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// Whether the golden traces are written instead of compared.
const UPDATE: &str = "UPDATE_GOLDEN";

fn main() {
    let arguments = Arguments::from_args();
    let update = std::env::var_os(UPDATE).is_some();
    let mut trials =
        vec![Trial::test("every_golden_trace_has_its_scenario", every_golden_trace_has_its_scenario)];
    // What is written comes from one store; the others are compared with it afterwards.
    let stores: &[&str] = if update { &["memory"] } else { &["memory", "sqlite", "postgres"] };
    for store in stores {
        for file in files("scenarios", "yaml") {
            let name = format!("{store}::{}", stem(&file));
            trials.push(Trial::test(name, move || compare(store, &file, update)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn files(name: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|is| is == extension))
        .collect();
    files.sort();
    files
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn every_golden_trace_has_its_scenario() -> Result<(), Failed> {
    let names = |files: Vec<PathBuf>| files.iter().map(|file| stem(file)).collect::<Vec<_>>();
    let (scenarios, golden) = (names(files("scenarios", "yaml")), names(files("golden", "json")));
    if scenarios.len() < 12 {
        return Err(format!("only {} scenarios", scenarios.len()).into());
    }
    match golden.iter().find(|name| !scenarios.contains(name)) {
        Some(orphan) => Err(format!("golden/{orphan}.json has no scenario: delete it").into()),
        None => Ok(()),
    }
}

fn compare(store: &str, file: &Path, update: bool) -> Result<(), Failed> {
    let text = std::fs::read_to_string(file)?;
    let scenario = Scenario::read(&text)?;
    let trace = runtime().block_on(play(store, &stem(file), &scenario))?;
    let golden = folder("golden").join(format!("{}.json", stem(file)));
    if update {
        let written = serde_json::to_string_pretty(&Order::of(&trace))?;
        return Ok(std::fs::write(golden, written + "\n")?);
    }
    let text = std::fs::read_to_string(&golden)
        .map_err(|cause| format!("{}: {cause}: `cargo xtask golden` writes it", golden.display()))?;
    let order: Order = serde_json::from_str(&text)?;
    match order.divergence(&trace) {
        None => Ok(()),
        Some(parted) => {
            let lines: Vec<String> = trace.moments.iter().map(ToString::to_string).collect();
            Err(format!("{parted}\n{}\n`cargo xtask golden` writes it again", lines.join("\n")).into())
        }
    }
}

async fn play(store: &str, name: &str, scenario: &Scenario) -> Result<Trace, String> {
    let url = match store {
        "memory" => "memory:".to_owned(),
        "sqlite" => "sqlite:".to_owned(),
        _ => dev_servers::postgres::shared_url().map_err(|error| format!("{error:#}"))?,
    };
    let harness = Arc::new(InProcessHarness::on(&url).map_err(|error| error.to_string())?);
    let world = World::open(&*harness, name, Timeouts::default()).await.map_err(|error| error.to_string())?;
    let played = scenario.play(&world).await;
    let history = world.history().await.map_err(told)?;
    world.close().await;
    played.map_err(|stop| format!("{}\n{}", told(stop), history.lines().join("\n")))?;
    let violations: Vec<String> = check::all(&history).iter().map(ToString::to_string).collect();
    if !violations.is_empty() {
        return Err(violations.join("\n"));
    }
    history.runs.first().map(Trace::of).ok_or_else(|| "there is no run".to_owned())
}

fn told(stop: Stop) -> String {
    match stop {
        Stop::Fail(what) | Stop::Error(what) => what,
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}
