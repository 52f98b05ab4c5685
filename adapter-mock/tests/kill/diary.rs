//! What handlers did, written beside the log: a line when a handler is entered and one when it leaves. A line is one
//! write at the end of the file, so that lines of many processes stay whole and in order.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

use engine_core::RunId;
use engine_core::port::StepContext;

/// Takes lines.
#[derive(Debug)]
pub(crate) struct Diary {
    file: File,
    generation: u32,
}

impl Diary {
    /// Goes on with a diary, or begins one.
    pub(crate) fn open(path: &Path, generation: u32) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path).expect("the diary opens");
        Self { file, generation }
    }

    /// The call that this context belongs to.
    pub(crate) fn call(&self, context: &StepContext, undoes: bool) -> CallName {
        CallName {
            run_id: context.run_id.clone(),
            step: context.step_id.to_string(),
            attempt: context.logical_attempt_id,
            number: context.engine_attempt_id,
            undoes,
            generation: self.generation,
        }
    }

    pub(crate) fn write(&self, moment: Moment, call: &CallName) {
        let line = format!("{moment:?} {call}\n");
        (&self.file).write_all(line.as_bytes()).expect("the diary takes a line");
    }

    /// Everything that was written, in order.
    pub(crate) fn read(path: &Path) -> Vec<(Moment, CallName)> {
        let text = std::fs::read_to_string(path).expect("the diary can be read");
        text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("not a line: {line:?}"))).collect()
    }
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A handler was entered.
    Enter,
    /// The log had the end of the attempt, or of its undoing, when the handler was entered.
    Late,
    /// The handler returns.
    Leave,
}

/// One call of a handler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallName {
    pub(crate) run_id: RunId,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    /// The try within the attempt.
    pub(crate) number: u32,
    pub(crate) undoes: bool,
    /// The process that made it.
    pub(crate) generation: u32,
}

impl fmt::Display for CallName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, step, attempt, number, undoes, generation } = self;
        write!(formatter, "{run_id} {step} {attempt} {number} {undoes} {generation}")
    }
}

impl FromStr for CallName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [run_id, step, attempt, number, undoes, generation] = fields[..] else {
            return Err(format!("{text:?} does not have six fields"));
        };
        let number_of = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
        Ok(Self {
            run_id: RunId::new(run_id).map_err(|error| error.to_string())?,
            step: step.to_owned(),
            attempt: number_of(attempt)?,
            number: number_of(number)?,
            undoes: undoes == "true",
            generation: number_of(generation)?,
        })
    }
}

fn parse(line: &str) -> Option<(Moment, CallName)> {
    let (moment, call) = line.split_once(' ')?;
    let moment = [Moment::Enter, Moment::Late, Moment::Leave]
        .into_iter()
        .find(|known| format!("{known:?}") == moment)?;
    Some((moment, call.parse().ok()?))
}

/// Lines by run.
pub(crate) fn by_run(lines: Vec<(Moment, CallName)>) -> BTreeMap<RunId, Vec<(Moment, CallName)>> {
    let mut by_run: BTreeMap<RunId, Vec<(Moment, CallName)>> = BTreeMap::new();
    for (moment, call) in lines {
        by_run.entry(call.run_id.clone()).or_default().push((moment, call));
    }
    by_run
}
