//! A disk that is full, and a folder that cannot be written.

use std::process::Stdio;

use crate::process::Place;

/// Runs the program with a limit on the size of files, in blocks of the shell, which stands in for a full disk.
fn limited(place: &Place, blocks: u32) -> (i32, String) {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut shell = place.command_through("bash", &["-c", &script], &["run", "examples/hello.yaml"]);
    let output = shell.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8(said).unwrap())
}

#[test]
fn a_full_disk_is_told_and_the_store_stays_sound() {
    let place = Place::new();
    for blocks in [20, 100, 200] {
        let (code, said) = limited(&place, blocks);
        assert_eq!(code, 12, "{blocks}: {said}");
        assert!(said.contains("STORE_UNAVAILABLE") || said.contains("WRITE_BUDGET_EXCEEDED"), "{said}");
    }
    // With room again the same file works, and whatever was begun is there as a whole.
    place.run(&["run", "examples/hello.yaml"]).ends(0);
    place.run(&["list"]).ends(0);
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let place = Place::new();
    let file = place.write("file", "");
    let data = format!("data_dir={file}/below");
    place.run(&["--set", &data, "run", "examples/hello.yaml"]).ends(12).says("STORE_UNAVAILABLE");
    place.run(&["--set", &data, "doctor"]).ends(1).says("cannot be made");
}
