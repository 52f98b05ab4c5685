//! On a terminal: what a person sees while a run goes on, and Ctrl-C as the keyboard sends it.
//!
//! The terminal is a pseudo-terminal of the kernel, by `rustix`, which the workspace uses anyway; `setsid` of util-linux
//! makes it the program's own, without which no key would become a signal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Child;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::plans::{FOREVER, SLOW};
use crate::process::Place;
use crate::screen::{Screen, without_control};

const COLUMNS: u16 = 110;

/// A terminal with the program on it.
struct Terminal {
    keyboard: File,
    child: Child,
    seen: Vec<u8>,
}

impl Terminal {
    fn start(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize { ws_row: 40, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let name = OsStr::from_bytes(name.as_bytes());
        let open = || File::options().read(true).write(true).open(name).unwrap();
        let mut command = place.command_through("setsid", &["--ctty"], arguments);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(variables.iter().copied());
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        // The command holds the terminal open; without it, the end of the program is the end of what can be read.
        drop(command);
        Self { keyboard: File::from(keyboard), child, seen: Vec::new() }
    }

    /// Reads what comes next; nothing once the program is gone.
    fn read(&mut self) -> usize {
        let mut buffer = [0; 4096];
        // Linux answers with an error when nobody has the other side any more.
        let length = self.keyboard.read(&mut buffer).unwrap_or(0);
        self.seen.extend(&buffer[..length]);
        length
    }

    fn text(&self) -> String {
        without_control(&String::from_utf8_lossy(&self.seen))
    }

    /// Waits until these words were shown, wherever.
    fn wait_for(&mut self, words: &str) {
        while !self.text().contains(words) {
            assert!(self.read() > 0, "it ended before it showed {words:?}: {}", self.text());
        }
    }

    fn press_ctrl_c(&mut self) {
        self.keyboard.write_all(b"\x03").unwrap();
    }

    /// Waits for the end, and gives the exit code, what is left on the screen, and everything that was sent to it.
    fn end(mut self) -> (i32, String, String) {
        while self.read() > 0 {}
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let sent = String::from_utf8(self.seen.clone()).unwrap();
        let mut screen = Screen::new(usize::from(COLUMNS));
        screen.show(&sent);
        (code, screen.text(), sent)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a screen, with the id of the run and times replaced.
fn lines(screen: &str) -> Vec<String> {
    let id = screen.split_whitespace().nth(1).unwrap_or_default().trim_end_matches(':').to_owned();
    let time = |line: &str| match line.split_once("s  ") {
        Some((time, rest)) if time.trim().chars().all(|letter| letter.is_ascii_digit() || letter == '.') => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    screen.lines().map(|line| time(&line.replace(&id, "RUN"))).collect()
}

#[test]
fn a_bar_and_a_line_for_each_step_are_shown_and_go_away() {
    let place = Place::new();
    let plan = place.write("slow.yaml", SLOW);
    let mut terminal = Terminal::start(&place, &["run", &plan], &[]);
    terminal.wait_for("0/2 steps");
    terminal.wait_for("1 step in flight");
    terminal.wait_for(" first ");
    terminal.wait_for("1/2 steps");
    let (code, screen, sent) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(sent.contains("\u{1b}[32msucceeded"), "in colour");
    let lines = lines(&screen);
    assert_eq!(
        lines[1..3],
        ["first                 succeeded", "second                succeeded"],
        "{screen}"
    );
    assert!(lines[3].starts_with("run RUN COMPLETED (SUCCESS) after "), "the bars are gone: {screen}");
}

#[test]
fn ctrl_c_pauses_drains_and_leaves_a_clean_screen_with_the_command_to_resume() {
    let place = Place::new();
    let plan = place.write("slow.yaml", SLOW);
    let mut terminal = Terminal::start(&place, &["run", &plan], &[]);
    terminal.wait_for(" first ");
    terminal.press_ctrl_c();
    terminal.wait_for("pausing: what is in flight finishes first");
    let (code, screen, _) = terminal.end();
    assert_eq!(code, 7, "{screen}");
    let lines = lines(&screen);
    let shown = [
        "pausing: what is in flight finishes first; Ctrl-C again cancels the run",
        "run                   PAUSE by jane",
        "run                   paused (signal): Ctrl-C",
        "first                 succeeded",
    ];
    assert_eq!(lines[1..5], shown, "{screen}");
    assert!(lines[5].starts_with("run RUN PAUSED after "), "{screen}");
    assert_eq!(lines[6..8], ["the run is paused; to go on:", "  drivetrain resume RUN"], "{screen}");
}

#[test]
fn ctrl_c_twice_cancels() {
    let place = Place::new();
    let plan = place.write("forever.yaml", FOREVER);
    let mut terminal = Terminal::start(&place, &["run", &plan], &[]);
    terminal.wait_for(" wait ");
    terminal.press_ctrl_c();
    terminal.wait_for("paused (signal): Ctrl-C");
    terminal.press_ctrl_c();
    let (code, screen, _) = terminal.end();
    assert_eq!(code, 6, "{screen}");
    assert!(screen.contains("CANCELLED after "), "{screen}");
}

#[test]
fn without_colours_there_are_bars_and_no_colours() {
    let place = Place::new();
    let terminal = Terminal::start(&place, &["run", "examples/hello.yaml"], &[("NO_COLOR", "1")]);
    let (code, screen, sent) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(sent.contains("steps") && sent.contains("\u{1b}[2K"), "bars: {sent}");
    let colours = sent.split("\u{1b}[").skip(1).filter(|rest| {
        rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';').starts_with('m')
    });
    assert_eq!(colours.count(), 0, "{sent:?}");
}

#[test]
fn where_nothing_can_be_redrawn_there_are_plain_lines() {
    let place = Place::new();
    let said = place.run(&["run", "examples/hello.yaml"]).ends(0).says("started (echo)");
    assert!(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "{said:?}");
    let terminal = Terminal::start(&place, &["run", "examples/hello.yaml"], &[("TERM", "dumb")]);
    let (code, screen, sent) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!sent.contains('\u{1b}') && sent.contains("started (echo)"), "{sent:?}");
}
