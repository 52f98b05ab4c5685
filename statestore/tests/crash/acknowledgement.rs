//! The line that a process writes when a call was acknowledged: `3.1.17 RUN PLACE=EVENT PLACE=EVENT …`.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

use engine_core::RunId;
use uuid::Uuid;

use super::calls::CallName;

/// A call that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) call: CallName,
    pub(crate) run_id: RunId,
    /// Where its events are; none when it made a run.
    pub(crate) places: Vec<(u64, Uuid)>,
}

impl Acknowledgement {
    /// Writes the line, in one piece: a process that is killed leaves whole lines only.
    pub(crate) fn write(&self) {
        let mut output = std::io::stdout().lock();
        output.write_all(format!("{self}\n").as_bytes()).expect("somebody reads");
        output.flush().expect("somebody reads");
    }
}

impl fmt::Display for Acknowledgement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.call, self.run_id)?;
        self.places.iter().try_for_each(|(place, event_id)| write!(formatter, " {place}={event_id}"))
    }
}

impl FromStr for Acknowledgement {
    type Err = String;
    fn from_str(line: &str) -> Result<Self, String> {
        let refuse = || format!("{line:?} is not an acknowledgement");
        let place = |text: &str| {
            let (place, event_id) = text.split_once('=')?;
            Some((place.parse().ok()?, event_id.parse().ok()?))
        };
        let mut words = line.split(' ');
        let (call, run_id) = words.next().zip(words.next()).ok_or_else(refuse)?;
        Ok(Self {
            call: call.parse()?,
            run_id: RunId::new(run_id).map_err(|_| refuse())?,
            places: words.map(place).collect::<Option<_>>().ok_or_else(refuse)?,
        })
    }
}
