//! What is printed, and how: colours only on a terminal, tables aligned, and a closed pipe is no error.

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Careful,
    Quiet,
    Strong,
}

/// Where words go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    colour: bool,
    colour_errors: bool,
    /// Whether a person looks at it now, and what was written can be written over.
    pub(super) terminal: bool,
}

impl Output {
    pub(super) fn new(choice: ColourChoice) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let allowed = |terminal: bool| match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => {
                let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                terminal && !set("NO_COLOR") && !dumb
            }
        };
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self { colour: allowed(out), colour_errors: allowed(err), terminal: out && err && !dumb }
    }

    /// The text in a colour, where colours are used.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        painted(self.colour, tone, text)
    }

    /// A line on standard output.
    pub(super) fn line(self, text: impl AsRef<str>) {
        // Whoever reads may have had enough, as `head` does; that is no failure of ours.
        let _ = writeln!(std::io::stdout().lock(), "{}", text.as_ref());
    }

    /// Text on standard output, as it is.
    pub(super) fn text(self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    /// A line for the person, beside the output.
    pub(super) fn note(self, text: impl AsRef<str>) {
        let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
    }

    /// What went wrong.
    pub(super) fn error(self, text: &str) {
        let label = painted(self.colour_errors, Tone::Bad, "error:");
        self.note(format!("{label} {text}"));
    }

    /// JSON on one line.
    pub(super) fn json(self, value: &impl serde::Serialize) {
        self.line(serde_json::to_string(value).unwrap_or_default());
    }

    /// JSON for people who asked for one document.
    pub(super) fn json_document(self, value: &impl serde::Serialize) {
        self.line(serde_json::to_string_pretty(value).unwrap_or_default());
    }

    /// Rows under a head, aligned. The last column is not padded.
    pub(super) fn table(self, head: &[&str], rows: &[Vec<(Tone, String)>]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|(_, text)| text.chars().count());
            cells.chain(head.get(column).map(|text| text.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let head: Vec<(Tone, String)> = head.iter().map(|text| (Tone::Strong, (*text).to_owned())).collect();
        for row in std::iter::once(&head).chain(rows) {
            let mut line = String::new();
            for (column, (tone, text)) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                let padding = if last { 0 } else { widths[column].saturating_sub(text.chars().count()) + 2 };
                line.push_str(&self.paint(*tone, text));
                line.push_str(&" ".repeat(padding));
            }
            self.line(line.trim_end());
        }
    }
}

fn painted(colour: bool, tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Careful => "33",
        Tone::Quiet => "2",
        Tone::Strong => "1",
    };
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A duration as people say it: `12 ms`, `3.4 s`, `2 m 5 s`, `3 h 7 m`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        60_000..3_600_000 => format!("{} m {} s", millis / 60_000, millis % 60_000 / 1000),
        _ => format!("{} h {} m", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// A size as people say it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

/// `1 step`, `2 steps`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let said: Vec<String> = [7, 999, 1000, 61_900, 3_661_000].map(duration).to_vec();
        assert_eq!(said, ["7 ms", "999 ms", "1.0 s", "1 m 1 s", "1 h 1 m"]);
    }
}
