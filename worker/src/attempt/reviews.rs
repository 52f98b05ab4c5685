//! Review requests on their way into the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use engine_core::port::StepObserver;
use serde_json::Value;
use tokio::sync::Notify;

/// Review requests on their way into the log; everything else goes to who listens.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    listener: Option<Arc<dyn StepObserver>>,
    waiting: Mutex<VecDeque<(String, BTreeMap<String, Value>)>>,
    pub(super) news: Notify,
}

impl Reviews {
    pub(super) fn new(listener: Option<Arc<dyn StepObserver>>) -> Self {
        Self { listener, ..Self::default() }
    }

    pub(super) fn first(&self) -> Option<(String, BTreeMap<String, Value>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).front().cloned()
    }

    /// The first stands in the log, or never will.
    pub(super) fn done(&self, written: bool) {
        let first = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let (Some((reason, context)), Some(listener), true) = (first, &self.listener, written) {
            listener.review(&reason, context);
        }
    }
}

impl StepObserver for Reviews {
    fn progress(&self, done: f64) {
        if let Some(listener) = &self.listener {
            listener.progress(done);
        }
    }

    fn review(&self, reason: &str, context: BTreeMap<String, Value>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back((reason.to_owned(), context));
        self.news.notify_one();
    }

    fn log(&self, line: &str) {
        if let Some(listener) = &self.listener {
            listener.log(line);
        }
    }
}
