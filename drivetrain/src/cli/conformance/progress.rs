//! What is shown while the suite runs: a bar on a terminal, a line a case elsewhere.

use std::time::Duration;

use conformance::command::Told;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::super::output::{Output, Tone, duration};

/// Shows cases as they end.
pub(super) enum Progress {
    Bar { output: Output, bar: ProgressBar, bad: usize },
    Lines(Output),
    Quiet,
}

impl Progress {
    pub(super) fn new(output: Output, cases: usize, quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        if !output.terminal {
            return Self::Lines(output);
        }
        let cases = u64::try_from(cases).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(cases), ProgressDrawTarget::stderr());
        // The template is ours; a broken one falls back to the default look.
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cases  {elapsed}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self::Bar { output, bar, bad: 0 }
    }

    pub(super) fn told(&mut self, told: Told<'_>) {
        let ended = Ended::of(told);
        match self {
            Self::Quiet => {}
            Self::Lines(output) => ended.lines(*output).iter().for_each(|line| output.line(line)),
            Self::Bar { output, bar, bad } => {
                if ended.is_bad() {
                    *bad += 1;
                    ended.lines(*output).iter().for_each(|line| bar.println(line));
                }
                let failed = if *bad > 0 { format!("{bad} not well, ") } else { String::new() };
                bar.set_message(format!("{failed}{}", ended.name));
                bar.inc(1);
            }
        }
    }

    /// Takes away what moves.
    pub(super) fn end(&self) {
        if let Self::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

/// A case or scenario that has ended.
struct Ended<'a> {
    verdict: &'a str,
    name: String,
    millis: u64,
    what: Option<&'a str>,
    evidence: &'a [String],
}

impl<'a> Ended<'a> {
    fn of(told: Told<'a>) -> Self {
        match told {
            Told::Case(case) => Self {
                verdict: &case.verdict,
                name: case.shown_name(),
                millis: case.duration_ms,
                what: case.what.as_deref(),
                evidence: &case.evidence,
            },
            Told::Scenario(scenario) => Self {
                verdict: &scenario.verdict,
                name: format!("scenario.{}", scenario.name),
                millis: scenario.duration_ms,
                what: scenario.what.as_deref(),
                evidence: &[],
            },
        }
    }

    fn is_bad(&self) -> bool {
        matches!(self.verdict, "fail" | "error")
    }

    /// What is said about it; what was recorded only where it failed.
    fn lines(&self, output: Output) -> Vec<String> {
        let tone = match self.verdict {
            "pass" => Tone::Good,
            "skipped" => Tone::Careful,
            _ => Tone::Bad,
        };
        let verdict = output.paint(tone, &format!("{:7}", self.verdict));
        let took = output.paint(Tone::Quiet, &format!("({})", duration(self.millis)));
        let mut lines = vec![format!("{verdict}  {} {took}", self.name)];
        lines.extend(self.what.map(|what| format!("         {what}")));
        lines.extend(
            self.evidence.iter().map(|line| output.paint(Tone::Quiet, &format!("         | {line}"))),
        );
        lines
    }
}
