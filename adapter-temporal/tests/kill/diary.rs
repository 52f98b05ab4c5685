//! What handlers write down outside of everything that is tested: a file that processes share.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine_core::Timestamp;
use engine_core::port::Clock as _;
use worker::MachineTime;

/// A file that handlers add to.
#[derive(Clone, Debug)]
pub(crate) struct Diary(PathBuf);

/// One call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) run: String,
    pub(crate) step: String,
    pub(crate) at: Timestamp,
}

impl Diary {
    pub(crate) fn at(folder: &Path) -> Self {
        Self(folder.join("diary"))
    }

    /// Notes that a handler was called.
    pub(crate) fn note(&self, run: &str, step: &str) {
        let line = format!("{run} {step} {}\n", MachineTime.now().as_millis());
        let mut file = File::options().create(true).append(true).open(&self.0).unwrap();
        // One write: lines of several processes do not mix.
        file.write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let read = |line: &str| {
            let mut words = line.split(' ');
            let (run, step) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some(Call { run, step, at: Timestamp::from_millis(words.next()?.parse().ok()?) })
        };
        text.lines().filter_map(read).collect()
    }

    /// Waits until there are more calls than before, and says how long that took.
    pub(crate) async fn grows(&self, before: usize, by: usize, limit: Duration) -> Duration {
        let began = Instant::now();
        while self.calls().len() < before + by {
            assert!(began.elapsed() < limit, "only {} calls after {limit:?}", self.calls().len() - before);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        began.elapsed()
    }
}
