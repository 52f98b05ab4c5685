//! What a handler tells while it runs, without secrets, and its progress not too often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use engine_core::port::store::StepProgress;
use engine_core::port::{StateStore, StepObserver, Timekeeper};
use engine_core::{RunId, StepId, Timestamp};
use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use serde_json::Value;

use crate::redact::Redactor;

/// How often progress is published at most (contract §4).
const PROGRESS_EVERY_MS: u64 = 500;

/// No progress is this number: it is not a number.
const NOTHING: u64 = u64::MAX;

/// The longest line that is handed on.
const LONGEST_LINE: usize = 16 * 1024;

/// Stands between a handler and whoever listens.
#[derive(Debug)]
pub(crate) struct Observer {
    listener: Arc<dyn StepObserver>,
    redactor: Redactor,
    /// The latest progress that nobody has taken, as the bits of a number.
    latest: AtomicU64,
    waker: AtomicWaker,
}

impl Observer {
    pub(crate) fn new(listener: Arc<dyn StepObserver>, redactor: Redactor) -> Self {
        Self { listener, redactor, latest: AtomicU64::new(NOTHING), waker: AtomicWaker::new() }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    fn take(&self) -> Option<f64> {
        let bits = self.latest.swap(NOTHING, Ordering::AcqRel);
        (bits != NOTHING).then(|| f64::from_bits(bits))
    }

    fn has_news(&self) -> bool {
        self.latest.load(Ordering::Acquire) != NOTHING
    }
}

impl StepObserver for Observer {
    fn progress(&self, done: f64) {
        if done.is_finite() {
            self.latest.store(done.clamp(0.0, 1.0).to_bits(), Ordering::Release);
            self.waker.wake();
        }
    }

    fn review(&self, reason: &str, mut context: BTreeMap<String, Value>) {
        if self.redactor.is_empty() {
            self.listener.review(reason, context);
            return;
        }
        context = context.into_iter().map(|(name, value)| (self.redactor.text(&name), value)).collect();
        context.values_mut().for_each(|value| self.redactor.value(value));
        self.listener.review(&self.redactor.text(reason), context);
    }

    fn log(&self, line: &str) {
        // First without secrets, then shorter: half a secret would not be found.
        if self.redactor.is_empty() {
            self.listener.log(shortened(line, LONGEST_LINE));
        } else {
            self.listener.log(shortened(&self.redactor.text(line), LONGEST_LINE));
        }
    }
}

/// The beginning of a text, cut between two characters.
pub(crate) fn shortened(text: &str, longest: usize) -> &str {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Carries progress from the observer to the store, within the task that drives the handler.
pub(crate) struct Pump<'a> {
    pub(crate) observer: &'a Arc<Observer>,
    pub(crate) store: &'a Arc<dyn StateStore>,
    pub(crate) time: &'a Arc<dyn Timekeeper>,
    pub(crate) run_id: &'a RunId,
    pub(crate) step_id: &'a StepId,
    pub(crate) attempt: u32,
    next: Option<Timestamp>,
    waiting: Option<BoxFuture<'static, ()>>,
    writing: Option<BoxFuture<'static, ()>>,
}

impl<'a> Pump<'a> {
    pub(crate) fn new(
        observer: &'a Arc<Observer>,
        store: &'a Arc<dyn StateStore>,
        time: &'a Arc<dyn Timekeeper>,
        (run_id, step_id, attempt): (&'a RunId, &'a StepId, u32),
    ) -> Self {
        Self { observer, store, time, run_id, step_id, attempt, next: None, waiting: None, writing: None }
    }

    /// Goes on with what there is to do; never done.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        self.observer.waker.register(context.waker());
        loop {
            if let Some(writing) = &mut self.writing {
                if writing.poll_unpin(context).is_pending() {
                    return;
                }
                self.writing = None;
            }
            if !self.observer.has_news() {
                return;
            }
            let now = self.time.now();
            if let Some(next) = self.next.filter(|next| now < *next) {
                let waiting = self.waiting.get_or_insert_with(|| self.time.alarm(next));
                if waiting.poll_unpin(context) == Poll::Pending {
                    return;
                }
            }
            self.waiting = None;
            if let Some(done) = self.observer.take() {
                self.next = Some(now.plus_millis(PROGRESS_EVERY_MS));
                self.observer.listener.progress(done);
                self.writing = Some(self.write(done, now));
            }
        }
    }

    /// Writes what is left: progress stays visible when an attempt fails or is cancelled.
    pub(crate) async fn flush(mut self) {
        if let Some(writing) = self.writing.take() {
            writing.await;
        }
        if let Some(done) = self.observer.take() {
            self.observer.listener.progress(done);
            self.write(done, self.time.now()).await;
        }
    }

    fn write(&self, done: f64, at: Timestamp) -> BoxFuture<'static, ()> {
        let (store, run_id) = (self.store.clone(), self.run_id.clone());
        let progress = StepProgress { step_id: self.step_id.clone(), attempt: self.attempt, done, at };
        Box::pin(async move {
            // Progress may be lost: only the newest counts, and nothing is decided by it.
            if let Err(error) = store.note_progress(&run_id, progress).await {
                tracing::debug!(%run_id, %error, "progress was not noted");
            }
        })
    }
}
