//! How a run is shown while it goes on: bars on a terminal, plain lines elsewhere, events as JSON, or nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use engine_core::event::Event;
use engine_core::port::store::StepProgress;
use engine_core::projection::{Projection, RunSnapshot};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::arguments::WatchArguments;
use super::events::{Telling, tell};
use super::keyboard::KeysUnseen;
use super::output::{Output, Tone};

/// Shows a run.
pub(super) enum Watch {
    Bars(Box<Bars>),
    Lines(Output),
    Json(Output),
    Quiet,
}

impl Watch {
    pub(super) fn new(arguments: &WatchArguments, output: Output, steps: usize) -> Self {
        if arguments.json {
            Self::Json(output)
        } else if arguments.quiet {
            Self::Quiet
        } else if output.terminal {
            Self::Bars(Box::new(Bars::new(output, steps)))
        } else {
            Self::Lines(output)
        }
    }

    /// Shows an event; `projection` has it already.
    pub(super) fn event(&mut self, event: &Event, projection: &Projection, snapshot: &RunSnapshot) {
        match self {
            Self::Json(output) => output.json(event),
            Self::Lines(output) => {
                if let Some(telling) = tell(event) {
                    output.line(line(*output, event, snapshot, &telling));
                }
            }
            Self::Bars(bars) => bars.event(event, projection, snapshot),
            Self::Quiet => {}
        }
    }

    /// Says something to the person, beside the output.
    pub(super) fn note(&self, output: Output, text: &str) {
        match self {
            Self::Bars(bars) => bars.print(text),
            _ => output.note(text),
        }
    }

    /// Whether steps' own progress can be shown.
    pub(super) fn shows_progress(&self) -> bool {
        matches!(self, Self::Bars(_))
    }

    pub(super) fn progress(&mut self, progress: &[StepProgress]) {
        if let Self::Bars(bars) = self {
            bars.progress(progress);
        }
    }

    /// Takes away what moves.
    pub(super) fn end(&mut self) {
        if let Self::Bars(bars) = self {
            bars.end();
        }
    }
}

/// An event as a line: when, what it is about, what happened.
pub(super) fn line(output: Output, event: &Event, snapshot: &RunSnapshot, telling: &Telling) -> String {
    let begin = snapshot.queued_at.unwrap_or(event.emitted_at);
    let millis = event.happened_at().millis_since(begin);
    let when = output.paint(Tone::Quiet, &format!("{:>4}.{:03}s", millis / 1000, millis % 1000));
    let subject = event.subject.as_ref().map_or("run", |subject| subject.step.as_str());
    format!("{when}  {subject:<20}  {}", output.paint(telling.tone, &telling.text))
}

/// A bar for the run, and a line for each step in flight; what has ended goes above.
pub(super) struct Bars {
    output: Output,
    all: MultiProgress,
    whole: ProgressBar,
    steps: BTreeMap<String, ProgressBar>,
    keys: Option<KeysUnseen>,
}

impl Bars {
    fn new(output: Output, steps: usize) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let whole = all.add(ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)));
        // The templates are ours; a broken one falls back to the default look.
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {elapsed}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─");
        whole.set_style(style);
        whole.enable_steady_tick(Duration::from_millis(200));
        Self { output, all, whole, steps: BTreeMap::new(), keys: Some(KeysUnseen::new()) }
    }

    fn print(&self, text: &str) {
        let _ = self.all.println(text);
    }

    fn event(&mut self, event: &Event, projection: &Projection, snapshot: &RunSnapshot) {
        if let Some(telling) = tell(event).filter(|telling| telling.lasting) {
            self.print(&line(self.output, event, snapshot, &telling));
        }
        let counts = snapshot.progress.counts;
        self.whole
            .set_position(u64::from(counts.succeeded + counts.failed + counts.skipped + counts.cancelled));
        self.whole.set_message(projection.run().view().message);
        let Some(subject) = &event.subject else { return };
        let Some(step) = projection.run().attempt(subject.step.as_str()) else { return };
        let id = subject.step.to_string();
        if step.status == engine_core::machine::StepStatus::Running {
            let bar = self.steps.entry(id.clone()).or_insert_with(|| {
                let bar = self.all.insert_before(&self.whole, ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("  {spinner} {prefix:20} {elapsed:>4}  {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
                bar.set_style(style);
                bar.set_prefix(id);
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            });
            let doing = step
                .substatus
                .map_or_else(String::new, |substatus| substatus.as_str().to_lowercase().replace('_', " "));
            bar.set_message(doing);
        } else if let Some(bar) = self.steps.remove(&id) {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, progress: &[StepProgress]) {
        for told in progress {
            if let Some(bar) = self.steps.get(told.step_id.as_str()) {
                bar.set_message(format!("{:.0} %", told.done * 100.0));
            }
        }
    }

    fn end(&mut self) {
        for bar in std::mem::take(&mut self.steps).into_values() {
            bar.finish_and_clear();
        }
        self.whole.finish_and_clear();
        self.keys = None;
    }
}
