//! Recorded histories: the interpreter that is built now does what the recorded one did. `RECORD_HISTORIES=1` adds those
//! of the present version; recorded ones of a released version are never written again.

use std::path::{Path, PathBuf};

use adapter_temporal::{INTERPRETER_VERSION, replay};
use conformance::scenario::Scenario;

use crate::place::Place;

const RECORD: &str = "RECORD_HISTORIES";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|file| file.extension().is_some_and(|is| is == extension)).collect();
    files.sort();
    files
}

#[test]
fn every_recorded_history_is_replayed() {
    let mut replayed = 0;
    for version in std::fs::read_dir(here("tests/histories")).unwrap() {
        for file in files(&version.unwrap().path(), "json") {
            let result = replay(&std::fs::read(&file).unwrap());
            assert!(result.is_ok(), "{}: {result:?}", file.display());
            replayed += 1;
        }
    }
    assert!(replayed >= 10, "only {replayed} histories");
}

#[test]
fn a_history_that_the_interpreter_would_not_make_is_noticed() {
    let file = here(&format!("tests/histories/{INTERPRETER_VERSION}/diamond.json"));
    let history = std::fs::read_to_string(file).unwrap();
    assert!(history.contains("\"script\""), "the handler is the type of the activities");
    let error = replay(history.replace("\"script\"", "\"other\"").as_bytes()).unwrap_err();
    assert!(error.message().contains("nondeterministic"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_now_can_be_replayed() {
    for file in files(&here("../conformance-tests/scenarios"), "yaml") {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::read(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let place = Place::open(&name, |options| options).await;
        let played = scenario.play(&place.world).await;
        assert!(played.is_ok(), "{name}: {played:?}");
        let run_id = place.world.list().await.unwrap().first().unwrap().run_id.clone();
        let run = place.world.track(run_id, false);
        let history = place.history(&run).await;
        place.world.close().await;
        let result = replay(history.as_bytes());
        assert!(result.is_ok(), "{name}: {result:?}");
        if std::env::var_os(RECORD).is_some() {
            let folder = here(&format!("tests/histories/{INTERPRETER_VERSION}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{name}.json")), history).unwrap();
        }
    }
}
