//! A kept Postgres: found again, started again, taken down.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

use std::path::{Path, PathBuf};
use std::process::Command;

use dev_servers::keep::{Keeper, Kept, ServerKind};

/// Takes the server down also when the test fails.
struct Keeping {
    keeper: Keeper,
    folder: tempfile::TempDir,
}

impl Keeping {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { keeper: Keeper::in_folder(folder.path().to_owned()), folder }
    }

    fn up(&self) -> Kept {
        self.keeper.up(ServerKind::Postgres).unwrap()
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let _ = self.keeper.down(ServerKind::Postgres);
    }
}

fn process_in(directory: &Path) -> u32 {
    let text = std::fs::read_to_string(directory.join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().parse().unwrap()
}

#[test]
fn a_second_up_finds_the_running_server_and_down_ends_it() {
    let keeping = Keeping::new();
    let first = keeping.up();
    assert!(first.address.starts_with("postgres://drivetrain@127.0.0.1:"), "{}", first.address);
    assert_eq!(first.process, process_in(&first.directory));
    assert_eq!(keeping.up(), first);
    // Another command knows no more than the folder.
    let other = Keeper::in_folder(keeping.folder.path().to_owned());
    assert_eq!(other.status(ServerKind::Postgres).unwrap().as_ref(), Some(&first));
    assert!(other.down(ServerKind::Postgres).unwrap());
    assert_eq!(other.status(ServerKind::Postgres).unwrap(), None);
    assert!(!first.directory.exists());
    assert!(!PathBuf::from(format!("/proc/{}/root", first.process)).exists(), "the process ended");
    assert!(!other.down(ServerKind::Postgres).unwrap());
}

#[test]
fn a_server_that_was_ended_from_outside_comes_up_again_on_its_data_and_port() {
    let keeping = Keeping::new();
    let first = keeping.up();
    let mark = first.directory.join("data/mark");
    std::fs::write(&mark, "").unwrap();
    let script = r#"kill -s QUIT "$1"; while [ -e "$2" ]; do :; done"#;
    let process_file = first.directory.join("data/postmaster.pid");
    let status = Command::new("sh")
        .args(["-c", script, "sh", &first.process.to_string()])
        .arg(&process_file)
        .status()
        .unwrap();
    assert!(status.success());
    let second = keeping.up();
    assert_ne!(second.process, first.process);
    assert_eq!((second.address, second.directory), (first.address, first.directory));
    assert!(mark.exists());
}

#[test]
fn files_that_were_never_finished_are_made_anew() {
    let keeping = Keeping::new();
    let unfinished = tempfile::tempdir().unwrap().keep();
    let record = format!(r#"{{"directory":"{}","process":null,"port":null}}"#, unfinished.display());
    std::fs::write(keeping.folder.path().join("postgres.json"), record).unwrap();
    assert_ne!(keeping.up().directory, unfinished);
    assert!(!unfinished.exists());
}
